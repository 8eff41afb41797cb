"""From the text of queries to plans for the engine, and back to words: what runs, and why.

    calibrate                              what things cost on this machine
    explain                                the plan, for people and for programs
    split                                  by which key work can be spread
    hopping    share                       the cheapest modes; what queries have in common
    plan                                   which operators
    costs      rewrite                     what they cost; the same in a better form
    bind       names                       what names mean; functions and their types
    read                                   text to statements
    tree                                   what a query asks for

Each room imports only rooms below it, and the engine's plans. Read first: one query's way, from
`read/parse.py` over
`bind/bind.py` to `plan/plan_query.py`.
"""

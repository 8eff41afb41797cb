"""`make draws`: drawn tests draw new cases until time is up, and what fails becomes a named case.

    main.py            rounds of all drawn tests, each with another seed
    note_failures.py   what pytest does in a round: drawn tests alone, in another order, failures written down
    named_cases.py     the file of named cases, and its cases as tests beside those that found them
    named_cases.txt    the cases; every test run replays them

Everywhere else tests draw the same cases in every run, so that none depends on luck.
"""

"""`make fuzz`: engines driven through everything at once, and asked at many instants what DuckDB says.

    script.py   what is done with an engine, as data: options, queries, pushes, what happens to them
    ask.py      queries: trees of every operator, how they read the streams, when their rows enter and leave
    entry.py    which rows of streams are taken: a definition row by row
    draw.py     a script for each seed
    drive.py    does what a script says and keeps what queries give
    mischief.py what must leave an engine as it is
    judge.py    compares that with plain SQL over what the windows hold
    shrink.py   the smallest script that still fails, written as a program
    main.py     many seeds

A script that failed is kept by name in tests/laws/test_fuzz_found.py.
"""

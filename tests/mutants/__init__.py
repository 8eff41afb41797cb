"""`make mutants`: wrong versions of the engine, one small edit each, that some test ought to notice.

    who_calls.py   which tests run which function, and how long they take
    edits.py       the edits that can be made to a function
    main.py        a sample of edits, each tried by the tests that run the function, quickest first
    explained.txt  survivors that somebody has looked at and that are no defect of the tests, with the reason

A mutant that survives is a hole in the tests, or shows a line that has no effect.
"""

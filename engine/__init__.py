"""The engine: runs plans over streams. It knows nothing of SQL, of costs or of files, and reads no clock.

A plan comes in from above, rows come in from below; each room imports only rooms below it:

    checkpoints                                    all of it as bytes, and back
    running                                        plans at work
    panes      hopping                             whole answers at boundaries
    ordered_keys                                   what keys that grow make final, without windows
    changes                                        answers that change
    join_forms | chain | many_joins | joins        pairs of rows in windows
    windows    selects                             what a stream gives to those who read it
    shelves                                        rows that are kept, once for all who need them
    members    results    indexes                  who asks; what waits for the user; rows by key
    plan                                           what there is to run
    intake     flow                                how rows come in, and get from one operator to the next
    keys       expressions                         what a row says, and equals
    views      rows                                what a row is, and where it lies
    restoring                                      what must hold of state that comes back
    kernels                                        loops over arrays, compiled

Read first: one push, from `intake/ingest.py` over `flow/queue.py` and `joins/window_join.py` to
`results/sink.py`.
"""

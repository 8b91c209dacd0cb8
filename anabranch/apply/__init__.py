"""The engine from trail to target: epochs of committed transactions, carried out set-wise, checked, and committed with
the checkpoint.

`run.py` the process · `epoch.py` one epoch, the quick and the slow way · `small.py`, `pipelines.py` small transactions, each
committed by itself · `plan.py` stages of an epoch, `stage.py` the values between planning and carrying out · `onebyone.py` the
slow way's steps · `images.py`, `compact.py`, `row_identity.py` row images to net changes · `window.py` the load's windows ·
`patience.py` how long an end is waited for.

Rooms: `cascades/` what foreign keys do that the log leaves out · `aside/` rows that are set aside · `life/` a table's way
in and out, between two epochs.
"""

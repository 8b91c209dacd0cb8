"""The engine from trail to target: epochs of committed transactions, carried out set-wise, checked, and committed with
the checkpoint.

`run.py` the process, `chores.py` what it does between two epochs · `epoch.py` along the trail · `progress.py` where the target
stands, `work.py` what an epoch changes of it · `carry_out.py` the contract of changing a target, `merge_carrier.py` by net
changes, `set_wise.py` and `row_by_row.py` its two ways, `small.py` and `pipelines.py` many small transactions · `plan.py`
stages of an epoch, `row_steps.py` the slow way's steps, `stage.py` the values between planning and carrying out ·
`images.py`, `compact.py`, `row_identity.py` row images to net changes · `window.py` the load's windows · `patience.py` how long
an end is waited for · `settings.py`, `tables.py` what the job says.

Rooms: `cascades/` what foreign keys do that the log leaves out · `aside/` rows that are set aside · `life/` a table's way
in and out, between two epochs.
"""

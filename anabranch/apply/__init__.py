"""The engine from trail to target: epochs of committed transactions, carried out set-wise, checked, and committed with
the checkpoint.

`epoch.py` one epoch, the quick and the slow way ·
`small.py`, `pipelines.py` small transactions, each committed by itself · `plan.py` stages of an epoch ·
`images.py`, `compact.py` row images to net changes · `cascade.py` what the log leaves out · `window.py` the load's
windows · `patience.py` how long an end is waited for · `run.py` the process.
"""

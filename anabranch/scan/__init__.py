"""Engine: the source's values against the target, before a load: which of them it would refuse, and which would change.

`plan.py` cuts tables into pieces, `trying.py` is one piece inside a task, `changed.py` compares what was sent with what came
back, `run.py` drives, `report.py` gathers. Rows take the load's own way (the source's reader, the target's loader), into a
table of which nothing stays (contracts/trial.py), so there is no second list of rules. What does not live here: whether the
job's settings and servers fit (preflight/), comparing both ends behind a load (verify/).
"""

"""Operations of a table's life: what a person or a job file does to tables.

`beginning.py` a trail, and what both ends need first · `loading.py` all tables, `loading_one.py` one of them with
`joining.py` and `joining_target.py`, both by `copying.py` and `load_refusals.py` · `parking.py`, `asides.py`, `skipping.py`,
`repairing.py` ways out of trouble · `rewinding.py` going back · `planning.py` an edited job file. They take a `JobView`, and
meet the engines in the trail and in the state tables.

What does not live here: processes and their signals, what is shown (`job/`).
"""

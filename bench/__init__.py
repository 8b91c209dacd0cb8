"""The figures of the product, each against its ceiling in the same run. `python -m bench --help`; results in README.md.

One file per workload (`load.py`, `capture.py`, `catchup.py`, `latency.py`), and what they share: `stand.py` servers and
job files, `orders.py` the table and its changes, `processes.py` programs and what they cost, `figures.py` lines and goals.
"""

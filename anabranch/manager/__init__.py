"""The manager: many jobs of one machine, kept, started, watched and shown. It knows jobs, never rows.

`manager.py` is the whole; `store.py` keeps what it knows in one SQLite file; `jobs.py` has the job files and their versions,
`supervising.py` their processes; `accounts.py`, `tokens.py` and `sessions.py` say who somebody is, `callers.py` what they may
do, and `audit.py` what they did; `secrets.py` keeps what `${…}` stands for, `environment.py`
gives it to jobs. `monitoring.py` looks at the jobs each second (`measures.py`), for
`statistics.py`. What does not live here: HTTP (`api/`, `console/`), what a job does (`job/`).
"""

from __future__ import annotations

from anabranch.manager.manager import Manager

__all__ = ["Manager"]

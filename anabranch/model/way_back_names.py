"""Names of the jobs that lead back: `shop-reverse` is the way back of `shop`.

What does not live here: what such a job does (`rules/way_back.py`).
"""

from __future__ import annotations

SUFFIX = "-reverse"
NAME_LIMIT = 63  # letters of a job's name


def name_of(job: str) -> str:
    """Return the name of a job's way back."""
    return job[: NAME_LIMIT - len(SUFFIX)] + SUFFIX

"""A job as its operations see it: the value, what it opens, and what is asked before anything is done.

`job_view.py` the value · `options.py` and `opened.py` its ends · `identity.py` and `definitions.py` what its trail says ·
`refusals.py`, `running.py` and `alone.py` what may not go on together. `Job` (job/) is this value with users' verbs.
"""

from __future__ import annotations

from anabranch.view.job_view import JobView

__all__ = ["JobView"]

"""Is this job possible? Every check of both ends and of the rules, all at once, before a row moves.

`run.py` asks, `rules.py` checks the job file against the source's tables, `known.py` knows what the job has begun,
`cascades.py` looks at foreign keys that the log does not show, `report.py` shows. What does not live here:
the checks of one database (`connectors/<db>/<role>/preflight.py`).
"""

from __future__ import annotations

from anabranch.preflight.report import Report
from anabranch.preflight.run import preflight

__all__ = ["Report", "preflight"]

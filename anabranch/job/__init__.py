"""A job as an object: every verb of the command line, for Python programs and notebooks alike.

`job.py` the object · `beginning.py` what is prepared first · `parts.py` capture, load, apply in this process ·
`supervisor.py` all parts as children · `status.py`, `drop.py`.
"""

from __future__ import annotations

from anabranch.job.job import Job

__all__ = ["Job"]

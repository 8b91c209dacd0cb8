"""The sections of the job file as pydantic models: `[apply]` is in `apply.py`. The text under a field is its entry in the
reference page (docs/generate.py reads it).

What does not live here: the whole file (`config/job.py`); values that several sections take (`config/values.py`).
"""

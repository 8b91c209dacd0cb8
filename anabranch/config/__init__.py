"""The job file: read, checked, and turned into values that every engine can use.

`load_job` is the way in (`reading.py`); `job.py` is the whole as a pydantic model, `sections/` has one for each section, the
only models of the product; `url.py` makes endpoints of URLs; `patterns.py` matches table names; `lines.py` finds the line of a
key; `changes.py` says how a job differs from the one last run; `targets.py` looks at several targets together; `toml_text.py`
writes values; `rule_text.py` takes rules out of a file and puts them into another one. What does not live here: anything that
talks to a database or knows its columns.
"""

from __future__ import annotations

from anabranch.config.changes import describe_change
from anabranch.config.job import ONLY, JobConfig
from anabranch.config.reading import load_job, parse_job, raw_job
from anabranch.config.sections.rules import Rule
from anabranch.config.sections.tables import TableEntry
from anabranch.errors import Problem

__all__ = ["ONLY", "JobConfig", "Problem", "Rule", "TableEntry", "describe_change", "load_job", "parse_job", "raw_job"]

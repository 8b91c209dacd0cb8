"""Python runs this at its start where the folder is in PYTHONPATH: tables are cut into chunks of few rows, so that a small
table is loaded by many tasks."""

from __future__ import annotations

from dataclasses import replace

from anabranch import pace

pace.use(replace(pace.current, load_rows=(1500, 1500)))

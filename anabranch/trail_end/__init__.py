"""A trail as the end of a job: what stands there in the place of a database.

A capture whose target is a trail needs no database behind it, and an apply whose source is a trail never asks the database
that it came from. What the one asks of its target, and the other of its source, stands in files of the trail's folder `load`:
rows of the initial load with the places of the log at which they were read (`chunk_files.py`, `manifests.py`), and facts about
the source (`facts.py`). Definitions and changes are the trail's own.
"""

from __future__ import annotations

from anabranch.databases import SOURCE, TARGET, TRAIL, Database

DATABASE = Database(
    TRAIL, "a trail", 0, (SOURCE, TARGET), url_options=(), needs_user=False, module="anabranch.trail_end"
)

"""The reference twin: a database inside this process, in both roles, for tests of what databases have in common.

It does what the contracts say and nothing more, slowly and plainly: text forms in dictionaries, one lock. Databases are
named by the endpoint's `database` and live as long as the process (`database.py`).
"""

from __future__ import annotations

from anabranch.databases import SOURCE, TARGET, Database

DATABASE = Database("memory", "the twin", 0, (SOURCE, TARGET), url_options=(), needs_user=False)

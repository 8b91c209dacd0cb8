"""Types that extensions bring: are they there?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from anabranch.abc import CheckResult
from anabranch.connectors.postgresql import ddl
from anabranch.connectors.postgresql.fits import split_type
from anabranch.connectors.postgresql.preflight_facts import Live, failed, ok, some, value_rules
from anabranch.connectors.postgresql.typemap import EXTENSIONS, PostgresTypes

INSTALLED = "SELECT EXISTS (SELECT FROM pg_extension WHERE extname = %s)"


def check_extensions(live: Live) -> Iterator[CheckResult]:
    """PostGIS, pgvector and citext, where the job's columns take a type of theirs."""
    needed: dict[str, list[str]] = defaultdict(list)
    for table in live.context.targets.values():
        for name, logical in zip(table.columns, table.types, strict=True):
            native = split_type(PostgresTypes().fit(logical, value_rules(live.context)).native)[0]
            if native in EXTENSIONS:
                needed[EXTENSIONS[native]].append(f"{table.source}.{name}")
    for extension, columns in sorted(needed.items()):
        if live.true(INSTALLED, extension):
            yield ok("extensions", f"{extension} is installed")
        else:
            message = f"{some(columns)} need the extension {extension}, which is not installed in this database"
            yield failed("extensions", message, f"CREATE EXTENSION {ddl.quote(extension)}", names=columns)

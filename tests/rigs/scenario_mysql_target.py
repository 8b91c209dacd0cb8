"""A job whose target is a MySQL or MariaDB. The state of all jobs there is in one database, so that each scenario's job has a
name of its own; its tables go to `made.there`, another database than the source's, which may be the same server's.

What does not live here: everything that a scenario of a PostgreSQL target does, too (scenario.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from anabranch.testing.databases import Database, create_database, drop_database, unique_name
from anabranch.testing.servers import Server
from rigs.scenario import UTC_AT_MYSQL, Running, Scenario, source_value, ticked
from rigs.scenario_postgresql import FromPostgres

# Column types of these sources and a MySQL's expression for what PostgreSQL prints of such a column.
PRINTED = {
    "bytea": "CONCAT('\\\\x', LOWER(HEX({})))",
    "boolean": "CASE {} WHEN 1 THEN 'true' WHEN 0 THEN 'false' END",
    "timestamp without time zone": "TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM CAST({} AS CHAR)))",
    "timestamp with time zone": "CONCAT(TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM CAST({} AS CHAR))), '+00')",
    "double precision": "{}",
    "integer": "CAST({} AS CHAR)",
    "bigint": "CAST({} AS CHAR)",
    "date": "CAST({} AS CHAR)",
}


class AtMysql(Scenario):
    """`target` is the database of the tables, whose server is the target as a whole."""

    @property
    def there(self) -> str:
        return self.target.name

    @property
    def target_path(self) -> str:
        return ""

    def wait_streaming(self, running: Running | None = None, seconds: float = 240.0) -> None:
        super().wait_streaming(running, seconds)

    def sync(self, running: Running | None = None, seconds: float = 240.0) -> None:
        super().sync(running, seconds)

    def facts(self, table: str) -> dict[str, Any]:
        query = "SELECT facts FROM anabranch.table_state WHERE job = %s AND source_table = %s"
        return dict(json.loads(self.target.query(query, [self.name, f"{self.schema}.{table}"])[0][0]))

    def reason(self, table: str) -> str:
        query = "SELECT reason FROM anabranch.table_state WHERE job = %s AND source_table = %s"
        return str(self.target.query(query, [self.name, f"{self.schema}.{table}"])[0][0])


class MysqlToMysql(AtMysql):
    """Both ends speak MySQL's protocol: they are asked alike."""

    def target_rows(
        self, table: str, columns: Sequence[str] | None = None, where: str = "TRUE", relation: str = ""
    ) -> list[tuple[Any, ...]]:
        types = dict(self.source_columns(table))
        names = list(columns or types)
        shown = ", ".join(ticked(n) + "+0e0" * types[n].startswith("float") for n in names)
        query = f"SELECT {shown} FROM {relation or f'`{self.there}`.{ticked(table)}'} WHERE {where}"
        rows = self.target.query(query, init_command=UTC_AT_MYSQL)
        return sorted((tuple(map(source_value, row, (types[n] for n in names))) for row in rows), key=repr)


class PostgresToMysql(FromPostgres, AtMysql):
    """The source prints its values; the target is asked for the same texts."""

    def target_rows(
        self, table: str, columns: Sequence[str] | None = None, where: str = "TRUE", relation: str = ""
    ) -> list[tuple[Any, ...]]:
        types = dict(self.source_columns(table))
        shown = ", ".join(PRINTED.get(types[name], "CAST({} AS CHAR)").format(f"`{name}`") for name in columns or types)
        rows = self.target.query(f"SELECT {shown} FROM {relation or f'`{self.there}`.`{table}`'} WHERE {where}")
        return sorted((tuple(None if value is None else _text(value) for value in row) for row in rows), key=repr)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


@contextmanager
def job_at_mysql(
    source: Database, server: Server, directory: Path, *, is_quick: bool, **options: Any
) -> Iterator[AtMysql]:
    """A job between a database and a new one at a MySQL or MariaDB. Behind it neither that nor its state is there."""
    there = create_database(server, "there")
    kind = PostgresToMysql if source.server.name == "postgresql" else MysqlToMysql
    made = kind(source, there, directory, name=unique_name("job"), is_quick=is_quick, **options)
    try:
        yield made
    finally:
        made.close()
        made.cli("drop", "--execute", code=None)
        drop_database(there)

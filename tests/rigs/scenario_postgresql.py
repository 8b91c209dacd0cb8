"""A job whose source is a PostgreSQL. Both ends are compared by what they print; where releases print otherwise, by bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.testing.databases import Database
from rigs.scenario import Scenario, quote

ALIKE = "-c timezone=UTC -c extra_float_digits=3 -c search_path=pg_catalog"
# From 12 on the fewest digits that tell a number are printed, before one or two more.
# https://www.postgresql.org/docs/12/release-12.html
FEWEST_DIGITS = 12
FLOATS = {
    "real": "float4send",
    "double precision": "float8send",
    "real[]": "array_send",
    "double precision[]": "array_send",
    "point": "point_send",
    "line": "line_send",
    "lseg": "lseg_send",
    "box": "box_send",
    "box[]": "array_send",
    "path": "path_send",
    "polygon": "poly_send",
    "circle": "circle_send",
}


class FromPostgres(Scenario):
    @property
    def schema(self) -> str:
        return "public"

    @property
    def source_path(self) -> str:
        return f"/{self.source.name}"

    @property
    def slot(self) -> str:
        """The one that the job has made."""
        return str(
            self.source.query("SELECT slot_name FROM pg_replication_slots WHERE database = current_database()")[0][0]
        )

    def source_tables(self) -> list[str]:
        query = (
            "SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')"
            " AND NOT relispartition ORDER BY 1"
        )
        return [name for (name,) in self.source.query(query)]

    def source_columns(self, table: str) -> list[tuple[str, str]]:
        query = (
            "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute"
            " WHERE attrelid = format('public.%%I', %s::text)::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
        )
        return self.source.query(query, [table])

    def source_rows(
        self, table: str, columns: Sequence[str] | None = None, where: str = "TRUE"
    ) -> list[tuple[Any, ...]]:
        return self._rows(self.source, f"public.{quote(table)}", self._shown(table, columns), where)

    def target_rows(
        self, table: str, columns: Sequence[str] | None = None, where: str = "TRUE", relation: str = ""
    ) -> list[tuple[Any, ...]]:
        return self._rows(self.target, relation or f"public.{quote(table)}", self._shown(table, columns), where)

    def _shown(self, table: str, columns: Sequence[str] | None) -> str:
        """What both ends are asked for."""
        types = dict(self.source_columns(table))
        prints_alike = int(self.source.server.version.partition(".")[0]) >= FEWEST_DIGITS
        send = {} if prints_alike else {name: FLOATS[type] for name, type in types.items() if type in FLOATS}
        names = [(quote(name), send.get(name)) for name in columns or types]
        return ", ".join(
            f"encode({function}({name}), 'hex')" if function else f"{name}::text" for name, function in names
        )

    def _rows(self, database: Database, relation: str, shown: str, where: str) -> list[tuple[Any, ...]]:
        return sorted(database.query(f"SELECT {shown} FROM {relation} WHERE {where}", options=ALIKE), key=repr)

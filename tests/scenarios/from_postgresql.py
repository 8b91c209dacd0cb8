"""A job whose source is a PostgreSQL. Both ends are compared by what they print."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scenario import Scenario, quote

from anabranch.testing.databases import Database

ALIKE = "-c timezone=UTC -c extra_float_digits=3 -c search_path=pg_catalog"


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
        return self._rows(self.source, f"public.{quote(table)}", columns or self._names(table), where)

    def target_rows(
        self, table: str, columns: Sequence[str] | None = None, where: str = "TRUE", relation: str = ""
    ) -> list[tuple[Any, ...]]:
        return self._rows(self.target, relation or f"public.{quote(table)}", columns or self._names(table), where)

    def _names(self, table: str) -> list[str]:
        return [name for name, _ in self.source_columns(table)]

    def _rows(self, database: Database, relation: str, columns: Sequence[str], where: str) -> list[tuple[Any, ...]]:
        shown = ", ".join(f"{quote(name)}::text" for name in columns)
        with database.connect(options=ALIKE) as connection:
            rows = connection.execute(f"SELECT {shown} FROM {relation} WHERE {where}").fetchall()
        return sorted(rows, key=repr)

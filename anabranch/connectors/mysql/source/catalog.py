"""Facts about a server, its log, and (in `definitions.py`) its tables.

https://dev.mysql.com/doc/refman/8.0/en/information-schema.html · https://mariadb.com/kb/en/information-schema-tables/
What does not live here: statements of one family or version (`log_end.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from anabranch.connectors.mysql.connection import ask, connect, family, variables, version
from anabranch.connectors.mysql.source.log_end import log_end_with_gtids, log_sizes

if TYPE_CHECKING:
    from anabranch.model.endpoint import Endpoint
    from anabranch.model.ids import TableId
    from anabranch.model.pair_notes import PairNotes, StandingRow
    from anabranch.model.position import LogMark
    from anabranch.model.schema import TableSchema
    from anabranch.model.writers import SourceWriter

# From which version on the log has the rows that foreign-key actions change (K1); None: not in any version.
# https://dev.mysql.com/doc/refman/9.7/en/replication-features-foreign-keys.html · https://mariadb.com/kb/en/foreign-keys/
LOGS_CASCADES_FROM: Mapping[str, tuple[int, int, int] | None] = {"mysql": (9, 6, 0), "mariadb": None}
ROW_IMAGE = "binlog_row_image"
CLOCK = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
CASCADES_BY_SERVER = "innodb_native_foreign_keys"  # MySQL 9.6+: ON brings the old way back


class MysqlCatalog:
    """SourceCatalog. What is read is what was there between two moments: the engine compares marks (K19)."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._connection = connect(endpoint)
        self.folds_names = ask(self._connection, "SELECT @@GLOBAL.lower_case_table_names")[0][0] == 1

    @property
    def log(self) -> MysqlCatalog:
        return self

    @property
    def transactions(self) -> MysqlCatalog:
        return self

    def tables(self, wanted: Callable[[TableId], bool], whole: bool = True) -> dict[TableId, TableSchema]:
        from anabranch.connectors.mysql.source.definitions import Definitions  # who asks for the log's end goes without

        return Definitions(self._connection).tables(wanted, whole)

    def named(self, tables: Collection[TableId]) -> dict[TableId, TableSchema]:
        from anabranch.connectors.mysql.source.definitions import Definitions  # as above

        return Definitions(self._connection).named(tables)

    def names(self) -> dict[TableId, str]:
        from anabranch.connectors.mysql.source.table_names import table_names

        ask(
            self._connection, "SET SESSION lock_wait_timeout = 2"
        )  # of whoever makes or alters one: capture asks again later
        return dict.fromkeys(table_names(self._connection), "")

    def gone(self, tables: Collection[TableId]) -> dict[TableId, str]:
        from anabranch.connectors.mysql.source.gone import is_gone

        ask(self._connection, "SET SESSION lock_wait_timeout = 2")
        return {table: "" for table in tables if is_gone(self._connection, table)}

    def writers(self) -> list[SourceWriter]:
        """Return the jobs that write here. What the server's own replication writes comes from elsewhere."""
        from anabranch.connectors.mysql.registered import writers  # as above

        return writers(self._connection)

    def sees_writers(self) -> bool:
        from anabranch.connectors.mysql.registered import sees_writers  # as above

        return sees_writers(self._connection)

    def pair_notes(self, job: str, limit: int = 0, after: str = "") -> PairNotes:
        from anabranch.connectors.mysql.pair_notes import read_at_source  # few jobs are of a pair

        return read_at_source(self._connection, job, limit, after)

    def standing(self, job: str, limit: int, after: str = "") -> tuple[StandingRow, ...]:
        from anabranch.connectors.mysql.pair_notes import standing_at_source  # few jobs are of a pair

        return standing_at_source(self._connection, job, limit, after)

    def mark(self) -> LogMark:
        return log_end_with_gtids(self._connection).mark()

    def clock(self) -> int:
        return int(str(ask(self._connection, CLOCK)[0][0]))

    def logs_whole_rows(self) -> bool:
        return variables(self._connection, ROW_IMAGE).get(ROW_IMAGE, "FULL").upper() == "FULL"

    def log_sizes(self) -> dict[str, int]:
        return log_sizes(self._connection)

    def logs_cascades(self) -> bool:
        found = variables(self._connection, CASCADES_BY_SERVER)
        return cascades_are_logged(family(self._connection), version(self._connection), found)

    def prepared(self) -> frozenset[str] | None:
        from anabranch.connectors.mysql.source.prepared import prepared

        return prepared(self._connection)

    def held(self, name: str) -> None:
        return None

    def in_progress(self) -> frozenset[str]:
        return frozenset()

    def who_has(self, transactions: Collection[str]) -> list[str]:
        return []

    def unseen(self, before: LogMark) -> frozenset[str]:
        from anabranch.connectors.mysql.source.snapshot import unseen

        return unseen(self._connection, before)

    def close(self) -> None:
        if self._connection.open:
            self._connection.close()


def cascades_are_logged(family: str, version: tuple[int, int, int], variables: Mapping[str, str]) -> bool:
    since = LOGS_CASCADES_FROM[family]
    return since is not None and version >= since and variables.get(CASCADES_BY_SERVER, "").upper() != "ON"

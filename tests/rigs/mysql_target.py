"""A table of one column at a MySQL or MariaDB target: texts go into it as load and apply send them, and come back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from anabranch.connectors.mysql.target.session import FED, Connection, ask, run
from anabranch.connectors.mysql.target.terms import assignment, constant, read_term
from anabranch.connectors.mysql.target.typemap import MysqlTypes
from anabranch.contracts import ValueRules
from anabranch.model.datatype import Fidelity, LogicalType
from anabranch.model.ids import TableId
from anabranch.rows.lines import escaped_line
from anabranch.rows.net import TargetTable
from anabranch.verify.canonical import Canonical

RULES = ValueRules(json="json")
Texts = Sequence[str | None]


class OneColumn:
    """`family` is the server's; the column's type is the type map's for `type`, or `native`."""

    def __init__(
        self, connection: Connection, family: str, type: LogicalType, native: str = "", rules: ValueRules = RULES
    ) -> None:
        types = MysqlTypes(family)
        self.type = replace(type, at_target=types.at_target(type, rules))
        self.fit = types.fit(type, rules)
        assert self.fit.fidelity is not Fidelity.REFUSED, self.fit
        self._connection, self._family = connection, family
        self._table = TargetTable(TableId("s", "t"), TableId("t", "t"), ("v",), (self.type,), ())
        run(connection, "DROP TABLE IF EXISTS one_column")
        run(connection, f"CREATE TABLE one_column (n int PRIMARY KEY, v {native or self.fit.native} NULL)")

    def loaded(self, texts: Texts) -> list[str | None]:
        """Send texts as a load does, and read them back. Raises ValueError where the server warned or left rows out."""
        self._empty()
        term = assignment(self.type, "@c", self._family)
        statement = (
            f"LOAD DATA LOCAL INFILE '{FED}' INTO TABLE one_column CHARACTER SET utf8mb4 "
            f"FIELDS TERMINATED BY '\\t' ESCAPED BY '\\\\' LINES TERMINATED BY '\\n' (@n, @c) SET n = @n, v = {term}"
        )
        found = self._connection.load_local(statement, self._lines(texts))
        if found.rows != len(texts) or found.warnings:
            raise ValueError(f"{found}: {ask(self._connection, 'SHOW WARNINGS')}")
        return self._back()

    def inserted(self, texts: Texts) -> list[str | None]:
        """Send texts as literals, and read them back. What the server refuses raises its error."""
        self._empty()
        values = ", ".join(f"({n}, {constant(self.type, text, self._family)})" for n, text in enumerate(texts))
        run(self._connection, f"INSERT INTO one_column VALUES {values}")
        if warned := ask(self._connection, "SHOW WARNINGS"):
            raise ValueError(str(warned))
        return self._back()

    def canonical(self, texts: Texts) -> list[bytes]:
        """Make texts comparable, as verification does."""
        return Canonical(self._table).rows(b"".join(escaped_line([text]) for text in texts))

    def _empty(self) -> None:
        run(self._connection, "DELETE FROM one_column")

    def _lines(self, texts: Texts) -> list[bytes]:
        return [escaped_line([str(n), text]) for n, text in enumerate(texts)]

    def _back(self) -> list[str | None]:
        term = read_term(self.type, "`v`", self._family)
        rows = ask(self._connection, f"SELECT {term} FROM one_column ORDER BY n")
        return [_text(value) for (value,) in rows]


def _text(value: object) -> str | None:
    if isinstance(value, bytes):
        return value.decode()
    return None if value is None else str(value)

"""A history: tables, and transactions of several sessions on them; as values, as statements, and as JSON.

What does not live here: drawing one (draw.py), running it (sessions.py), what it comes to (model.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from anabranch.testing.torture.tables import LEDGER, WIDENED, Schema
from anabranch.testing.torture.values import Literal


@dataclass(frozen=True, slots=True)
class Plus:
    """The column's own number and so many."""

    number: int


@dataclass(frozen=True, slots=True)
class Choice:
    """A value chosen by a column's value: for each of some literals another one. The statement has rows with these only."""

    column: str
    pairs: tuple[tuple[str, Literal], ...]


Assigned = Literal | Plus | Choice
PASSING = ("make", "rename", "drop")
COMMIT_THEMSELVES = ("truncate", "grow", "alter", *PASSING)  # at a MySQL or MariaDB


@dataclass(frozen=True, slots=True)
class Condition:
    """`operator`: `<=>` (one value), `in` (some), `between` (two)."""

    column: str
    operator: str
    values: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a session.

    do: `insert`, `ignore` (INSERT IGNORE), `replace`, `upsert` (ON DUPLICATE KEY UPDATE `assigned`): `columns` and `rows` ·
    `update`: `assigned`, `where`, `order`, `limit` · `delete`: `where`, `order`, `limit` · `both`: `parts`, two updates or
    two deletes of different tables in one statement · `savepoint`, `back` (to the savepoint): `name` · `truncate` ·
    `alter`: one of the `columns` is altered, `name` says by which word (altering.py) ·
    `make`, `rename`, `drop`: the table itself (passing.py); `name`: which of the schema's tables it makes, what it is called
    then; `order`: by which form of the statement ·
    `grow`: `columns` are added, `order` says where (growing.py); `add`: the same as part of a transaction, at a PostgreSQL ·
    `empty`: PostgreSQL's TRUNCATE, of its table and those of its `parts`, which are told or, by `name`, follow · `label`: one
    that is added to the enum, `order` says where."""

    do: str
    table: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Literal, ...], ...] = ()
    assigned: tuple[tuple[str, Assigned], ...] = ()
    where: tuple[Condition, ...] = ()
    order: str = ""  # `id` or `id DESC`
    limit: int | None = None
    parts: tuple[Statement, ...] = ()
    name: str = ""


@dataclass(frozen=True, slots=True)
class Transaction:
    """`number` is what it writes into the ledger. `pause`: milliseconds before it begins. `behind`: before its end it waits
    for the end of that other one, a little. `checks`: foreign keys are on. One with a statement that commits by itself does
    nothing else, and one that is `bare` does not even write its number: the log has it as a message (bare.py)."""

    number: int
    session: int
    statements: tuple[Statement, ...]
    commits: bool = True
    pause: int = 0
    behind: int = 0
    checks: bool = True
    bare: bool = False

    @property
    def is_numbered(self) -> bool:
        """Return whether its number comes into the ledger."""
        return not (self.alone or self.bare)

    @property
    def alone(self) -> Statement | None:
        """The statement that commits by itself, where the transaction is one; its number stands in the statement."""
        return next((s for s in self.statements if s.do in COMMIT_THEMSELVES), None)

    @property
    def truncates(self) -> str:
        """The table, for one that is a TRUNCATE."""
        return self.alone.table if self.alone and self.alone.do == "truncate" else ""

    def widens(self, schema: Schema) -> str:
        """The table, for one that widens a column's type."""
        one = self.alone if self.alone and self.alone.do == "alter" else None
        return one.table if one and schema[one.table].column(one.columns[0]).altered == WIDENED else ""


@dataclass(frozen=True, slots=True)
class History:
    """`before` the job begins, while it loads (`during`), and once every table streams (`after`). `images`: the
    `binlog_row_image` of each session, "" for the server's own. `decoder`: of the source's log, "" for the usual one. `drops`:
    what the job does with tables that are dropped (`[ddl] drop_table`), "" where none is."""

    seed: int
    schema: Schema
    before: tuple[Transaction, ...] = ()
    during: tuple[Transaction, ...] = ()
    after: tuple[Transaction, ...] = ()
    images: tuple[str, ...] = ()
    decoder: str = ""
    drops: str = ""

    @property
    def transactions(self) -> tuple[Transaction, ...]:
        return (*self.before, *self.during, *self.after)

    @property
    def database(self) -> str:
        """Its name at both ends: a database at the source, a schema at the target."""
        return f"torture_{self.seed}"

    @property
    def grows(self) -> bool:
        """Return whether tables are altered."""
        return self._does("grow", "add", "alter")

    @property
    def passes(self) -> bool:
        """Return whether tables are made, renamed or dropped."""
        return self._does(*PASSING)

    def _does(self, *words: str) -> bool:
        return any(statement.do in words for one in self.transactions for statement in one.statements)

    def with_transactions(self, kept: Callable[[Transaction], Transaction | None]) -> History:
        """Each transaction changed, or left out where that gives None."""
        phases = ([one for t in phase if (one := kept(t))] for phase in (self.before, self.during, self.after))
        before, during, after = map(tuple, phases)
        return replace(self, before=before, during=during, after=after)

    def to_json(self) -> dict[str, Any]:
        data = {"seed": self.seed, "images": self.images, "decoder": self.decoder, "drops": self.drops}
        data |= {"tables": self.schema.to_json()}
        return data | {name: [_plain(t) for t in getattr(self, name)] for name in ("before", "during", "after")}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> History:
        before, during, after = (tuple(map(_transaction, data[name])) for name in ("before", "during", "after"))
        schema, images = Schema.from_json(data["tables"]), tuple(data["images"])
        return cls(data["seed"], schema, before, during, after, images, data.get("decoder", ""), data.get("drops", ""))


# --- statements ----------------------------------------------------------------------------------------------------------


def sql(statement: Statement) -> str:
    """The statement as MySQL and MariaDB take it."""
    return _SQL[statement.do](statement)


def ledger_sql(number: int) -> str:
    return f"INSERT INTO {LEDGER} VALUES ({number})"


def truncate_sql(table: str, number: int) -> str:
    return f"TRUNCATE TABLE {table} /* {number} */"


def _insert(statement: Statement, verb: str = "INSERT INTO") -> str:
    rows = ", ".join(f"({', '.join(map(_literal, row))})" for row in statement.rows)
    return f"{verb} {statement.table} ({', '.join(statement.columns)}) VALUES {rows}"


def _upsert(statement: Statement) -> str:
    return f"{_insert(statement)} ON DUPLICATE KEY UPDATE {_assigned(statement)}"


def _update(statement: Statement) -> str:
    return f"UPDATE {statement.table} SET {_assigned(statement)}{_where(statement)}{_rest(statement)}"


def _delete(statement: Statement) -> str:
    return f"DELETE FROM {statement.table}{_where(statement)}{_rest(statement)}"


def _both(statement: Statement) -> str:
    tables = ", ".join(part.table for part in statement.parts)
    where = " AND ".join(f"{part.table}.{_condition(c)}" for part in statement.parts for c in part.where)
    if statement.parts[0].do == "delete":
        return f"DELETE {tables} FROM {tables} WHERE {where}"
    assigned = ", ".join(_assigned(part, f"{part.table}.") for part in statement.parts)
    return f"UPDATE {tables} SET {assigned} WHERE {where}"


def _assigned(statement: Statement, prefix: str = "") -> str:
    return ", ".join(f"{prefix}{name} = {_value(prefix + name, value)}" for name, value in statement.assigned)


def _value(name: str, value: Assigned) -> str:
    if isinstance(value, Plus):
        return f"{name} {'-' if value.number < 0 else '+'} {abs(value.number)}"
    if isinstance(value, Choice):
        whens = " ".join(f"WHEN {when} THEN {_literal(then)}" for when, then in value.pairs)
        return f"CASE {value.column} {whens} END"
    return _literal(value)


def _where(statement: Statement) -> str:
    return " WHERE " + " AND ".join(map(_condition, statement.where)) if statement.where else ""


def _condition(condition: Condition) -> str:
    values = [_literal(value) for value in condition.values]
    if condition.operator == "in":
        return f"{condition.column} IN ({', '.join(values)})"
    return f"{condition.column} {condition.operator.upper()} {' AND '.join(values)}"


def _rest(statement: Statement) -> str:
    order = f" ORDER BY {statement.order}" if statement.order else ""
    return order + (f" LIMIT {statement.limit}" if statement.limit is not None else "")


def _literal(value: Literal) -> str:
    return "NULL" if value is None else value


_SQL: Mapping[str, Callable[[Statement], str]] = {
    "insert": _insert,
    "ignore": lambda statement: _insert(statement, "INSERT IGNORE INTO"),
    "replace": lambda statement: _insert(statement, "REPLACE INTO"),
    "upsert": _upsert,
    "update": _update,
    "delete": _delete,
    "both": _both,
    "savepoint": lambda statement: f"SAVEPOINT {statement.name}",
    "back": lambda statement: f"ROLLBACK TO SAVEPOINT {statement.name}",
    "truncate": lambda statement: f"TRUNCATE TABLE {statement.table}",
    "alter": lambda statement: f"ALTER TABLE {statement.table} {statement.name} {statement.columns[0]}",
    "grow": lambda statement: f"ALTER TABLE {statement.table} ADD {', '.join(statement.columns)}",
    "make": lambda statement: f"CREATE TABLE {statement.table}",
    "rename": lambda statement: f"RENAME TABLE {statement.table} TO {statement.name}",
    "drop": lambda statement: f"DROP TABLE {statement.table}",
}


# --- JSON ----------------------------------------------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    """Return JSON without what a field says by default: people read the file, too."""
    if isinstance(value, Plus):
        return {"plus": value.number}
    if isinstance(value, Choice):
        return {"by": value.column, "pairs": [list(pair) for pair in value.pairs]}
    if isinstance(value, (Transaction, Statement, Condition)):
        named = {one.name: getattr(value, one.name) for one in fields(value)}
        return {n: _plain(v) for n, v in named.items() if v != _default(type(value), n)}
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


def _default(kind: type, name: str) -> Any:
    return next(one.default for one in fields(kind) if one.name == name)


def _transaction(data: Mapping[str, Any]) -> Transaction:
    return Transaction(**{**data, "statements": tuple(map(_statement, data.get("statements", ())))})


def _statement(data: Mapping[str, Any]) -> Statement:
    read: dict[str, Any] = dict(data)
    read["columns"] = tuple(data.get("columns", ()))
    read["rows"] = tuple(tuple(row) for row in data.get("rows", ()))
    read["assigned"] = tuple((name, _assignment(value)) for name, value in data.get("assigned", ()))
    read["where"] = tuple(Condition(c["column"], c["operator"], tuple(c["values"])) for c in data.get("where", ()))
    read["parts"] = tuple(map(_statement, data.get("parts", ())))
    return Statement(**read)


def _assignment(value: Any) -> Assigned:
    if not isinstance(value, Mapping):
        return value  # type: ignore[no-any-return]  # a literal
    if "plus" in value:
        return Plus(value["plus"])
    return Choice(value["by"], tuple((when, then) for when, then in value["pairs"]))

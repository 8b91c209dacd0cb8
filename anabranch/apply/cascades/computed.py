"""Computed columns that depend on foreign-key actions which the log does not show (K1): which columns they are, and
whom the Writer asks for their values. What does not live here: how the values get into the children's rows (the
connector's `computed.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from anabranch.apply.context import Followed
from anabranch.contracts import ComputingReader, SourceConnector, ValueRules
from anabranch.errors import Redefined, SourceError, SourceUnavailable, StateError
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.computed import refusals
from anabranch.rows.net import CascadeAction, CascadeRule, Computed, Row, TargetTable

UNTOLD = (
    "rows of it changed again at the source before this change was applied: let the source's user make temporary tables"
    " there (preflight has the statement), or load the table again"
)


@dataclass(frozen=True)
class AskedSource:
    """The source, with what a question to it needs. `identity`: the server that capture follows (K29)."""

    source: SourceConnector
    identity: str
    rules: ValueRules


@dataclass(frozen=True)
class _Compute:
    """Computed.compute for one table. It connects to the source when it is called, which is rare."""

    asked: AskedSource
    schema: TableSchema
    table: TargetTable
    inputs: tuple[str, ...]
    columns: tuple[str, ...]

    def __call__(self, rows: Sequence[Row]) -> Iterator[bytes]:
        names = dict(zip(self.table.columns, self.table.source_columns, strict=True))
        reader = self.asked.source.snapshot(self.asked.identity)
        assert isinstance(reader, ComputingReader), "looked at when the context was made"
        try:
            inputs, columns = [names[name] for name in self.inputs], [names[name] for name in self.columns]
            renamed = [{names[name]: value for name, value in row.items()} for row in rows]
            yield from reader.compute(self.schema, inputs, columns, renamed, self.asked.rules)
        except SourceUnavailable:
            raise
        except SourceError as error:
            why = f"the source cannot be asked how foreign keys change {', '.join(self.columns)}: {error.message}"
            raise Redefined(why, table=str(self.schema.id), hint=error.hint) from error
        finally:
            reader.close()


def changed_columns(rules: Sequence[CascadeRule]) -> Mapping[TableId, frozenset[str]]:
    """Return by child table the columns (target names) that foreign keys give other values."""
    found: dict[TableId, frozenset[str]] = {}
    for rule in rules:
        if rule.on_delete is CascadeAction.SET_NULL or rule.on_update is not None:
            found[rule.child.source] = found.get(rule.child.source, frozenset()) | set(rule.columns)
    return found


def computed_of(
    tables: Mapping[TableId, Followed], rules: Sequence[CascadeRule], asked: AskedSource | None
) -> dict[TableId, Computed]:
    """Find how to follow the computed columns of every table that such a key reaches. Raises StateError for what cannot
    be followed.
    """
    found = {}
    for child, changed in changed_columns(rules).items():
        made = _computed(tables[child], changed, asked)
        if made is not None:
            found[child] = made
    return found


def _computed(followed: Followed, changed: frozenset[str], asked: AskedSource | None) -> Computed | None:
    schema, table = followed.schema, followed.table
    names = dict(zip(table.source_columns, table.columns, strict=True))
    sources = [source for source, target in names.items() if target in changed]
    for why, hint in refusals(schema, table, sources, asked.rules if asked else ValueRules()):
        raise _refused(schema, why, f"{hint} in the job file")
    columns = tuple(column.name for column in schema.computed_over(sources) if column.name in names)
    if not columns:
        return None
    if asked is None or not isinstance(asked.source.snapshot(), ComputingReader):
        why = f"{', '.join(columns)} depends on it, and this source cannot compute it on request"
        raise _refused(schema, why, f"drop {', '.join(columns)} in the job file")
    inputs = sorted(frozenset[str]().union(*(schema.inputs_of(name) for name in columns)))
    inputs_here, columns_here = tuple(names[name] for name in inputs), tuple(names[name] for name in columns)
    compute = _Compute(asked, schema, table, inputs_here, columns_here)
    return Computed(table, columns_here, inputs_here, compute, UNTOLD)


def _refused(schema: TableSchema, why: str, hint: str) -> StateError:
    message = f"a foreign key changes its rows, the source's log does not show it, and {why}"
    return StateError(message, table=str(schema.id), hint=f"{hint}, or exclude the table")

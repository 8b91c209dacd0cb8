"""Histories of tables with foreign keys of any shape, as InnoDB makes them, and a log without what the keys did.
What servers may do in more than one order is left out. How they are drawn: foreign_keys_drawn.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from anabranch.model.schema import Action, ForeignKey, Index, TableSchema
from rigs.chunks import INT, schema, table_id

Row = dict[str, int | None]
Change = tuple
CASCADE, SET_NULL, RESTRICT = Action.CASCADE, Action.SET_NULL, Action.RESTRICT


class Refused(Exception):
    """The source does not do it."""


def foreign_key(name: str, columns: str, parent: str, to: str, on_delete: Action, on_update: Action) -> ForeignKey:
    return ForeignKey(f"fk_{name}", tuple(columns.split()), table_id(parent), tuple(to.split()), on_delete, on_update)


def table(name: str, columns: str, key: str = "", unique: Sequence[str] = (), keys: Sequence[ForeignKey] = ()):
    made = schema(name, dict.fromkeys(columns.split(), INT), key.split(), keys)
    return replace(made, indexes=tuple(Index(f"u_{n}", tuple(u.split()), True) for n, u in enumerate(unique)))


@dataclass
class Source:
    """Rows per table. `log`: the open transaction; `backwards`: keys act in the other order."""

    schemas: Sequence[TableSchema]
    backwards: bool = False
    rows: dict[str, list[Row]] = field(default_factory=dict)
    log: list[Change] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rows = {one.id.name: [] for one in self.schemas}
        keys = [(child.id.name, key) for child in self.schemas for key in child.foreign_keys]
        self.keys = keys[::-1] if self.backwards else keys

    def insert(self, name: str, row: Row) -> None:
        self._put(name, dict(row))
        self.log.append((name, "i", dict(row)))
        self._require_parents()

    def update(self, name: str, old: Row, values: Row) -> None:
        new = {**old, **values}
        self._replace(name, self._found(name, old), new, ())
        self.log.append((name, "u", dict(old), new))
        self._require_parents()

    def delete(self, name: str, old: Row) -> None:
        self._remove(name, self._found(name, old))
        self.log.append((name, "d", dict(old)))
        self._require_parents()

    def _found(self, name: str, row: Row) -> Row:
        return next((one for one in self.rows[name] if one == row), None) or _refuse()

    def _put(self, name: str, row: Row) -> None:
        one = next(s for s in self.schemas if s.id.name == name)
        if any(row[c] is None for c in one.primary_key):
            raise Refused
        for key in (one.primary_key, *(index.columns for index in one.indexes)):
            value = [row[c] for c in key]
            if key and None not in value and value in [[r[c] for c in key] for r in self.rows[name]]:
                raise Refused
        self.rows[name].append(row)

    def _remove(self, name: str, row: Row) -> None:
        self._take(name, row)
        for child, key, action, old in self._followers(name, row, None):
            for one in self._children(child, key, old, action):
                if action is CASCADE:
                    self._remove(child, one)
                else:
                    self._replace(child, one, {**one, **dict.fromkeys(key.columns)}, (name,))

    def _replace(self, name: str, row: Row, new: Row, path: tuple[str, ...]) -> None:
        """A table that is met twice on one path of updates ends the statement, as at the source."""
        if name in path:
            raise Refused
        for child, key, _, old in self._followers(name, row, new):
            if child == name and [row[c] for c in key.columns] == old:
                raise Refused  # it would be met again
        self._take(name, row)
        for child, key, action, old in self._followers(name, row, new):
            for one in self._children(child, key, old, action):
                came = [new[c] for c in key.parent_columns] if action is CASCADE else [None] * len(old)
                self._replace(child, one, {**one, **dict(zip(key.columns, came, strict=True))}, (*path, name))
        self._put(name, new)

    def _take(self, name: str, row: Row) -> None:
        if row not in self.rows[name]:
            raise Refused
        self.rows[name].remove(row)

    def _followers(self, name: str, row: Row, new: Row | None) -> Iterator[tuple[str, ForeignKey, Action, list]]:
        for child, key in (one for one in self.keys if one[1].parent.name == name):
            old = [row[c] for c in key.parent_columns]
            if None not in old and (not new or old != [new[c] for c in key.parent_columns]):
                yield child, key, (key.on_update if new else key.on_delete), old

    def _children(self, child: str, key: ForeignKey, old: list, action: Action) -> list[Row]:
        found = [one for one in self.rows[child] if [one[c] for c in key.columns] == old]
        if found and action is RESTRICT:
            raise Refused
        return found

    def _require_parents(self) -> None:
        for child, key in self.keys:
            parents = [[row[c] for c in key.parent_columns] for row in self.rows[key.parent.name]]
            for row in self.rows[child]:
                value = [row[c] for c in key.columns]
                if None not in value and value not in parents:
                    raise Refused


def _refuse() -> Row:
    raise Refused


def state(source: Source) -> dict[str, list]:
    return {name: sorted(tuple(map(repr, row.values())) for row in rows) for name, rows in source.rows.items()}


@dataclass
class History:
    schemas: Sequence[TableSchema]
    start: dict[str, list[Row]]
    changes: list[Change]
    end: dict[str, list]


def replayed(schemas: Sequence[TableSchema], start: Sequence[Change], changes: Sequence[Change]) -> History | None:
    """The same log where its keys act in either order, or None where they end differently or refuse."""
    histories = []
    for backwards in (False, True):
        source = Source(schemas, backwards)
        try:
            for change in start:
                do(source, change)
            before, source.log = {name: [dict(r) for r in rows] for name, rows in source.rows.items()}, []
            for change in changes:
                do(source, change)
        except Refused:
            return None
        histories.append(History(schemas, before, source.log, state(source)))
    return histories[0] if histories[0].end == histories[1].end else None


def do(source: Source, change: Change) -> None:
    name, what, *rows = change
    if what == "i":
        source.insert(name, rows[0])
    elif what == "d":
        source.delete(name, rows[0])
    else:
        source.update(name, rows[0], rows[1])

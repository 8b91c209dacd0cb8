"""A trail under a test's pen and an Applier that carries it out at a real PostgreSQL: two tables, one without a key, in
which every row that came twice would show."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from anabranch import connectors
from anabranch.apply.context import ApplyContext
from anabranch.apply.following import unique_keys
from anabranch.apply.patience import Patience
from anabranch.contracts import ValueRules
from anabranch.errors import AnabranchError
from anabranch.model.endpoint import Endpoint
from anabranch.model.position import Position
from anabranch.model.schema import Index
from anabranch.model.table_life import TableState
from anabranch.testing.databases import Database
from anabranch.trail.reader import TrailReader
from anabranch.trail.writer import TrailWriter
from rigs.an_applier import an_applier
from rigs.chunks import ITEMS, KEYLESS, chunk_of, context
from rigs.endpoints import endpoint_of

JOB = "shop"
TABLES = (
    "CREATE SCHEMA shop",
    "CREATE TABLE shop.items (id bigint PRIMARY KEY, a bigint, b text)",
    "CREATE TABLE shop.heap (a bigint, b text)",
)


def known_with(known: ApplyContext, unique: Sequence[str]) -> ApplyContext:
    """The context with a unique key of `items`, which apply knows."""
    items = known.tables[ITEMS.id]
    schema = replace(items.schema, indexes=tuple(Index(name, (name,), True) for name in unique))
    return known.with_followed(replace(items, schema=schema, unique_keys=unique_keys(schema, items.table)))


class ShortPauses(Patience):
    """What is waited for is done at once in tests."""

    def wait(self, seconds: float) -> None:
        super().wait(min(seconds, 0.1))


@dataclass
class Applied:
    """`add(n)` is n source transactions more, applied: each puts a row into both tables and changes the one before it.
    `on_wait` is called with what the applier says it waits for, each time."""

    database: Database
    directory: Path
    endpoint: Endpoint | None = None
    options: dict[str, Any] = field(default_factory=dict)
    unique: tuple[str, ...] = ()  # columns of `items`, of a unique key of the source
    waits: list[str] = field(default_factory=list)
    on_wait: Any = lambda waits: None
    rows: int = 0
    is_closed: bool = False

    def __post_init__(self) -> None:
        self.endpoint = self.endpoint or endpoint_of(self.database)
        self.trail = TrailWriter.open(self.directory, job=JOB, job_uuid="u", source_identity="s", pack=False)
        for schema in (ITEMS, KEYLESS):
            self.trail.schema(schema)
        target = connectors.target(self.endpoint)
        with closing(target.store()) as store:
            store.prepare()
            store.create_checkpoint(JOB, Position(0, ""), 0)
            for schema in (ITEMS, KEYLESS):
                store.save_table(JOB, TableState(schema.id, schema.id, "streaming", schema=schema), None)
        self.reader = TrailReader(self.directory)
        known = self.context = known_with(context([ITEMS, KEYLESS]), self.unique)
        self.applier = an_applier(
            JOB,
            self.reader,
            target.writer(ValueRules(), False),
            target.store(),
            lambda states: known,
            patience=ShortPauses(),
            waiting=self._waits,
            **self.options,
        )
        self.applier.progress.writer.claim(JOB, "me")
        self.applier.progress.look()

    def _waits(self, why: str, _: AnabranchError) -> None:
        assert "\n" not in why and "Traceback" not in why
        self.waits.append(why)
        self.on_wait(self.waits)

    def log(self, count: int = 1) -> int:
        """Up to where the trail goes then."""
        made: list[Sequence[tuple[Any, ...]]] = []
        for _ in range(count):
            number = self.rows = self.rows + 1
            rows = [("items", "i", _item(number)), *[("heap", "i", _heap(number))] * 2]
            if number > 1:
                rows.append(("items", "u", _item(number - 1), _item(number - 1, "changed")))
                rows += [("heap", "u", _heap(number - 1), _heap(number - 1, "changed"))] * 2
            made.append(rows)
        return self.append(made)

    def append(self, transactions: Sequence[Sequence[tuple[Any, ...]]]) -> int:
        """Any others, as chunks.py writes them. Up to where the trail goes then."""
        self.trail.append(chunk_of(transactions, [ITEMS, KEYLESS], 0))
        self.trail.flush()
        return self.trail.end.position.sequence

    def add(self, count: int = 1) -> None:
        self.applier.apply(self.log(count))

    def assert_once(self, at: int | None = None) -> None:
        """Every transaction is there once, and the checkpoint says so."""
        numbers = range(1, (self.rows if at is None else at) + 1)
        words = {number: "changed" if number < numbers.stop - 1 else "new" for number in numbers}
        found = self.database.query("SELECT id, a, b FROM shop.items ORDER BY id")
        assert found == [(number, number, word) for number, word in words.items()]
        twice = chain.from_iterable([(number, word)] * 2 for number, word in words.items())
        assert self.database.query("SELECT a, b FROM shop.heap ORDER BY a") == list(twice)
        assert self.database.query("SELECT sequence FROM anabranch.checkpoint") == [(len(numbers),)]

    def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        for part in (self.reader, self.trail, self.applier.progress.writer, self.applier.progress.store):
            part.close()


def _item(number: int, word: str = "new") -> dict[str, Any]:
    return {"id": number, "a": number, "b": word}


def _heap(number: int, word: str = "new") -> dict[str, Any]:
    return {"a": number, "b": word}

"""Recordings of real servers' logs, read again without a server."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from anabranch.connectors.mysql.source.assemble import Assembler
from anabranch.connectors.mysql.source.positions import place_of
from anabranch.contracts import Select, ValueRules
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.chunk import META, Chunk, Op
from anabranch.rows.compiled import compiled
from anabranch.rows.lines import texts
from anabranch.rows.log_items import LogStatement

DECODINGS = ["python", *["native"] * compiled("auto")]
RECORDED = Path(__file__).parent / "recorded"
Items = list[Chunk | LogStatement]


@dataclass(frozen=True)
class Recording:
    """What record.py wrote: the stream as it came, where it began, the definitions, and what it has to come to."""

    server: str
    resume: str
    tables: dict[TableId, TableSchema]
    stream: bytes
    expected: list[Any]
    decoding: ClassVar[str] = "python"

    @classmethod
    def load(cls, name: str) -> Recording:
        data = json.loads((RECORDED / f"{name}.json").read_text())
        tables = [TableSchema.from_json(table) for table in data["tables"]]
        stream = zlib.decompress(base64.b85decode("".join(data["stream"])))
        return cls(data["server"], data["resume"], {t.id: t for t in tables}, stream, data["expected"])

    def assembler(self, rules: ValueRules | None = None, select: Select | None = None) -> Assembler:
        return Assembler(
            place_of(self.resume), select or self.tables.get, rules or ValueRules(), decoding=Recording.decoding
        )

    def blocks(self, size: int) -> Iterator[bytes]:
        for at in range(0, len(self.stream), size):
            yield self.stream[at : at + size]

    def items(self, size: int = 1 << 18, rules: ValueRules | None = None, eager: bool = False) -> Items:
        """Everything in it, read in blocks of `size`; `eager`: what is whole is taken after every block."""
        assembler, found = self.assembler(rules), []
        for block in self.blocks(size):
            assembler.feed(block)
            found += drained(assembler)
            if eager:
                assembler.flush()
                found += drained(assembler)
        assembler.flush()
        return found + drained(assembler)


def drained(assembler: Assembler) -> Items:
    found: Items = []
    assembler.advance()
    while assembler.ready:
        found.append(assembler.ready.popleft())
        assembler.advance()
    return found


def told(items: Items) -> list[Any]:
    """Statements as text; transactions as [native, gtid, images], an image as [op, table, {column: text form}]."""
    found: list[Any] = []
    for item in items:
        if isinstance(item, LogStatement):
            found.append(item.sql)
            continue
        images = [image for rows in item.tables for image in _images(rows)]
        for number, transaction in enumerate(item.transactions.to_pylist()):
            own = sorted((image for image in images if image[0] == number), key=lambda image: image[1])
            found.append([transaction["native"], transaction["gtid"], [list(image[2:]) for image in own]])
    return found


def _images(rows: Any) -> Iterator[tuple[int, int, str, str, dict[str, str | None]]]:
    meta = rows.batch.select(range(META)).to_pylist()
    schema = rows.batch.schema
    columns = {name: rows.batch.column(META + i) for i, name in enumerate(schema.names[META:])}
    types = REPLAYED[rows.table]
    text = {name: texts(types[name], column).to_pylist() for name, column in columns.items() if types[name]}
    for row, facts in enumerate(meta):
        present = rows.shapes[facts["_shape"]].present
        image = {n: text[n][row] for n, there in zip(columns, present, strict=True) if there and n in text}
        yield facts["_tx"], facts["_ordinal"], Op(facts["_op"]).name, rows.table.name, image


REPLAYED: dict[TableId, dict[str, Any]] = {}


@pytest.fixture(params=DECODINGS)
def decoding(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every test with each decoder that is installed."""
    monkeypatch.setattr(Recording, "decoding", request.param)
    return str(request.param)


@pytest.fixture
def recording(decoding: str) -> Callable[[str], Recording]:
    def load(name: str) -> Recording:
        found = Recording.load(name)
        know(found.tables)
        return found

    return load


@pytest.fixture(name="told")
def told_fixture() -> Callable[[Items], list[Any]]:
    return told


def know(tables: dict[TableId, TableSchema]) -> None:
    """Types of the columns, for their text form."""
    REPLAYED.update({t.id: {column.name: column.type for column in t.columns} for t in tables.values()})

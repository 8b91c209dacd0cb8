"""Tables that are selected again while a log is read: who has another definition is read by it, others go on as they are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.connectors.mysql.source.tablemap import table_of
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from unit.connectors.mysql.binlog.conftest import Recording, drained


@pytest.mark.parametrize("family", ["mysql", "mariadb"])
def test_decoders_of_tables_that_are_as_they_were_are_kept(family: str) -> None:
    recording = Recording.load(f"{family}-transactions")
    ((ours, schema),) = recording.tables.items()
    other = TableId(ours.schema, "left_out")
    selected: dict[TableId, TableSchema | None] = {ours: schema}
    assembler = recording.assembler(select=selected.get)
    for block in recording.blocks(1 << 18):
        assembler.feed(block)
        drained(assembler)
    tables = assembler._tables
    before = dict(tables.maps)
    assert {table_of(raw) for raw in before} == {ours, other}
    assembler.reselect()
    assert tables.maps == before
    selected[other] = replace(schema, id=other)
    assembler.reselect()
    assert tables.maps == {raw: known for raw, known in before.items() if table_of(raw) == ours}
    del selected[other]
    for now in (schema.with_version(2), None, schema):
        selected[ours] = now
        assembler.reselect()
        assert not tables.maps
        raw = next(raw for raw in before if table_of(raw) == ours)
        _, decoders = tables.table_map(raw)  # the next event of the log that names it
        assert (decoders.buffer.schema if decoders else None) is now
    tables.begin_listing()
    tables.table_map(raw)
    assembler.reselect()
    assert not tables.maps  # each is asked for anew meanwhile

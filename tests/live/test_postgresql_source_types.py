"""Kinds of a PostgreSQL's types: what the server prints has the form that its kind declares, and no other special values."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing

from anabranch.connectors.postgresql.source import connector as source
from anabranch.connectors.postgresql.source.typemap import logical_type
from anabranch.contracts import Bounds
from anabranch.model.datatype import Kind, LogicalType, Special
from anabranch.model.ids import TableId
from anabranch.rows.lines import parse_line
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from rigs.endpoints import endpoint_of
from rigs.postgresql_load import RULES
from rigs.postgresql_types import rows_of, values_of

DATE = r"\d{4,}-\d\d-\d\d"
CLOCK = r"\d\d:\d\d:\d\d(\.\d{1,6})?"
FORMS: dict[Kind, str] = {
    Kind.BOOLEAN: "[tf]",
    Kind.DECIMAL: r"-?\d+(\.\d+)?",
    Kind.BIT: "[01]+",
    Kind.DATE: DATE,
    Kind.TIME: CLOCK,
    Kind.TIMESTAMP: f"{DATE} {CLOCK}",
    Kind.INSTANT: rf"{DATE} {CLOCK}\+00",
    Kind.INTERVAL: r"(-?\d+ years? ?)?([-+]?\d+ mons? ?)?([-+]?\d+ days? ?)?([-+]?\d{2,}:\d\d:\d\d(\.\d{1,6})?)?",
    Kind.JSON: r"[^\0]+",
}
SPECIALS = {Special.NAN: "NaN", Special.INFINITIES: "-?[Ii]nfinity", Special.BEFORE_CHRIST: None}
MORE = {
    "timestamp(0) without time zone": ("'2024-02-29 23:59:59.7'",),
    "timestamp(3) with time zone": ("'2024-02-29 23:59:59.999'",),
    "time(1) without time zone": ("'12:00:00.16'",),
    "interval day to second(3)": ("'-3 days +04:05:06.789'",),
    "interval year to month": ("'-1 year 2 mons'",),
    "bit(100)": ("repeat('01', 50)::bit(100)",),
    "numeric(30,0)": ("-1",),
}
KINDS = frozenset(FORMS)


def has_form(type: LogicalType, text: str) -> bool:
    """Is it a value of the kind, or one of the special values that the type declares?"""
    form = FORMS[type.kind]
    if Special.BEFORE_CHRIST in type.specials:
        form += "( BC)?"
    named = [SPECIALS[special] for special in type.specials]
    return any(re.fullmatch(one, text) for one in (form, *named) if one)


def test_what_is_printed_has_the_form_of_its_kind(
    logical_postgresql: Server, source_database: Callable[[Server], Database]
) -> None:
    database = source_database(logical_postgresql)
    every = values_of(int(logical_postgresql.version.partition(".")[0])) | MORE
    values = {native: some for native, some in every.items() if logical_type(native).printed}
    assert {logical_type(native).kind for native in values} == KINDS
    for number, (native, some) in enumerate(values.items()):
        database.execute(
            f"CREATE TABLE t{number} (id int PRIMARY KEY, v {native})",
            f"INSERT INTO t{number} VALUES {rows_of(native, some, 1)}",
        )
    connector = source(endpoint_of(database))
    with closing(connector.catalog()) as catalog, closing(connector.snapshot()) as snapshot:
        tables = catalog.tables(lambda table: True)
        for number, (native, some) in enumerate(values.items()):
            schema = tables[TableId("public", f"t{number}")]
            type = schema.column("v").type
            assert type is not None and type.native == native and type == logical_type(native)
            assert (type.kind, type.specials) == (logical_type(native).kind, logical_type(native).specials)
            lines = [row for block in snapshot.lines(schema, ["v"], Bounds(), RULES) for row in block.splitlines()]
            texts = [text for row in lines for text in parse_line(row)]
            assert len(texts) == len(some) + 1
            assert [text for text in texts if text is not None and not has_form(type, text)] == [], native

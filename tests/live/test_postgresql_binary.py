"""Values of a real PostgreSQL by the log in binary form, by the log as text, and by COPY: the same to the letter."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import pyarrow as pa
import pytest

from anabranch.connectors.postgresql.source import assemble
from anabranch.connectors.postgresql.source.capture import WalReader
from anabranch.connectors.postgresql.source.options import PostgresSourceOptions
from anabranch.connectors.postgresql.source.text_values import array_of_text
from anabranch.contracts import Bounds, PreflightContext
from anabranch.errors import SourceError
from anabranch.model.schema import TableSchema
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from rigs.postgresql_decoders import Change, Rig, changes
from rigs.postgresql_load import RULES

SERVERS = ["logical_postgresql", pytest.param("postgresql15", marks=pytest.mark.servers)]
MakeRig = Callable[..., "BinaryRig"]
_BOUNDS_OF_TIME = ("'infinity'", "'-infinity'", "'4713-01-01 00:00:00 BC'", "'294276-12-31 23:59:59.999999'")
_MOMENTS = (
    *_BOUNDS_OF_TIME,
    "'1999-12-31 23:59:59.999999'",
    "'0001-01-01'",
    "'0001-12-31 00:00:00.1 BC'",
    "'2000-01-01'",
)
_EXACT = (
    "'NaN'",
    "0",
    "0.00",
    "-0.1",
    "1",
    "9999",
    "10000",
    "-10000.5",
    "99999999.9999",
    "0.0001",
    "'1e-4'",
)
# type -> values that are easily lost
VALUES: dict[str, tuple[str, ...]] = {
    "boolean": ("true", "false"),
    "smallint": ("-32768", "32767", "0"),
    "integer": ("-2147483648", "2147483647"),
    "bigint": ("-9223372036854775808", "9223372036854775807"),
    "oid": ("4294967295", "0"),
    "real": ("'NaN'", "'-Infinity'", "'Infinity'", "-0.0", "16777215", "1e-45", "3.4028235e38", "1.1"),
    "double precision": ("'NaN'", "'Infinity'", "-0.0", "0.1", "5e-324", "1.7976931348623157e308", "1e15"),
    "numeric(12,4)": _EXACT,
    "numeric(1000,0)": ("repeat('9', 1000)::numeric", "1e999", "-1e500", "10000000000000000", "0"),
    "numeric(1000,1000)": ("1e-1000", "-1e-997", "('0.' || repeat('1', 1000))::numeric"),
    "character varying(7)": ("'a  '", "'äöüß€😀x'", "''"),
    "character(5)": ("'a'", "'  b'", "''"),
    "text": ("''", "E'tab\\t nl\\n cr\\r bs\\b ff\\f vt\\v back\\\\slash \\\\N \\\\. end'", "repeat('😀', 3000)"),
    "name": ("'a name'",),
    "bytea": ("''", "'\\x00ff5c0a'", "decode(repeat('00ff', 5000), 'hex')"),
    "date": ("'infinity'", "'-infinity'", "'4713-01-01 BC'", "'5874897-12-31'", "'2024-02-29'", "'12345-06-07'"),
    "time without time zone": ("'24:00:00'", "'00:00:00.000001'", "'12:30:00.5'", "'00:00'"),
    "time(2) without time zone": ("'23:59:59.99'", "'01:02:03.1'"),
    "timestamp without time zone": _MOMENTS,
    "timestamp(3) without time zone": ("'2024-02-29 12:00:00.120'",),
    "timestamp with time zone": (*_MOMENTS[:4], "'0044-03-15 12:00:00+01 BC'", "'2024-03-31 02:30:00.5 Europe/Berlin'"),
    "uuid": ("'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "'00000000-0000-0000-0000-000000000000'"),
    "json": ('\'{"b": 1,  "a": [1, 2.50, null, "\\u00e4"], "a": 2}\'',),
    "jsonb": ('\'{"b": 1e400, "a": "\\u00e4\\n"}\'', "'1.000'", "'null'", '\'""\''),
    "mood": ("'ok'", "'it''s'", "'größer'"),
    "price": _EXACT,
    "dear": ("9999.9", "-0.5"),
    "counted": ("-5", "2147483647"),
    "spoken": ("'a'", "''"),
    "feeling": ("'ok'",),
    "since": _MOMENTS,
}  # fmt: skip
TYPES = (
    "CREATE TYPE mood AS ENUM ('ok', 'it''s', 'größer')",
    "CREATE DOMAIN price AS numeric(12, 4)",
    "CREATE DOMAIN dear AS price CHECK (VALUE < 10000)",
    "CREATE DOMAIN counted AS integer",
    "CREATE DOMAIN spoken AS character varying(3)",
    "CREATE DOMAIN feeling AS mood",
    "CREATE DOMAIN since AS timestamp with time zone",
)
# Types that are read as text alone, and then the whole log is.
OTHERS = (
    "interval", "numeric", "integer[]", "money", '"char"', "xml", "time with time zone", "inet", "int4range", "point",
    "weight", "raw", "pair",
)  # fmt: skip
OTHER_TYPES = (
    "CREATE DOMAIN weight AS double precision",
    "CREATE DOMAIN raw AS bytea",
    "CREATE TYPE pair AS (a int, b int)",
)
DRAWN = """
INSERT INTO drawn SELECT g, r * 1e8 - 3e7, r * 10 ^ (g % 9) - 500, (r * 9e18)::bigint - 45e17::bigint,
  '4714-11-24 00:00:00 BC'::timestamp + days, ('2000-01-01'::timestamp + days / 60000)::timestamptz,
  '4713-01-01 BC'::date + (r * 2e9)::int, CASE WHEN g % 7 > 0 THEN time '00:00' + r * interval '86399 seconds' END
  FROM (SELECT g, random() AS r, 1.09e8 * random() * interval '1 day' AS days FROM generate_series(1, 20000) AS g) AS d
"""


class BinaryRig(Rig):
    def reader(self, binary: bool, decoder: str = "pgoutput") -> WalReader:
        """Of whole transactions: test_postgresql_streaming.py has those that are open."""
        own = PostgresSourceOptions(decoder=decoder, binary=binary)
        return WalReader(self.connector.endpoint, self.options(decoder), own)

    def as_text(self) -> list[list[Change]]:
        return self.asked(binary=False, expected=False)

    def as_binary(self) -> list[list[Change]]:
        return self.asked(binary=True, expected=True)

    def asked(self, binary: bool, expected: bool, decoder: str = "pgoutput") -> list[list[Change]]:
        """What the log gives to who asks for that form, and is given the expected one."""
        with closing(self.reader(binary, decoder)) as reader:
            reader.start(self.begin, self.tables.get)
            assert reader.is_binary is expected
            return [change for chunk in self.chunks(reader) for change in changes(chunk, self.tables)]

    def copied(self, schema: TableSchema) -> dict[str, dict[str, str]]:
        """By its key, a row as COPY has it and as the load's text means it."""
        names = [column.name for column in schema.columns]
        with closing(self.connector.snapshot()) as snapshot:
            snapshot.open(schema, "none")
            rows = b"".join(snapshot.lines(schema, names, Bounds(), RULES)).splitlines()
        columns = zip(*(map(unescaped, row.split(b"\t")) for row in rows), strict=True)
        read = []
        for column, texts in zip(schema.columns, columns, strict=True):
            assert column.type is not None
            found = array_of_text(column.type, pa.array(texts, pa.large_binary()))
            read.append([repr(one) for one in found.to_pylist()])
        return {row[0]: dict(zip(names, row, strict=True)) for row in zip(*read, strict=True)}


def unescaped(text: bytes) -> bytes | None:
    if text == b"\\N":
        return None
    for escape, byte in (
        (b"\\t", b"\t"),
        (b"\\n", b"\n"),
        (b"\\r", b"\r"),
        (b"\\b", b"\b"),
        (b"\\f", b"\f"),
        (b"\\v", b"\v"),
    ):
        text = text.replace(b"\\\\", b"\0").replace(escape, byte).replace(b"\0", b"\\\\")
    return text.replace(b"\\\\", b"\\")


@pytest.fixture(params=SERVERS)
def rig(request: pytest.FixtureRequest, source_database: Callable[[Server], Database]) -> Iterator[MakeRig]:
    """`rig(*statements)`: a database with these tables."""
    made: list[BinaryRig] = []

    def make(*statements: str) -> BinaryRig:
        database = source_database(request.getfixturevalue(request.param))
        database.execute(*statements)
        made.append(BinaryRig(database, ("pgoutput",)))
        return made[-1]

    yield make
    for one in made:
        one.drop()


def equal_everywhere(made: BinaryRig) -> int:
    """Rows, which are inserts alone, are the same in three ways; returns how many they are."""
    found, text = made.as_binary(), made.as_text()
    assert found == text
    by_table = {schema.id.name: made.copied(schema) for schema in made.tables.values()}
    rows = [change for transaction in found for change in transaction[1:]]
    for _, table, op, image in rows:
        assert op == "INSERT" and image == by_table[table].pop(image["id"]), (table, image["id"])
    assert not any(by_table.values())
    return len(rows)


def test_pitfall_29_values_in_binary_form_as_text_and_by_copy(rig: MakeRig) -> None:
    tables = {f"t{number}": (type, values) for number, (type, values) in enumerate(VALUES.items())}
    made = rig(*TYPES, *(f"CREATE TABLE {name} (id int PRIMARY KEY, v {type})" for name, (type, _) in tables.items()))
    for name, (type, values) in tables.items():
        rows = ", ".join(f"({number}, ({value})::{type})" for number, value in enumerate((*values, "NULL")))
        made.database.execute(f"INSERT INTO {name} VALUES {rows}")
    assert equal_everywhere(made) == sum(len(values) + 1 for values in VALUES.values())


def test_drawn_values_in_binary_form_as_text_and_by_copy(rig: MakeRig) -> None:
    made = rig(
        "CREATE TABLE drawn (id int PRIMARY KEY, n numeric(30,9), m numeric(12,3), b bigint, ts timestamp, tstz timestamptz,"
        " d date, ti time)"
    )
    made.database.execute(DRAWN)
    assert equal_everywhere(made) == 20_000


def test_pitfall_01_identities_and_what_was_not_changed(rig: MakeRig) -> None:
    tables = ("keyed", "whole", "indexed", "keyless")
    twice = " twice int GENERATED ALWAYS AS (id * 2) STORED,"
    made = rig(
        *(
            f"CREATE TABLE {name} (id int NOT NULL, at timestamp NOT NULL, v numeric(9,3), large text,"
            f"{twice * (name in ('keyed', 'indexed'))} raw bytea{', PRIMARY KEY (id)' * (name != 'keyless')})"
            for name in tables
        ),
        *(f"ALTER TABLE {name} ALTER large SET STORAGE EXTERNAL, ALTER raw SET STORAGE EXTERNAL" for name in tables),
        "ALTER TABLE whole REPLICA IDENTITY FULL",
        "CREATE UNIQUE INDEX indexed_too ON indexed (id, at)",
        "ALTER TABLE indexed REPLICA IDENTITY USING INDEX indexed_too",
    )
    for name in tables:
        made.database.execute(
            f"INSERT INTO {name} (id, at, v, large, raw) VALUES (2, 'infinity', 1.5, NULL, NULL),"
            " (1, '2020-01-01', NULL, repeat('ü', 9000), decode(repeat('00ff', 9000), 'hex'))",
            f"UPDATE {name} SET v = 0",
            f"UPDATE {name} SET v = NULL, id = id + 10",
            f"UPDATE {name} SET large = repeat('y', 9000) WHERE id = 11",
            f"UPDATE {name} SET at = '0044-03-15 BC' WHERE id = 12",
            f"BEGIN; INSERT INTO {name} VALUES (5, now()); SAVEPOINT a; INSERT INTO {name} VALUES (6, now()); ROLLBACK TO a;"
            f" DELETE FROM {name} WHERE id = 5; COMMIT",
            f"TRUNCATE {name}",
        )
    found = made.as_binary()
    assert found == made.as_text() and len(found) == 7 * len(tables)
    images = [
        change[3] for transaction in found for change in transaction[1:] if len(change) == 4 and change[2] == "AFTER"
    ]
    assert sum("unchanged" in (image.get("large"), image.get("raw")) for image in images) == 6


@pytest.mark.parametrize("type", OTHERS)
def test_a_type_that_is_read_as_text_alone_makes_it_all_text(rig: MakeRig, type: str) -> None:
    made = rig(
        *OTHER_TYPES,
        "CREATE TABLE plain (id int PRIMARY KEY, v timestamp)",
        f"CREATE TABLE t (id int PRIMARY KEY, v {type})",
    )
    made.database.execute("INSERT INTO plain VALUES (1, now())", "INSERT INTO t VALUES (1, NULL)")
    found = made.asked(binary=True, expected=False)
    assert found == made.as_text() and len(found) == 2


@pytest.mark.servers
def test_a_server_that_has_no_binary_form_gives_text(
    postgresql12: Server, source_database: Callable[[Server], Database]
) -> None:
    database = source_database(postgresql12)
    database.execute("CREATE TABLE plain (id int PRIMARY KEY)")
    made = BinaryRig(database, ("pgoutput",))
    database.execute("INSERT INTO plain VALUES (1)")
    assert len(made.asked(binary=True, expected=False)) == 1
    made.drop()


@pytest.mark.servers
@pytest.mark.parametrize("decoder", ["wal2json", "decoderbufs"])
def test_other_decoders_give_text(
    postgresql15: Server, source_database: Callable[[Server], Database], decoder: str
) -> None:
    database = source_database(postgresql15)
    database.execute("CREATE TABLE plain (id int PRIMARY KEY)")
    made = BinaryRig(database, (decoder,))
    database.execute("INSERT INTO plain VALUES (1)")
    assert len(made.asked(binary=True, expected=False, decoder=decoder)) == 1
    made.drop()


def test_preflight_says_what_makes_it_text(rig: MakeRig) -> None:
    made = rig("CREATE TABLE plain (id int PRIMARY KEY)", "CREATE TABLE t (id int PRIMARY KEY, v interval, n numeric)")
    found = []
    for choices in ({"binary": True}, {"binary": True, "decoder": "wal2json"}, {}):
        with closing(replace(made.connector, options=PostgresSourceOptions(**choices)).checks()) as checks:
            results = checks.run(PreflightContext("job", {}, made.tables, {}))
        found.append([(r.verdict, r.table, r.message) for r in results if r.check == "source.decoder"])
    assert found[0] == [
        ("warning", "public.t", "v, n: of a type that is read as text alone: all values of the log come as text")
    ]
    assert ("warning", "", "wal2json of this server gives values as text") in found[1]
    assert [(verdict, table) for verdict, table, _ in found[2]] == [("ok", "")]


def test_a_table_that_joins_decides_anew(rig: MakeRig) -> None:
    made = rig("CREATE TABLE plain (id int PRIMARY KEY, at timestamp)")
    forms = []
    with closing(made.reader(True)) as reader:
        reader.start(made.begin, lambda table: made.tables.get(table))
        found = []
        for statement in ("", "CREATE TABLE t (id int PRIMARY KEY, v interval)", "DROP TABLE t"):
            if statement:
                made.database.execute(statement)
                with closing(made.connector.catalog()) as catalog:
                    made.tables = catalog.tables(lambda table: True)
                made.connector.run(made.connector.steps(made.options("pgoutput"), made.tables, begins=False), 10.0)
                reader.reselect()
            made.database.execute("INSERT INTO plain SELECT count(*), '2024-01-01 00:00:00.5' FROM plain")
            found += [change for chunk in made.chunks(reader) for change in changes(chunk, made.tables)]
            forms.append(reader.is_binary)
    assert forms == [True, False, True]
    assert [change["id"] for _, (_, _, _, change) in found] == ["0", "1", "2"]
    assert {change["at"] for _, (_, _, _, change) in found} == {"'2024-01-01 00:00:00.5'"}


GONE = (
    "CREATE TABLE plain (id int PRIMARY KEY, at timestamp)",
    "CREATE TABLE gone (id int PRIMARY KEY, v interval)",
)


def test_a_table_of_before_that_needs_text_is_read_as_text(rig: MakeRig) -> None:
    """It is not there any more when the log is read: nothing said that its rows would come."""
    made = rig(*GONE)
    made.database.execute(
        "INSERT INTO plain VALUES (1, '2024-01-01')", "INSERT INTO gone VALUES (1, '1 day')", "DROP TABLE gone",
        "INSERT INTO plain VALUES (2, 'infinity')",
    )  # fmt: skip
    expected = made.as_text()
    assert [change[1] for _, change in expected] == ["plain", "gone", "plain"]
    with closing(made.reader(True)) as reader:
        reader.start(made.begin, made.tables.get)
        assert reader.is_binary
        found = [change for chunk in made.chunks(reader) for change in changes(chunk, made.tables)]
        assert found == expected and not reader.is_binary


def test_within_a_large_transaction_such_a_table_is_refused(rig: MakeRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assemble, "FULL_IMAGES", 7)
    made = rig(*GONE)
    made.database.execute(
        "BEGIN; INSERT INTO plain SELECT n FROM generate_series(1, 20) n; INSERT INTO gone VALUES (1, '1 day'); COMMIT",
        "DROP TABLE gone",
    )
    with closing(made.reader(True)) as reader:
        reader.start(made.begin, made.tables.get)
        with pytest.raises(SourceError, match=r"in binary form: public\.gone: v") as refused:
            until = time.monotonic() + 180
            while time.monotonic() < until:
                reader.read(0.2)
    assert refused.value.hint == "[source.options] binary = false"
    assert len(made.as_text()) > 0

"""Messages of the format `debezium`, beside those of Debezium itself on the same source."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anabranch.connectors.postgresql.target.change_tables.writer import PostgresChangeWriter
from anabranch.rows.appended import ChangeBatch
from anabranch.rows.messages.debezium.envelope import DebeziumFormat
from anabranch.rows.messages.format import Settings
from anabranch.testing.databases import Database, create_database, drop_database, unique_name
from anabranch.testing.servers import Server
from rigs.job_here import JobHere
from rigs.scenario import Scenario
from rigs.scenario_postgresql import FromPostgres

pytestmark = pytest.mark.long

FORM = '[target]\nform = "change_tables"\n'
MYSQL = {
    "i1": ("tinyint", "-128", "1"), "u1": ("tinyint unsigned", "255"), "i2": ("smallint", "-32768"),
    "u2": ("smallint unsigned", "65535"), "i3": ("mediumint", "-8388608"), "i4": ("int", "-2147483648"),
    "u4": ("int unsigned", "4294967295"), "i8": ("bigint", "-9223372036854775808"),
    "u8": ("bigint unsigned", "18446744073709551615", "0"), "d": ("decimal(10,2)", "-12345678.91", "0.00"),
    "dd": ("decimal(65,30)", "99999999999999999999999999999999999.999999999999999999999999999999", "-1e-30"),
    "f": ("float", "0.1", "-1.5e-7", "1e7"), "ff": ("double", "1e308", "-0.0", "5e-324", "123456789012345678"),
    "y": ("year", "2155"), "c": ("char(20)", "'ab'"), "v": ("varchar(60)", "'a\\tb\\nc\\rd\\\\e\"ÄöÜ😀\\0'", "''"),
    "t": ("text", "'1e5'"), "b": ("binary(4)", "'ab'"), "vb": ("varbinary(300)", "0xfffefd00", "''"),
    "da": ("date", "'1000-01-01'", "'9999-12-31'"), "dt": ("datetime", "'1000-01-01 00:00:00'"),
    "dt3": ("datetime(3)", "'2024-02-29 12:00:00.125'"), "dt6": ("datetime(6)", "'9999-12-31 23:59:59.999999'"),
    "ts": ("timestamp null", "'2024-03-31 02:30:00'"), "ts6": ("timestamp(6) null", "'2038-01-19 03:14:07.499999'"),
    "ti": ("time", "'-838:59:59'", "'08:05:03'"), "ti6": ("time(6)", "'838:59:58.999999'"),
    "b1": ("bit(1)", "b'1'"), "b10": ("bit(10)", "513"), "b64": ("bit(64)", "18446744073709551615"),
    "e": ("enum('a','it''s')", "'it''s'"), "s": ("set('p','q','r')", "'p,r'"),
    "j": ("json", "'{\"a\": 1, \"b\": [true, null, \"x\\\\\\\\y\"]}'"),
}  # fmt: skip
POSTGRESQL = {
    "bo": ("boolean", "true"), "i2": ("smallint", "-32768"), "i4": ("integer", "-2147483648"),
    "i8": ("bigint", "-9223372036854775808"), "nu": ("numeric", "123456789012345678901234567890.123456789", "0.00", "1e30"),
    "d": ("numeric(10,3)", "-9999999.999", "0.1"), "r": ("real", "'-Infinity'", "16777215", "1e-45", "'NaN'"),
    "f": ("double precision", "'NaN'", "-0.0", "5e-324"), "c": ("character(5)", "'a'"), "v": ("varchar(7)", "'äöüß€😀x'"),
    "t": ("text", "E'tab\\t nl\\n cr\\r bs\\b ff\\f vt\\v back\\\\slash end'"), "na": ("name", "'a name'"),
    "by": ("bytea", "'\\x00ff5c0a'", "''"), "da": ("date", "'2024-02-29'", "'4713-01-01 BC'"),
    "ti": ("time", "'00:00:00.000001'", "'23:59:59'"), "ti3": ("time(3)", "'12:00:00.123'"),
    "tz": ("time with time zone", "'12:00:00.123+00'"),
    "ts": ("timestamp", "'2024-02-29 12:00:00.000001'", "'infinity'", "'-infinity'", "'0001-01-01 00:00:00'"),
    "ts3": ("timestamp(3)", "'1969-12-31 23:59:59.999'"),
    "tt": ("timestamptz", "'2024-03-31 02:30:00.5 Europe/Berlin'", "'infinity'", "'2024-01-01 00:00:00+00'"),
    "iv": ("interval", "'-1 year 2 mons -3 days 04:05:06.789'", "'24:00:00'"),
    "b1": ("bit(1)", "B'1'"), "b5": ("bit(5)", "B'10100'"), "bv": ("bit varying", "B'1' || repeat('01', 10)::varbit"),
    "inet": ("inet", "'10.1.2.3/8'"), "ci": ("cidr", "'10.0.0.0/8'"), "ma": ("macaddr", "'08:00:2b:01:02:03'"),
    "u": ("uuid", "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'"),
    "j": ("json", "'{\"b\": 1,  \"a\": [1, 2.50, null]}'"), "jb": ("jsonb", "'{\"b\": 1e3, \"a\": \"\\u00e4\"}'"),
    "tv": ("tsvector", "'fat:1A'"), "ra": ("int4range", "'[1,5]'"), "o": ("oid", "4294967295"),
    "mo": ("money", "'-12.08'"), "ia": ("integer[]", "'{1,NULL,3}'", "'{}'"), "ta": ("text[]", "'{\"a,b\",NULL,\"NULL\"}'"),
    "ba": ("boolean[]", "'{t,f}'"), "fa": ("double precision[]", "'{0.1,5e-324}'"), "en": ("feel", "'it''s'"),
}  # fmt: skip

# Of Debezium, where its defaults lose something.
PROPERTIES = {
    "converter.schemas.enable": "true",
    "provide.transaction.metadata": "true",
    "bigint.unsigned.handling.mode": "precise",
    "interval.handling.mode": "string",
}


@pytest.fixture(params=["mysql", "mariadb", "logical_postgresql"])
def here(
    request: pytest.FixtureRequest, source_database: Callable[[Server], Database], tmp_path: Path
) -> Iterator[JobHere]:
    source = source_database(request.getfixturevalue(request.param))
    target = create_database(request.getfixturevalue("postgresql"), "changes")
    kind = FromPostgres if request.param == "logical_postgresql" else Scenario
    made = kind(source, target, tmp_path, name=unique_name("job"))
    made.write_job("")
    made.job_file.write_text(made.job_file.read_text().replace("[target]\n", FORM))
    yield JobHere(made)
    drop_database(target)


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[ChangeBatch]:
    """Return what an Appender is given from here on, which writes nothing."""
    kept: list[ChangeBatch] = []
    monkeypatch.setattr(PostgresChangeWriter, "append", lambda self, batch: kept.append(batch))
    return kept


Told = tuple[str, str | None, str | None]  # topic, key, value


def _ours(batches: Sequence[ChangeBatch], source: Database, **settings: Any) -> list[Told]:
    found = DebeziumFormat(
        Settings(
            "shown",
            source.server.name,
            source.name if source.server.name == "postgresql" else "",
            lambda table: f"shown.{table.source.schema}.{table.source.name}",
            **settings,
        )
    )
    messages = []
    for batch in batches:
        found.begin()
        messages += [*found.messages(batch).each(), *found.end().each()]
    upto = next(at for at, one in enumerate(messages) if one.topic.endswith("last"))
    texts = [(one.key, one.value) for one in messages[:upto]]
    told = [tuple(None if text is None else text.decode() for text in pair) for pair in texts]
    return [(one.topic, key, value) for one, (key, value) in zip(messages, told, strict=False)]


def _changes(source: Database) -> list[str]:
    """One row for each value beside the first ones, changed keys, and a table without a key."""
    types = POSTGRESQL if source.server.name == "postgresql" else MYSQL
    names = list(types)
    made = []
    for at in range(max(len(one) for one in types.values()) - 1):
        values = [one[1 + at] if len(one) > 1 + at else "NULL" for one in types.values()]
        made.append(f"INSERT INTO item (id, {', '.join(names)}) VALUES ({at}, {', '.join(values)})")
    made.append("UPDATE item SET v = 'x' WHERE id = 0")
    made.append("UPDATE item SET id = 100 WHERE id = 1")
    made.append("DELETE FROM item WHERE id = 100")
    made += ["INSERT INTO heap VALUES (1, 'a')", "UPDATE heap SET w = 'b'", "DELETE FROM heap"]
    return made


def _tables(source: Database) -> list[str]:
    if source.server.name == "postgresql":
        columns = ", ".join(f"{name} {one[0]}" for name, one in POSTGRESQL.items())
        return [
            "CREATE TYPE feel AS ENUM ('a', 'it''s')",
            f"CREATE TABLE item (id int PRIMARY KEY, {columns})",
            "CREATE TABLE heap (n int, w text)",
            "CREATE TABLE last (id int PRIMARY KEY)",
            *(f"ALTER TABLE {name} REPLICA IDENTITY FULL" for name in ("item", "heap", "last", "scenario_mark")),
        ]
    columns = ", ".join(f"{name} {one[0]}" for name, one in MYSQL.items())
    return [
        f"CREATE TABLE item (id int PRIMARY KEY, {columns}) CHARACTER SET utf8mb4",
        "CREATE TABLE heap (n int, w varchar(20))",
        "CREATE TABLE last (id int PRIMARY KEY)",
    ]


def test_messages_are_those_of_debezium(here: JobHere, batches: list[ChangeBatch], tmp_path: Path) -> None:
    from bench.peers.debezium_messages import Shown

    source = here.made.source
    source.execute(*_tables(source))
    here.load()
    shown = Shown(source, tmp_path, PROPERTIES)
    try:
        source.execute("BEGIN", *_changes(source), "COMMIT", "INSERT INTO last VALUES (1)")
        theirs = list(shown.upto("last"))
        here.stream()
    finally:
        shown.stop()
    ours = _ours(batches, source, decimal="precise", schema=True, transactions="shown.transaction")
    for topic in ("item", "transaction"):
        found = list(_differences(_shown(ours, topic), _shown(theirs, topic)))
        assert found == [], found[:20]
    told = [payload["op"] for _, (_, value) in _shown(ours, "heap") if (payload := value["payload"])]
    assert told == ["c", "d", "c", "d"], "each row of a table without a key is told by itself"


def _differences(ours: Any, theirs: Any, place: str = "") -> Iterator[str]:
    """Yield where two values differ: pytest's own comparison of so much text takes minutes."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        if list(ours) != list(theirs) and not place.endswith(("parameters", "]")):
            yield f"{place}: {list(ours)} and {list(theirs)}"
        for name in {*ours, *theirs}:
            yield from _differences(ours.get(name), theirs.get(name), f"{place}.{name}")
    elif isinstance(ours, (list, tuple)) and isinstance(theirs, (list, tuple)) and len(ours) == len(theirs):
        for at, pair in enumerate(zip(ours, theirs, strict=True)):
            yield from _differences(*pair, f"{place}[{at}]")
    elif ours != theirs:
        yield f"{place}: {str(ours)[:100]} and {str(theirs)[:100]}"


def _shown(messages: Sequence[Told], topic: str) -> list[Any]:
    """Return messages of a topic without what is told otherwise on purpose (docs/reference/kafka-messages.md)."""
    found = [one for one in messages if one[0].endswith(topic)]
    return [(one[0], (_read(one[1]), _read(one[2]))) for one in found]


def _read(text: str | None) -> Any:
    value = json.loads(text) if text else None
    if value is None:
        return None
    payload = value["payload"]
    if "TransactionMetadata" in value["schema"]["name"]:
        del payload["id"]
    for name in ("source", "transaction"):
        payload[name] = {key: one for key, one in (payload.get(name) or {}).items() if key not in OTHERWISE}
    for name in ("before", "after"):
        payload[name] = _row(payload.get(name) or {})
    kept = {name: one for name, one in payload.items() if name not in NOT_COMPARED}
    return {"schema": _schema(value["schema"]), "payload": kept}


def _row(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: EQUAL[name](one) if name in EQUAL and one is not None else one
        for name, one in row.items()
        if name not in ("na", "tz", "mo")
    }


def _schema(schema: Any) -> Any:
    """Return a schema without what it says of null and defaults."""
    if isinstance(schema, list):
        return [_schema(one) for one in schema if one.get("field") not in ("mo", "j")]
    if not isinstance(schema, dict):
        return schema
    return {name: _schema(one) for name, one in schema.items() if name not in ("optional", "default", "doc")}


def _number(value: Any) -> Any:
    scale = value["scale"]
    return Decimal(int.from_bytes(base64.b64decode(value["value"]), "big", signed=True)).scaleb(-scale)


NOT_COMPARED = {"ts_ms", "ts_us", "ts_ns", "event_count", "data_collections"}  # a heap's updates count twice
OTHERWISE = {"version", "server_id", "pos", "lsn", "thread", "sequence", "id"}
# Of two texts of one value.
EQUAL = {"j": json.loads, "jb": json.loads, "nu": _number, "r": lambda one: repr(np.float32(one))}

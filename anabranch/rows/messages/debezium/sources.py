"""The `source` of a message: the fields that Debezium's connectors have there, by the source's connector.

Our log of transactions has the place behind each of them and not those of its changes: `file`, `pos` and `lsn` are that. What
it does not have is null, or 0 where null cannot be.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from anabranch.model.ids import TableId
from anabranch.rows.appended import Committed
from anabranch.rows.messages.json_text import literal
from anabranch.rows.messages.transactions import name_of
from anabranch.version import __version__

Schema = Mapping[str, object]


@dataclass(frozen=True)
class Source:
    """One kind. `names`: the database of a table, by what the job is connected to, and the members that name the table;
    `place`: members for a transaction's position; `name`: of a transaction; `fields`: schemas of names and place."""

    names: Callable[[TableId, str], tuple[str, dict[str, str]]]
    place: Callable[[Committed], dict[str, object]]
    name: Callable[[Committed], str]
    fields: tuple[Schema, ...]


def _field(type: str, field: str, is_optional: bool = False, **more: object) -> Schema:
    return {"type": type, "optional": is_optional, **more, "field": field}


def _binlog(one: Committed) -> dict[str, object]:
    file, _, position = one.position.rpartition(":")
    offset = int(position) if position.isdigit() else 0
    place = {"gtid": one.gtid, "file": file, "pos": offset}
    return {"server_id": 0, **place, "row": 0, "thread": None, "query": None}


def _wal(one: Committed) -> dict[str, object]:
    transaction = int(one.gtid) if one.gtid and one.gtid.isdigit() else None
    return {"txId": transaction, "lsn": _lsn(one), "xmin": None, "origin": None, "origin_lsn": None}


def _lsn(one: Committed) -> int | None:
    high, slash, low = one.position.partition("/")
    return int(high, 16) << 32 | int(low, 16) if slash else None


_BINLOG = Source(
    lambda table, database: (table.schema, {"table": table.name}),
    _binlog,
    name_of,
    (
        _field("string", "table", True),
        _field("int64", "server_id"),
        _field("string", "gtid", True),
        _field("string", "file"),
        _field("int64", "pos"),
        _field("int32", "row"),
        _field("int64", "thread", True),
        _field("string", "query", True),
    ),
)
_POSTGRESQL = Source(
    lambda table, database: (database, {"schema": table.schema, "table": table.name}),
    _wal,
    lambda one: f"{one.gtid}:{_lsn(one)}" if one.gtid else name_of(one),
    (
        _field("string", "schema"),
        _field("string", "table"),
        _field("int64", "txId", True),
        _field("int64", "lsn", True),
        _field("int64", "xmin", True),
        _field("string", "origin", True),
        _field("int64", "origin_lsn", True),
    ),
)
# Each connector of a source that Debezium has one for.
SOURCES: Mapping[str, Source] = {"mysql": _BINLOG, "mariadb": _BINLOG, "postgresql": _POSTGRESQL}
# A source of another kind tells what all of them do.
OTHER = Source(
    _POSTGRESQL.names,
    lambda one: {"position": one.position},
    name_of,
    (_field("string", "schema"), _field("string", "table"), _field("string", "position")),
)
SNAPSHOTS = "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"


def source_of(connector: str) -> Source:
    """Return what is told of a source of this connector."""
    return SOURCES.get(connector, OTHER)


@dataclass(frozen=True, slots=True)
class Parts:
    """Members of `source` of a transaction's messages, as JSON: in front of the database's name, behind it, and behind the
    table's; `name` is the transaction's."""

    front: str
    times: str
    place: str
    name: str


def transaction_parts(connector: str, job: str, one: Committed, is_first: bool = False) -> Parts:
    """Return what `source` says of a transaction. `is_first`: it is the place of a snapshot."""
    microseconds = one.commit_time
    front = {"version": __version__, "connector": connector, "name": job, "ts_ms": microseconds // 1000}
    times = {"sequence": None, "ts_us": microseconds, "ts_ns": microseconds * 1000}
    place = source_of(connector).place(one)
    return Parts(
        _members(front | {"snapshot": "true" if is_first else "false"}),
        _members(times),
        _members(place),
        literal(source_of(connector).name(one)),
    )


def table_parts(connector: str, table: TableId, database: str) -> tuple[str, str]:
    """Return the members of `source` that name a table's database, and the table."""
    database, names = source_of(connector).names(table, database)
    return _members({"db": database}), _members(names)


def _members(values: Mapping[str, object]) -> str:
    return ",".join(f"{literal(name)}:{json.dumps(value, ensure_ascii=False)}" for name, value in values.items())


def schema_of(connector: str) -> Schema:
    """Return the schema of `source`."""
    one = source_of(connector)
    allowed = {"allowed": SNAPSHOTS}
    fields = [
        _field("string", "version"),
        _field("string", "connector"),
        _field("string", "name"),
        _field("int64", "ts_ms"),
        _field(
            "string", "snapshot", True, name="io.debezium.data.Enum", version=1, parameters=allowed, default="false"
        ),
        _field("string", "db"),
        _field("string", "sequence", True),
        _field("int64", "ts_us", True),
        _field("int64", "ts_ns", True),
        *one.fields,
    ]
    name = f"io.debezium.connector.{connector}.Source"
    return {"type": "struct", "fields": fields, "optional": False, "name": name, "version": 1, "field": "source"}

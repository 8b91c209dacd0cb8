"""Writes the recordings beside it; see README.md."""

from __future__ import annotations

import base64
import importlib.util
import json
import sys
import tempfile
import zlib
from pathlib import Path
from types import ModuleType
from typing import Any

from anabranch.contracts import ValueRules
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server, start_mariadb, start_mysql

HERE = Path(__file__).parent
TESTS = HERE.parents[4]


def load(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


live = load("recording_live", TESTS / "live" / "binlog" / "conftest.py")
values = load("recording_values", TESTS / "live" / "binlog" / "test_mysql_live_log_values.py")
replay = load("recording_replay", HERE.parent / "conftest.py")

SHORT = {
    "x4": "repeat('long ', 100)",
    "b5": "repeat(x'0d0a', 200)",
    "x2": "repeat('ab', 300)",
    "b4": "repeat(x'80', 300)",
}
UTC = "SET time_zone = '+00:00', sql_mode = 'NO_AUTO_VALUE_ON_ZERO'"
SHOP = (
    "CREATE TABLE t (id int PRIMARY KEY, v varchar(20), n decimal(10,2) DEFAULT 1.25) ENGINE=InnoDB",
    "CREATE TABLE left_out (id int PRIMARY KEY)",
)
TRANSACTIONS = (
    "INSERT INTO t VALUES (1, 'a', 1), (2, 'b', NULL)",
    "INSERT INTO left_out VALUES (1)",
    "BEGIN", "UPDATE t SET v = 'c'", "SAVEPOINT s", "DELETE FROM t", "ROLLBACK TO s", "UPDATE t SET id = id + 10", "COMMIT",
    "BEGIN", "INSERT INTO t VALUES (3, 'never', 3)", "ROLLBACK",
    "ALTER TABLE t COMMENT 'naïve'",
    "SET binlog_row_image = 'MINIMAL'", "INSERT INTO t (id) VALUES (5)", "UPDATE t SET v = NULL WHERE id = 11",
    "DELETE FROM t WHERE id = 12",
    "TRUNCATE TABLE left_out", "FLUSH BINARY LOGS", "SET binlog_row_image = 'FULL'", "INSERT INTO t VALUES (6, '', 0)",
)  # fmt: skip
ZERO = (
    "SET sql_mode = 'ALLOW_INVALID_DATES'",
    "INSERT INTO z VALUES (1, '2024-01-01', NULL)",
    "INSERT INTO z VALUES (2, '2024-01-02', '2024-01-02 03:04:05'), (3, '2024-00-15', NULL), (4, NULL, '0000-00-00')",
)


def record(
    database: Database, name: str, statements: tuple[str, ...], checked: tuple[str, ...], zero: str = "stop"
) -> None:
    follower = live.Follower(database, ValueRules(zero_date=zero))
    follower.tables = {k: v for k, v in follower.definitions().items() if k.name != "left_out"}
    begun = follower.begin()
    blocks: list[bytes] = []
    receive = follower.reader._dump.receive
    follower.reader._dump.receive = lambda timeout: _kept(blocks, receive(timeout))
    follower.run(*statements)
    follower.stop()
    for table in checked:
        assert follower.told(table) == follower.read(table), f"{name}: {table} is not what SELECT says"
    write(name, database.server, begun.resume, follower, b"".join(blocks))


def _kept(blocks: list[bytes], block: bytes | None) -> bytes | None:
    if block:
        blocks.append(block)
    return block


def write(name: str, server: Server, resume: str, follower: Any, stream: bytes) -> None:
    replay.know(follower.tables)
    text = base64.b85encode(zlib.compress(stream, 9)).decode()
    data = {
        "server": f"{server.name} {server.version}",
        "resume": resume,
        "tables": [schema.to_json() for schema in follower.tables.values()],
        "stream": [text[at : at + 110] for at in range(0, len(text), 110)],
        "expected": replay.told(follower.items),
    }
    (HERE / f"{name}.json").write_text(json.dumps(data, ensure_ascii=False, indent=1) + "\n")
    print(name, len(stream), "bytes of log")


def wide(seed: int) -> tuple[str, ...]:
    columns = [(n, t, [SHORT.get(n, v[0]), *v[1:]] if n in SHORT else v) for n, t, v in values.COLUMNS]
    values.COLUMNS[:] = columns
    return tuple(values.workload(seed, 6))


def main() -> None:
    only = sys.argv[1:]
    for start in (start_mariadb, start_mysql):
        with tempfile.TemporaryDirectory() as place:
            Path(place).chmod(0o755)
            with start(Path(place) / "server") as server:
                if not only or server.name in only:
                    record_all(server)


def record_all(server: Server) -> None:
    from anabranch.testing.databases import create_database

    for image in ("FULL", "MINIMAL", "NOBLOB"):
        database = create_database(server, "types")
        values.define(database)
        record(
            database,
            f"{server.name}-types-{image.lower()}",
            (UTC, f"SET binlog_row_image = '{image}'", *wide(3)),
            ("wide",),
        )
    database = create_database(server, "shop")
    database.execute(*SHOP)
    record(database, f"{server.name}-transactions", TRANSACTIONS, ("t",))
    database = create_database(server, "zero")
    database.execute("CREATE TABLE z (id int PRIMARY KEY, d date, ts datetime(3))")
    record(database, f"{server.name}-zero-dates", ZERO, (), "null")


if __name__ == "__main__":
    main()

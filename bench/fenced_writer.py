"""The writer of `cutover`, a process of its own: one row per transaction, at a steady rate over several connections. Who is
refused by a fence tries again until it is let in, so that one cut-over after the other has writers.

Where the table has rows that are there from the beginning, every other transaction changes one of them, drawn at random. Behind
the end of its input it prints the id and the last value of each row that it has written."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pymysql

from anabranch.demo.words import READ_ONLY
from anabranch.testing.databases import connect
from anabranch.testing.servers import server_from_dsn
from bench.ledger import CONNECTIONS

INSERT = "INSERT INTO ledger (written) VALUES (%s)"
UPDATE = "UPDATE ledger SET written = %s WHERE id = %s"
REFUSED_SECONDS = 0.02  # between two tries of one who is refused


@dataclass
class Written:
    """Count what one connection has written: how many transactions are committed, and the last value of each row."""

    count: int = 0
    rows: dict[int, int] = field(default_factory=dict)


def main() -> None:
    url, rate, rows = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    ending = threading.Event()
    done = [Written() for _ in range(CONNECTIONS)]
    threads = [
        threading.Thread(
            target=_write, args=(url, rate / CONNECTIONS, _keys(rows, one), done[one], ending), daemon=True
        )
        for one in range(CONNECTIONS)
    ]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    ending.set()
    for thread in threads:
        thread.join()
    for one in done:
        print("".join(f"{key} {written}\n" for key, written in one.rows.items()), end="")


def _keys(rows: int, one: int) -> Iterator[int | None]:
    """Draw what transactions change, without end: None stands for a new row. Each connection has rows of its own, so that it
    knows what they have in the end."""
    draw = random.Random(one)
    while True:
        yield None
        if rows >= CONNECTIONS:
            yield 1 + one + CONNECTIONS * draw.randrange(rows // CONNECTIONS)


def _write(url: str, rate: float, keys: Iterator[int | None], done: Written, ending: threading.Event) -> None:
    server, database = server_from_dsn(url), url.rpartition("/")[2]
    begin, key = time.monotonic() + 0.2, next(keys)
    with closing(connect(server, database)) as connection, closing(connection.cursor()) as cursor:
        while not ending.is_set():
            due = begin + done.count / rate - time.monotonic()
            if due > 0:
                time.sleep(due)
            value = time.time_ns() // 1000
            try:
                done.rows[_changed(cursor, key, value, server.name == "postgresql")] = value
            except (psycopg.errors.ReadOnlySqlTransaction, pymysql.err.OperationalError) as error:
                if isinstance(error, pymysql.err.OperationalError) and error.args[0] not in READ_ONLY:
                    raise
                ending.wait(REFUSED_SECONDS)
                begin = time.monotonic() - done.count / rate  # what it could not write meanwhile is not made up for
            else:
                done.count, key = done.count + 1, next(keys)


def _changed(cursor: Any, key: int | None, value: int, is_postgresql: bool) -> int:
    """Insert a row, or change the one that is named. Returns its id, once that is committed."""
    if key is not None:
        cursor.execute(UPDATE, (value, key))
        if cursor.rowcount != 1:
            raise LookupError(f"the table has no row {key}")
        return key
    cursor.execute(INSERT + (" RETURNING id" if is_postgresql else ""), (value,))
    return int(cursor.fetchone()[0]) if is_postgresql else int(cursor.lastrowid)


if __name__ == "__main__":
    main()

"""The writer of `cutover`, a process of its own: one row per transaction, at a steady rate over several connections, until each
is refused. Prints the ids of the rows that it was told are committed."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import closing
from typing import Any

import psycopg
import pymysql

from anabranch.demo.words import READ_ONLY
from anabranch.testing.databases import connect
from anabranch.testing.servers import server_from_dsn
from bench.ledger import CONNECTIONS

INSERT = "INSERT INTO ledger (written) VALUES (%s)"


def main() -> None:
    url, rate = sys.argv[1], float(sys.argv[2])
    begin = time.monotonic() + 0.2
    found: list[list[int]] = [[] for _ in range(CONNECTIONS)]
    threads = [
        threading.Thread(target=_write, args=(url, begin, rate / CONNECTIONS, one), daemon=True) for one in found
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("\n".join(str(number) for one in found for number in one))


def _write(url: str, begin: float, rate: float, acknowledged: list[int]) -> None:
    server, database = server_from_dsn(url), url.rpartition("/")[2]
    is_postgresql = server.name == "postgresql"
    with closing(connect(server, database)) as connection, closing(connection.cursor()) as cursor:
        while True:
            due = begin + len(acknowledged) / rate - time.monotonic()
            if due > 0:
                time.sleep(due)
            try:
                acknowledged.append(_insert(cursor, is_postgresql))
            except (psycopg.errors.ReadOnlySqlTransaction, pymysql.err.OperationalError) as error:
                if not is_postgresql and error.args[0] not in READ_ONLY:
                    raise
                return


def _insert(cursor: Any, is_postgresql: bool) -> int:
    """Insert a row and return its id, once it is committed."""
    cursor.execute(INSERT + (" RETURNING id" if is_postgresql else ""), (time.time_ns() // 1000,))
    return int(cursor.fetchone()[0]) if is_postgresql else int(cursor.lastrowid)


if __name__ == "__main__":
    main()

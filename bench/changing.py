"""The writer of `beside`, a process of its own: transactions of one row change at a steady rate over several connections, for
as long as it runs. Half of them change one of a few rows that never rest, others any row, or remove it and make it again.

Answers each line of its input with how many transactions it has committed."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing

from anabranch.testing.databases import connect
from anabranch.testing.servers import server_from_dsn
from bench.ledger import CONNECTIONS

ROWS, HOT = 20_000, 40  # rows that are written to; those that never rest
RESTING = 1_000  # rows behind them that nobody writes to
TABLE = "CREATE TABLE counters (id bigint NOT NULL PRIMARY KEY, n bigint NOT NULL, word varchar(40) NOT NULL)"


def main() -> None:
    url, rate = sys.argv[1], float(sys.argv[2])
    begin, done = time.monotonic() + 0.2, [0] * CONNECTIONS
    for one in range(CONNECTIONS):
        threading.Thread(target=_write, args=(url, begin, rate / CONNECTIONS, done, one), daemon=True).start()
    for _ in sys.stdin:
        print(sum(done), flush=True)


def _write(url: str, begin: float, rate: float, done: list[int], one: int) -> None:
    server, database = server_from_dsn(url), url.rpartition("/")[2]
    with closing(connect(server, database)) as connection, closing(connection.cursor()) as cursor:
        for statement in _changes(random.Random(one), one):
            due = begin + done[one] / rate - time.monotonic()
            if due > 0:
                time.sleep(due)
            cursor.execute(statement)
            done[one] += 1


def _changes(draw: random.Random, one: int) -> Iterator[str]:
    """Statements without end. Each connection removes rows of its own only; so none waits long for another, and none fails."""
    while True:
        count, key = draw.randrange(1_000_000), draw.randrange(ROWS)
        own = HOT + draw.randrange((ROWS - HOT) // CONNECTIONS) * CONNECTIONS + one
        yield f"UPDATE counters SET n = n + 1 WHERE id = {draw.randrange(HOT)}"
        yield f"UPDATE counters SET n = {count}, word = 'word {count}' WHERE id = {key}"
        yield f"UPDATE counters SET word = 'hot {count}' WHERE id = {draw.randrange(HOT)}"
        yield f"UPDATE counters SET n = n + 1 WHERE id = {draw.randrange(HOT)}"
        yield f"DELETE FROM counters WHERE id = {own}"
        yield f"INSERT INTO counters VALUES ({own}, {count}, 'again')"


if __name__ == "__main__":
    main()

"""The writer of W4, a process of its own: one row per transaction, at a steady rate over several connections. Prints how
many rows it has committed."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import closing

from anabranch.testing.databases import connect
from anabranch.testing.servers import server_from_dsn

CONNECTIONS = 4


def main() -> None:
    url, rate, seconds = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
    begin = time.monotonic() + 0.2
    total = int(rate * seconds)
    threads = [threading.Thread(target=_write, args=(url, begin, rate, total, one)) for one in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(total)


def _write(url: str, begin: float, rate: float, total: int, first: int) -> None:
    server, database = server_from_dsn(url), url.rpartition("/")[2]
    with closing(connect(server, database)) as connection, closing(connection.cursor()) as cursor:
        for number in range(first, total, CONNECTIONS):
            wait = begin + number / rate - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            cursor.execute(f"INSERT INTO ledger (written) VALUES ({time.time_ns() // 1000})")


if __name__ == "__main__":
    main()

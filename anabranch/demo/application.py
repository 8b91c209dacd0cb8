"""The shop's application while it is led from one database to the other: it writes where a file says, under its own account.

A fence refuses it; it rolls back, looks at the file, and tries again there. What does not live here: its transactions
(writer.py), who changes the file (the flip command of a cut-over, switching.py).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from anabranch.demo.words import Words
from anabranch.demo.writer import WORKERS, Shop, Totals
from anabranch.testing.databases import Database

PAUSE = 0.02  # seconds between two tries of a worker that is refused
POINT = """\
#!/bin/sh
# Leads the application to a side: "old" or "new". It may be run twice.
echo "$1" > '{file}.next' && mv '{file}.next' '{file}'
"""


@dataclass(frozen=True, slots=True)
class Side:
    """A database as the application enters it. `words`: those for the tables there."""

    database: Database
    user: str
    password: str
    words: Words

    def connect(self) -> Any:
        return self.database.connect(autocommit=False, user=self.user, password=self.password)


class Way:
    """The file that says which side the application writes to, and the command that changes it."""

    def __init__(self, directory: Path, side: str) -> None:
        self.file, self._script = directory / "application", directory / "point-application"
        self.file.write_text(side + "\n")
        self._script.write_text(POINT.format(file=self.file))

    def flip(self, side: str) -> list[str]:
        """Return the command that leads the application to `side`."""
        return ["/bin/sh", str(self._script), side]

    def side(self) -> str:
        return self.file.read_text().strip()


class Application:
    """Workers in threads; leaving the context stops them. `rate`: transactions per second of all of them together."""

    def __init__(self, sides: Mapping[str, Side], way: Way, rate: float) -> None:
        self._sides, self._way = sides, way
        self._stop = threading.Event()
        self._failures: list[Exception] = []
        self._shops: list[Shop] = []
        self._lock = threading.Lock()
        self.acknowledged: dict[str, list[tuple[int, int]]] = {side: [] for side in sides}  # (worker, number) by side
        self.pauses: list[float] = []  # seconds without a commit, at each change of sides
        self.fenced = 0
        self._last = time.monotonic(), way.side()
        self._threads = [
            threading.Thread(target=self._live, args=(number, WORKERS / rate), daemon=True)
            for number in range(1, WORKERS + 1)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def stop(self) -> Totals:
        """Stop after the running transactions. Raises the error that ended a worker early."""
        self.__exit__()
        self.check()
        return sum((shop.totals for shop in self._shops), Totals())

    def check(self) -> None:
        """Raise the error that ended a worker, if there is one."""
        if self._failures:
            raise self._failures[0]

    def _live(self, number: int, pause: float) -> None:
        shop: Shop | None = None
        try:
            while not self._stop.is_set():
                name = self._way.side()
                with closing(self._sides[name].connect()) as connection:
                    words = self._sides[name].words
                    if shop is None:
                        shop = Shop(connection, number, words, is_keyed=True)
                        self._shops.append(shop)
                    else:
                        shop.enter(connection, words)
                    shop.run(words.utc)
                    connection.commit()
                    self._work(shop, name, pause)
        except Exception as error:  # noqa: BLE001  # whatever ends a worker ends the demo
            self._failures.append(error)

    def _work(self, shop: Shop, name: str, pause: float) -> None:
        """Work at one side until the file names the other one."""
        due = time.monotonic()
        while not self._stop.is_set() and self._way.side() == name:
            before = shop.totals.committed
            try:
                shop.one()
            except shop.words.driver_error as error:
                if not shop.words.is_fenced(error):
                    raise
                with suppress(shop.words.driver_error):
                    shop.connection.rollback()
                self.fenced += 1
                self._stop.wait(PAUSE)
                continue
            if shop.totals.committed > before:
                self._committed(name, shop)
            due = max(due + pause, time.monotonic() - 1.0)
            self._stop.wait(max(0.0, due - time.monotonic()))

    def _committed(self, name: str, shop: Shop) -> None:
        now = time.monotonic()
        with self._lock:
            last, where = self._last
            if where != name:
                self.pauses.append(now - last)
            self._last = now, name
            self.acknowledged[name].append((shop.worker, shop.number))

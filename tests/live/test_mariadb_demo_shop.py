"""The demo's shop on a real MariaDB: made whole, and every kind of transaction of its writer happens."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from anabranch.demo import shop
from anabranch.demo.words import words_of
from anabranch.demo.writer import LIFE, Shop, Writer
from anabranch.testing.in_time import in_time
from anabranch.testing.servers import start_mariadb


@pytest.fixture(scope="module")
def source() -> Iterator[shop.End]:
    """On a server of its own: database and account have fixed names."""
    directory = Path(tempfile.mkdtemp(prefix="anabranch-shop-"))
    directory.chmod(0o755)
    with start_mariadb(directory / "mariadb") as server:
        yield shop.create_source(server)
    shutil.rmtree(directory)


def until(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 120
    while not condition():
        in_time(give_up)
        time.sleep(0.05)


def test_the_shop_is_made_whole(source: shop.End) -> None:
    assert shop.count_rows(source) == (200_000, 10)


@pytest.mark.parametrize(("number", "event"), list(enumerate((event for event, _, _ in LIFE), 10)))
def test_each_transaction_works(source: shop.End, number: int, event: str) -> None:
    work = next(work for name, work, _ in LIFE if name == event)
    with closing(source.database.connect(autocommit=False)) as connection:
        worker = Shop(connection, number, words_of("mariadb"))
        for prepare in (Shop.place_order, Shop.register):
            prepare(worker)
        assert work(worker) is (event != "think again")
        connection.commit()


def test_the_writer_keeps_its_rate_and_its_ledger(source: shop.End) -> None:
    with Writer(source.database, rate=100) as writer:
        until(lambda: writer.totals.committed > 50)
        totals = writer.stop()
    assert totals.committed > 50
    rows = source.database.query("SELECT COUNT(*), COUNT(DISTINCT writer) FROM ledger WHERE writer < 10")
    assert rows == [(totals.committed, 2)]


def test_a_worker_that_loses_its_server_says_so(source: shop.End) -> None:
    server = source.database.server
    with Writer(source.database, rate=50) as writer:
        until(lambda: writer.totals.committed > 0)
        server.kill()
        with pytest.raises(Exception, match=r"Lost connection|gone away|Can't connect"):
            until(lambda: writer.check() is not None)
    server.start()

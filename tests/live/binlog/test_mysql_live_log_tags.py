"""Tagged GTIDs (MySQL 8.3 and later), on a MySQL 9: mixed with others, entered again by place and by set."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from uuid import uuid4

import pytest

from anabranch import connectors
from anabranch.connectors.mysql.source.positions import MysqlGtids, place_of
from anabranch.errors import LogLost
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server

pytestmark = pytest.mark.servers
GIVEN = str(uuid4())  # a source that the server never saw
LONG = "_a_tag_of_thirty_two_characters_"
CREATE = "CREATE TABLE t (id int PRIMARY KEY AUTO_INCREMENT, gtid_next varchar(80))"


def write(database: Database, *nexts: str) -> None:
    """A row per value of gtid_next, which it holds."""
    database.execute(
        *(s for n in nexts for s in (f"SET gtid_next = '{n}'", f"INSERT INTO t (gtid_next) VALUES ('{n}')")),
        "SET gtid_next = 'AUTOMATIC'",
    )


def gtids(follower) -> list[str | None]:
    return [t["gtid"] for chunk in follower.chunks() for t in chunk.transactions.to_pylist()]


def test_rule_18_tagged_gtids(mysql9: Server, source_database: Callable, follow: Callable) -> None:
    database = source_database(mysql9)
    database.execute(CREATE)
    follower = follow(database)
    begun = place_of(follower.begin().resume)
    write(
        database, "AUTOMATIC", "AUTOMATIC:Blue", f"AUTOMATIC:{LONG}", f"{GIVEN}:blue:77", f"{GIVEN}:9000000000000000000"
    )
    follower.take()
    told, server = gtids(follower), follower.reader.identity()
    assert [gtid.rpartition(":")[0] for gtid in told] == [
        server,
        f"{server}:blue",
        f"{server}:{LONG}",
        f"{GIVEN}:blue",
        GIVEN,
    ]
    here = place_of(follower.mark.resume)
    assert MysqlGtids(here.gtid).missing_from(begun.gtid) == str(MysqlGtids(",".join(told)))
    assert_entered_again_by_place(database, follower)
    assert_entered_by_set(database, follower, replace(here, identity="the-old-server", file="binlog.000001", offset=4))
    assert_a_server_that_lacks_a_tag_is_refused(follower)
    assert_low_is_a_set_with_tags(database, follower)


def assert_entered_again_by_place(database: Database, follower) -> None:
    mark = follower.mark
    write(database, "AUTOMATIC:blue", "AUTOMATIC")
    database.execute("FLUSH BINARY LOGS")  # the next file begins with the set of what was before
    write(database, "AUTOMATIC:green", "AUTOMATIC:blue")
    follower.begin(mark)
    follower.take()
    assert [image["gtid_next"] for image in follower.images("t")][5:] == [
        "AUTOMATIC:blue", "AUTOMATIC", "AUTOMATIC:green", "AUTOMATIC:blue"
    ]  # fmt: skip
    executed = str(MysqlGtids(database.query("SELECT @@GLOBAL.gtid_executed")[0][0]))
    assert place_of(follower.mark.resume).gtid == executed


def assert_entered_by_set(database: Database, follower, place) -> None:
    """As on a promoted replica: nothing twice, nothing left out."""
    before = [image["id"] for image in follower.images("t")]
    follower.items.clear()
    follower.begin(place.mark())
    write(database, "AUTOMATIC:last")
    follower.take()
    assert [image["id"] for image in follower.images("t")] == [*before[5:], len(before) + 1]
    assert not place_of(follower.mark.resume).by_gtid


def assert_a_server_that_lacks_a_tag_is_refused(follower) -> None:
    place = place_of(follower.mark.resume)
    with pytest.raises(LogLost, match=f"{GIVEN}:red:5"):
        follower.begin(replace(place, identity="the-old-server", gtid=f"{place.gtid},{GIVEN}:red:5").mark())


def assert_low_is_a_set_with_tags(database: Database, follower) -> None:
    source = connectors.source(follower.endpoint)
    with closing(source.snapshot()) as snapshot:
        low, high = snapshot.open(follower.schema("t"), "none")
    follower.begin()
    write(database, "AUTOMATIC:last")
    follower.take()
    transactions = [t for chunk in follower.chunks() for t in chunk.transactions.to_pylist()]
    included = [source.order.includes(low, t["native"], t["gtid"]) for t in transactions]
    assert source.order.is_set(low) and included == [*[True] * (len(included) - 1), False]
    assert not source.order.includes(high, transactions[-1]["native"], transactions[-1]["gtid"])

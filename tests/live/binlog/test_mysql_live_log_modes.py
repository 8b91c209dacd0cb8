"""gtid_mode changed online in the middle of a log: transactions with and without GTIDs, in every mode there is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest

from anabranch import connectors
from anabranch.connectors.mysql.source.positions import MysqlGtids, place_of
from anabranch.errors import LogLost, SourceError
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server

OTHER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
MODES = ["ON", "ON_PERMISSIVE", "OFF_PERMISSIVE", "OFF"]
# Who writes: the value of gtid_next, and the modes that take it; the id that comes of AUTOMATIC is the mode's affair.
WRITERS = {
    "AUTOMATIC": MODES,
    "ANONYMOUS": MODES[1:],
    f"{OTHER}:%d": MODES[:3],
}


@contextmanager
def modes(database: Database) -> Iterator[Callable[[str], None]]:
    """`go(mode)` changes the server's gtid_mode, one step at a time as it has to be; back to ON at the end."""
    at = [MODES.index("ON")]

    def go(mode: str) -> None:
        to = MODES.index(mode)
        while at[0] != to:
            at[0] += 1 if to > at[0] else -1
            database.execute(f"SET GLOBAL gtid_mode = {MODES[at[0]]}")

    try:
        yield go
    finally:
        go("ON")


class Story:
    """Rows written in one mode after the other, and what the log should say of each."""

    def __init__(self, database: Database, follower) -> None:
        self.database, self.follower = database, follower
        self.has_gtid: list[bool] = []

    def write(self, mode: str) -> None:
        """Every kind of writer that the mode allows, twice."""
        statements = []
        for gtid_next, where in WRITERS.items():
            for _ in range(2 * (mode in where)):
                value = gtid_next % (len(self.has_gtid) + 1) if "%" in gtid_next else gtid_next
                statements += [f"SET gtid_next = '{value}'", "INSERT INTO t () VALUES ()"]
                self.has_gtid.append(value != "ANONYMOUS" and not (value == "AUTOMATIC" and mode.startswith("OFF")))
        self.database.execute(*statements)

    def check(self) -> None:
        """Everything written came, once, in order, with a GTID where it has one."""
        images = self.follower.images("t")
        assert [image["id"] for image in images] == list(range(1, len(self.has_gtid) + 1))
        gtids = [t["gtid"] for chunk in self.follower.chunks() for t in chunk.transactions.to_pylist()]
        assert [gtid is not None for gtid in gtids] == self.has_gtid


def test_pitfall_25_gtid_mode_is_changed_under_the_reader(
    mysql: Server, source_database: Callable, follow: Callable
) -> None:
    database = source_database(mysql)
    database.execute("CREATE TABLE t (id int PRIMARY KEY AUTO_INCREMENT)")
    follower = follow(database)
    follower.begin()
    story, marks = Story(database, follower), []
    with modes(database) as go:
        for mode in (*MODES, *MODES[-2::-1]):
            go(mode)
            story.write(mode)
            follower.take()
            marks.append((len(story.has_gtid), follower.mark))
            assert place_of(follower.mark.resume).anonymous is (not all(story.has_gtid))
        story.check()
        assert_lows_name_what_is_in_the_snapshot(story, go)
        go("ON_PERMISSIVE")
        place = place_of(follower.mark.resume)
        assert place.gtid == str(MysqlGtids(database.query("SELECT @@GLOBAL.gtid_executed")[0][0]))
        for seen, mark in marks[3:4]:
            assert_read_again(story, seen, mark)
        assert_the_mode_that_is_needed_is_named(story, marks[0][1], go)
    assert_no_other_server_takes_over(story, marks[0][1], marks[-1][1])


def assert_read_again(story: Story, seen: int, mark) -> None:
    """The log is entered by its place, whatever the mode was there."""
    follower = story.follower
    follower.begin(mark)
    assert [image["id"] for image in follower.images("t", follower.take())] == list(
        range(seen + 1, len(story.has_gtid) + 1)
    )


def assert_the_mode_that_is_needed_is_named(story: Story, mark, go: Callable[[str], None]) -> None:
    """A server gives no reader transactions of the mode that it has left altogether: nothing is lost, it comes later."""
    follower = story.follower
    for mode, needed in (("ON", "ON_PERMISSIVE"), ("OFF", "OFF_PERMISSIVE")):
        go(mode)
        follower.begin(mark)
        with pytest.raises(SourceError, match="Cannot replicate") as refused:
            follower.take()
        assert not isinstance(refused.value, LogLost) and refused.value.position
        assert refused.value.hint.startswith(f"SET GLOBAL gtid_mode = {needed} ")


def assert_lows_name_what_is_in_the_snapshot(story: Story, go: Callable[[str], None]) -> None:
    """K2, in every mode: by the set and by the place, or by the place alone. All that was there when it was opened is in
    it, nothing that came later; also where the mode is another one by then."""
    follower, source = story.follower, connectors.source(story.follower.endpoint)
    opened = []
    for mode in (*MODES, "ON"):
        go(mode)
        with closing(source.snapshot()) as snapshot:
            low, high = snapshot.open(follower.schema("t"), "none")
        assert source.order.is_set(low) is (mode == "ON")
        opened.append((len(story.has_gtid), low, high))
        story.write(mode)
    follower.take()
    story.check()
    transactions = [t for chunk in follower.chunks() for t in chunk.transactions.to_pylist()]
    for count, low, high in opened:
        expected = [place < count for place in range(len(transactions))]
        for mark in (low, high):
            assert [source.order.includes(mark, t["native"], t["gtid"]) for t in transactions] == expected


def assert_no_other_server_takes_over(story: Story, before, after) -> None:
    """K18: a set of GTIDs that does not name everything says nothing about another server."""
    follower = story.follower
    with pytest.raises(LogLost, match="transactions without GTIDs") as refused:
        follower.begin(replace(place_of(after.resume), identity="the-old-server").mark())
    assert "the-old-server" in refused.value.hint and "load again" in refused.value.hint
    with pytest.raises(
        LogLost, match="Cannot replicate anonymous transaction when AUTO_POSITION"
    ):  # the server's own word: before it all had GTIDs
        follower.begin(replace(place_of(before.resume), identity="the-old-server").mark())
        follower.take()


def test_rule_18_a_trail_that_begins_without_gtids_says_so(
    mysql: Server, source_database: Callable, follow: Callable
) -> None:
    """Even if nothing comes: what is before its begin may have no GTIDs."""
    database = source_database(mysql)
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    with modes(database) as go:
        assert not place_of(follow(database).begin().resume).anonymous
        go("ON_PERMISSIVE")
        assert place_of(follow(database).begin().resume).anonymous

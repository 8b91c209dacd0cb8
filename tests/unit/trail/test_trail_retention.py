"""Who holds the trail, and what may go (K12)."""

from __future__ import annotations

import os
import threading
from types import SimpleNamespace

import pytest

from anabranch.errors import TrailError
from anabranch.model.ids import TableId
from anabranch.trail import retention


def fill(writer, samples, last: int) -> None:
    for n in range(writer.next_sequence, last + 1):
        writer.append(samples.chunk(n, n))
    writer.flush()


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "trail"


def test_rule_12_nothing_goes_while_nobody_is_registered(open_writer, open_reader, samples, directory):
    writer = open_writer(segment_bytes=2000, limits=retention.RetentionLimits(0))
    fill(writer, samples, 30)
    assert writer.drop_old() == [] and open_reader().first() == 1


def test_rule_12_no_age_passes_a_registered_reader(open_writer, open_reader, samples, directory):
    writer = open_writer(segment_bytes=2000)
    retention.register(directory, "apply", 0)
    retention.hold(directory, "load shop.orders", 0)
    fill(writer, samples, 40)
    assert retention.drop_old(directory, retention.RetentionLimits(0), now=1e12) == []
    retention.advance(directory, "apply", 30)
    assert retention.drop_old(directory, retention.RetentionLimits(0), now=1e12) == []
    retention.unregister(directory, "load shop.orders")
    assert retention.drop_old(directory, retention.RetentionLimits(0), now=1e12)
    reader = open_reader()
    assert 1 < reader.first() <= 31
    found = samples.found_rows([reader.load(r) for r in reader.descriptors(30)])
    assert found == samples.expected_rows(31, 40)
    assert reader.position_at(reader.first() - 1).native == f"log:{reader.first() - 1}"
    assert reader.check().problems == []


def test_rule_12_time_counts_from_when_the_last_reader_passed(open_writer, open_reader, samples, directory):
    writer = open_writer(segment_bytes=2000)
    retention.register(directory, "apply", 0)
    fill(writer, samples, 40)
    assert retention.drop_old(directory, retention.RetentionLimits(100), now=0) == []
    retention.advance(directory, "apply", 40)
    assert retention.drop_old(directory, retention.RetentionLimits(100), now=1000) == []
    assert retention.drop_old(directory, retention.RetentionLimits(100), now=1099) == []
    dropped = retention.drop_old(directory, retention.RetentionLimits(100), now=1100)
    assert dropped and retention.drop_old(directory, retention.RetentionLimits(100), now=1100) == []
    assert not any((directory / name).exists() for name in dropped)


def test_rule_12_pitfall_45_a_clock_that_is_set_neither_drops_nor_keeps(
    open_writer, open_reader, samples, directory, monkeypatch
):
    clock = Clock(monkeypatch)
    writer = open_writer(segment_bytes=2000, limits=retention.RetentionLimits(100))
    retention.register(directory, "apply", 0)
    fill(writer, samples, 40)
    retention.advance(directory, "apply", 40)
    assert writer.drop_old() == []
    clock.wall += 86_400
    assert writer.drop_old() == []
    clock.wall -= 2 * 86_400
    clock.pass_by(99)
    assert writer.drop_old() == []
    clock.pass_by(2)
    assert writer.drop_old()


class Clock:
    """Time as the test wants it."""

    def __init__(self, monkeypatch):
        self.wall, self.steady = 1e9, 1e5
        clock = SimpleNamespace(time=lambda: self.wall, monotonic=lambda: self.steady)
        monkeypatch.setattr(retention, "time", clock)  # nobody else's

    def pass_by(self, seconds):
        self.wall += seconds
        self.steady += seconds


def test_rule_12_newest_segment_stays(open_writer, open_reader, samples, directory, kill):
    writer = open_writer(segment_bytes=1)
    retention.register(directory, "apply", 0)
    fill(writer, samples, 5)
    retention.advance(directory, "apply", 5)
    assert len(retention.drop_old(directory, retention.RetentionLimits(0))) == 4
    assert open_reader().end().position.sequence == 5
    kill(writer)
    writer = open_writer()
    assert writer.end.position.sequence == 5
    fill(writer, samples, 6)
    assert samples.found_rows([open_reader().load(r) for r in open_reader().descriptors(5)]) == samples.expected_rows(
        6, 6
    )


def test_record_lost_after_old_segments_went(open_writer, open_reader, samples, directory, kill):
    writer = open_writer(segment_bytes=1500)
    retention.register(directory, "apply", 0)
    fill(writer, samples, 6)
    for fragment in samples.large(7):
        writer.append(fragment)
    fill(writer, samples, 20)
    retention.advance(directory, "apply", 7)
    assert retention.drop_old(directory, retention.RetentionLimits(0))
    kill(writer)
    (directory / "published").write_bytes(bytes(256))
    assert open_writer().end.position.sequence == 20
    reader = open_reader()
    assert samples.found_rows([reader.load(r) for r in reader.descriptors(7)]) == samples.expected_rows(8, 20)
    assert reader.position_at(7).native == "log:7"


def test_reader_before_the_start_is_refused_by_name(open_writer, open_reader, samples, directory):
    writer = open_writer(segment_bytes=1500)
    retention.register(directory, "apply", 0)
    fill(writer, samples, 20)
    retention.advance(directory, "apply", 20)
    writer.close()
    retention.drop_old(directory, retention.RetentionLimits(0))
    with pytest.raises(TrailError, match="reader slow is at sequence 3, the trail starts at"):
        retention.register(directory, "slow", 3)
    with pytest.raises(TrailError, match="reader slow is at sequence 3"):
        retention.hold(directory, "slow", 3)
    assert set(retention.readers(directory)) == {"apply"}
    with pytest.raises(TrailError, match=r"reader .* is at sequence 3"):
        open_reader().descriptors(3)


def test_names_are_anything(open_writer, directory):
    open_writer()
    for name in ("apply", 'load shop."odd/name"', "ü .."):
        retention.register(directory, name, 0)
        retention.advance(directory, name, 7)
        retention.advance(directory, name, 5)
    found = retention.readers(directory)
    assert {name: r.sequence for name, r in found.items()} == dict.fromkeys(found, 7) and len(found) == 3
    assert found["apply"].pid == os.getpid() and found["apply"].kind == "reader"
    for name in found:
        retention.unregister(directory, name)
        retention.unregister(directory, name)
    assert retention.readers(directory) == {}
    with pytest.raises(TrailError, match="not registered"):
        retention.advance(directory, "apply", 9)


def test_registering_is_possible_before_the_trail_is(directory):
    retention.register(directory, "apply", 0)
    assert set(retention.readers(directory)) == {"apply"}


def test_damaged_registration_holds_everything_until_it_is_renewed(open_writer, samples, directory):
    writer = open_writer(segment_bytes=2000)
    retention.register(directory, "apply", 0)
    fill(writer, samples, 20)
    retention.advance(directory, "apply", 20)
    (directory / "readers" / "apply.json").write_text("")
    assert retention.drop_old(directory, retention.RetentionLimits(0)) == []
    retention.register(directory, "apply", 20)
    assert retention.drop_old(directory, retention.RetentionLimits(0))


def test_torture_seed_214_two_that_are_done_let_go_at_once(open_writer, samples, directory):
    """Two loads of one job: the first one stood still for a while."""
    fill(open_writer(), samples, 1)
    failures: list[BaseException] = []

    def let_go() -> None:
        try:
            retention.unregister(directory, "load")
        except BaseException as error:  # noqa: BLE001 - reported by the assertion below
            failures.append(error)

    for _ in range(30):
        retention.hold(directory, "load", 0)
        threads = [threading.Thread(target=let_go) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == [] and retention.readers(directory) == {}


def test_rule_12_size_and_number_limit_what_everybody_is_past(open_writer, directory, samples):
    writer = open_writer(segment_bytes=2000)
    fill(writer, samples, 60)
    retention.register(directory, "apply", 45)
    day = 86_400.0
    everything = retention.droppable(directory, retention.RetentionLimits(0))
    assert len(everything) > 4 and retention.droppable(directory, retention.RetentionLimits(day)) == {}
    names, sizes = list(everything), list(everything.values())
    assert list(retention.droppable(directory, retention.RetentionLimits(day, count=3))) == names[:-3]
    assert list(retention.droppable(directory, retention.RetentionLimits(day, bytes=sum(sizes[-2:])))) == names[:-2]
    assert list(retention.droppable(directory, retention.RetentionLimits(day, bytes=sum(sizes[-2:]) - 1))) == names[:-1]
    assert list(retention.droppable(directory, retention.RetentionLimits(day, bytes=10**9, count=100))) == []
    assert retention.drop_old(directory, retention.RetentionLimits(day, bytes=0)) == names
    assert retention.droppable(directory, retention.RetentionLimits(0)) == {}


def test_rule_12_by_force_a_reader_is_passed_and_that_is_recorded(open_writer, open_reader, directory, samples):
    writer = open_writer(segment_bytes=2000)
    fill(writer, samples, 40)
    retention.register(directory, "apply", 5)
    retention.register(directory, "other", 40)
    assert retention.drop_needed(directory, 30) and retention.forced_drops(directory)[0]["behind"] == ["apply"]
    reader = open_reader()
    assert 20 < reader.first() <= 31 and reader.check().problems == []
    with pytest.raises(TrailError, match="reader apply is at sequence 5, the trail starts at"):
        retention.register(directory, "apply", 5)
    assert retention.drop_needed(directory, 10**9) and open_reader().end().position.sequence == 40  # the newest stays
    assert retention.drop_needed(directory, 10**9) == [] and len(retention.forced_drops(directory)) == 2


def test_each_target_has_names_of_its_own_for_what_it_holds() -> None:
    alone, south = retention.Names(), retention.Names("south")
    table = TableId("shop", "a@south")
    assert (alone.apply, alone.load, alone.table(table)) == ("apply", "load", 'load shop."a@south"')
    assert (south.apply, south.load, south.table(table)) == ("apply@south", "load@south", 'load@south shop."a@south"')
    for mine, other in ((alone, south), (south, alone)):
        for name in (mine.apply, mine.load, mine.table(table)):
            assert mine.has(name) and not other.has(name) and retention.Names.of(name) == mine
        assert (
            mine.is_table(mine.table(table)) and not mine.is_table(other.table(table)) and not mine.is_table(mine.load)
        )

"""Know objects from a log of names: the same ones, whatever a broker has compacted by then, and however much of it was read."""

from __future__ import annotations

import random

import pytest

from anabranch.stores.kafka_index import Index, Loose, Standing

Record = tuple[bytes, bytes | None]
NAMES = ("a", "b/1", "b/2", "b|c")


def of_id(name: str, id: str, *, replaces: bool = False) -> Standing:
    return Standing(name, id, 3, "digest", 900, (int(id),), replaces, int(id))


def read(log: list[Record]) -> Index:
    index = Index()
    for key, value in log:
        index.take(key, value, 0)
    return index


def stands(index: Index) -> list[tuple[str, str]]:
    return [(one.name, one.id) for one in index.objects("")]


def compacted(log: list[Record], r: random.Random) -> list[Record]:
    """Return what is left of a log whose first records were compacted, perhaps with the tombstones among them."""
    end, forgets = r.randrange(len(log) + 1), r.random() < 0.5
    last = {key: at for at, (key, _) in enumerate(log[:end])}
    kept = [log[at] for at in sorted(last.values())]
    return [one for one in kept if one[1] is not None or not forgets] + log[end:]


def drawn(r: random.Random) -> list[Record]:
    """Return a log as writers write it: some die before they have removed what they have to."""
    log: list[Record] = []
    for number in range(60):
        name, index = r.choice(NAMES), read(log)
        what = r.choice(("create", "create", "replace", "delete"))
        if what == "delete":
            log += [(one.key, None) for one in index.all_of(name)]
            continue
        mine, before = of_id(name, str(number), replaces=what == "replace"), index.all_of(name)
        log += [(Loose(mine.id, 1).key, Loose(mine.id, 1).value), (mine.key, mine.value), (Loose(mine.id, 1).key, None)]
        if r.random() < 0.3:
            continue
        log += [(one.key, None) for one in before] if what == "replace" else [(mine.key, None)] if before else []
    return log


@pytest.mark.parametrize("seed", range(40))
def test_a_log_that_was_compacted_says_the_same(seed: int) -> None:
    r = random.Random(seed)
    log = drawn(r)
    whole = read(log)
    for _ in range(5):
        left = read(compacted(log, r))
        assert stands(left) == stands(whole)
        assert all(left.all_of(name) == whole.all_of(name) for name in NAMES) and left.loose == whole.loose


@pytest.mark.parametrize("seed", range(40))
def test_a_removal_that_is_read_in_part_changes_nothing_before_its_end(seed: int) -> None:
    """Who has lost goes before who has won."""
    log = drawn(random.Random(seed))
    index = read(log)
    for name in NAMES:
        held = index.object(name)
        for one in index.all_of(name):
            assert index.object(name) == held
            index.take(one.key, None, 0)
        assert index.object(name) is None
    assert stands(index) == []


def test_the_first_that_creates_has_it_and_the_last_that_replaces() -> None:
    log = [(one.key, one.value) for one in (of_id("a", "1"), of_id("a", "2"))]
    assert stands(read(log)) == [("a", "1")]
    log += [(one.key, one.value) for one in (of_id("a", "3", replaces=True), of_id("a", "4", replaces=True))]
    log += [(of_id("a", "5").key, of_id("a", "5").value)]
    assert stands(read(log)) == [("a", "4")]


def test_a_record_that_comes_long_after_its_writer_gave_up_does_not_bring_back_what_was_replaced() -> None:
    log = [(one.key, one.value) for one in (of_id("a", id, replaces=True) for id in ("1", "3", "2"))]
    assert stands(read(log)) == [("a", "3")]
    assert [one.id for one in read(log).all_of("a")] == ["1", "2", "3"]


def test_what_stood_when_a_record_came_is_told() -> None:
    index = Index()
    index.wait_for("2")
    for one in (of_id("a", "1"), of_id("a", "2"), of_id("a", "3")):
        index.take(one.key, one.value, 0)
    assert [one.id for one in index.before] == ["1"]


@pytest.mark.parametrize(("key", "value"), [(b"junk", b"{}"), (b"a|", b"{}"), (b"a|1", b"["), (b"\xff|1", b"{}")])
def test_records_of_somebody_else_are_refused(key: bytes, value: bytes) -> None:
    with pytest.raises(ValueError):
        Index().take(key, value, 0)

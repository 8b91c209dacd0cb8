"""Files of loads in a trail: kept for every reader that has not got them, removed behind the last one."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch import failpoints
from anabranch.errors import StorageFull, TrailCorrupt, TrailError
from anabranch.trail import load_readers, retention
from anabranch.trail.load_readers import Note, Taken, Unread
from anabranch.trail.replica_files import LoadFile, LoadFilesCopy, gone_of, load_files
from anabranch.trail.storage import LocalStorage
from rigs.trail_loads import TABLE, a_load

FOLDER = f"load/{TABLE}"
ONE, TWO = "apply@one.1", "apply@two.2"


def has(trail: Path, reader: str, load: int, table: str = TABLE) -> None:
    known = load_readers.read(trail, reader).tables
    load_readers.save(trail, reader, Note({**known, table: Taken(load, 1, True)}))


def there(trail: Path) -> list[str]:
    return sorted(path.relative_to(trail).as_posix() for path in (trail / "load").rglob("*.arrow"))


def test_files_go_behind_the_last_reader(tmp_path: Path) -> None:
    names = a_load(tmp_path)
    has(tmp_path, ONE, 1)
    assert load_readers.sweep(tmp_path) == [] and there(tmp_path) == names  # nobody is registered
    assert load_readers.unread(tmp_path) == [Unread(TABLE, 8, (), ())]
    retention.register(tmp_path, ONE, 0)
    retention.hold(tmp_path, "load@two.2", 0)
    retention.hold(tmp_path, "load", 0)  # of the job that captures
    assert load_readers.unread(tmp_path) == [Unread(TABLE, 8, (TWO,), ())]
    assert load_readers.sweep(tmp_path) == [] and load_readers.size(tmp_path) == 8
    load_readers.save(tmp_path, TWO, Note({TABLE: Taken(1, 1)}))
    assert load_readers.sweep(tmp_path) == []  # it has begun with it
    has(tmp_path, TWO, 1)
    assert sorted(load_readers.sweep(tmp_path)) == names
    assert not there(tmp_path) and gone_of(LocalStorage(tmp_path), FOLDER) == 1
    assert load_readers.sweep(tmp_path) == load_readers.unread(tmp_path) == [] and not load_readers.size(tmp_path)


def test_a_later_load_of_a_table_stays_for_all(tmp_path: Path) -> None:
    retention.register(tmp_path, ONE, 0)
    former = a_load(tmp_path)
    has(tmp_path, ONE, 1)
    under_way = tmp_path / FOLDER / "3" / "000000.arrow"
    under_way.parent.mkdir()
    under_way.write_bytes(b"rows")
    names = a_load(tmp_path, 2)
    left = [tmp_path / FOLDER / "2" / name for name in ("000007-killed.arrow", "000008.arrow.77.tmp")]
    for one in left:
        one.write_bytes(b"")
    removed = load_readers.sweep(tmp_path)
    assert sorted(removed) == sorted([*former, *(one.relative_to(tmp_path).as_posix() for one in left)])
    assert there(tmp_path) == [*names, f"{FOLDER}/3/000000.arrow"]


def test_tables_that_a_reader_never_takes_do_not_wait_for_it(tmp_path: Path) -> None:
    a_load(tmp_path)
    kept = a_load(tmp_path, table="shop.items")
    retention.register(tmp_path, ONE, 0)
    retention.register_copy(tmp_path, "pump out", 0)
    load_readers.save(tmp_path, ONE, Note(left_out=frozenset({TABLE})))
    load_readers.note_copied(tmp_path, "pump out", {TABLE: 1})
    load_readers.sweep(tmp_path)
    assert there(tmp_path) == kept
    load_readers.save(tmp_path, ONE, Note(takes_none=True))
    load_readers.note_copied(tmp_path, "pump out", {"shop.items": 1})
    load_readers.sweep(tmp_path)
    assert not there(tmp_path)


@pytest.mark.parametrize("point", ["trail.load.gone"])
def test_what_is_killed_while_files_go_ends_in_the_next_sweep(tmp_path: Path, point: str) -> None:
    names = a_load(tmp_path)
    retention.register(tmp_path, ONE, 0)
    has(tmp_path, ONE, 1)
    failpoints.arm({failpoints.VARIABLE: f"{point}=raise:StorageFull"})
    try:
        with pytest.raises(StorageFull):
            load_readers.sweep(tmp_path)
    finally:
        failpoints.arm({})
    assert there(tmp_path) == names and gone_of(LocalStorage(tmp_path), FOLDER) == 1
    retention.register(tmp_path, TWO, 0)  # it comes too late, and keeps nothing of a load that it does not get
    assert sorted(load_readers.sweep(tmp_path)) == names


def test_a_replica_does_not_take_again_what_it_needs_no_more(tmp_path: Path) -> None:
    here, there_ = tmp_path / "here", tmp_path / "there"
    a_load(here)
    a_load(there_)
    retention.register(there_, ONE, 0)
    has(there_, ONE, 1)
    load_readers.sweep(there_)
    copy, offered = LoadFilesCopy(there_), load_files(LocalStorage(here))
    assert [one.name for one in offered if copy.is_wanted(one)] == []
    assert copy.is_wanted(LoadFile(f"{FOLDER}/2/000000.arrow", 4))
    assert "gone" not in str(load_files(LocalStorage(there_)))


def test_damaged_notes_keep_files_and_are_told_to_their_reader(tmp_path: Path) -> None:
    names = a_load(tmp_path)
    retention.register(tmp_path, ONE, 0)
    has(tmp_path, ONE, 1)
    file = next((tmp_path / "loaded").iterdir())
    for text, error in (
        ("{", TrailCorrupt),
        ('{"format": 1, "tables": 7}', TrailCorrupt),
        ('{"format": 9}', TrailError),
    ):
        file.write_text(text)
        with pytest.raises(error, match="loaded/apply"):
            load_readers.read(tmp_path, ONE)
        assert load_readers.sweep(tmp_path) == [] and there(tmp_path) == names
    load_readers.forget(tmp_path, ONE)
    load_readers.forget(tmp_path, ONE)
    assert load_readers.read(tmp_path, ONE) == Note()
    has(tmp_path, ONE, 1)
    (tmp_path / FOLDER / "gone.json").write_text("{")
    with pytest.raises(TrailCorrupt, match=r"gone\.json"):
        gone_of(LocalStorage(tmp_path), FOLDER)
    assert sorted(load_readers.sweep(tmp_path)) == names and gone_of(LocalStorage(tmp_path), FOLDER) == 1


def test_what_a_reader_has_left_aside_or_comes_behind_its_load_is_not_awaited(tmp_path: Path) -> None:
    a_load(tmp_path)
    retention.register(tmp_path, ONE, 0)
    load_readers.save(tmp_path, ONE, Note({TABLE: Taken(1, is_left=True)}))
    assert [(one.is_stuck, one.left) for one in load_readers.unread(tmp_path)] == [(True, (ONE,))]
    a_load(tmp_path, 2)
    assert not load_readers.unread(tmp_path)[0].is_stuck
    load_readers.save(tmp_path, ONE, Note({TABLE: Taken(1, 1, True)}, is_through=True))
    assert load_readers.unread(tmp_path)[0].is_stuck
    retention.register_copy(tmp_path, "pump out", 0)
    load_readers.note_copied(tmp_path, "pump out", {TABLE: 1})
    assert load_readers.unread(tmp_path) == [Unread(TABLE, 8, ("pump out",), (ONE,))]
    assert load_readers.read(tmp_path, ONE).is_through

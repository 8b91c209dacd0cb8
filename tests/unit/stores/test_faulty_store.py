"""Make each fault of a store once: what others find afterwards is what the fault's name says."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.errors import ConfigError, Side, StorageFull, TargetUnavailable
from anabranch.stores.contract import ObjectExists, ObjectMissing
from anabranch.stores.directory import DirectoryStore
from rigs.faulty_store import Fault, FaultyStore


def names_of(store: FaultyStore) -> list[str]:
    return [found.name for found in store.names()]


def test_faults_come_as_planned_and_once(tmp_path: Path) -> None:
    store = FaultyStore(DirectoryStore(tmp_path / "shop", Side.TARGET))
    for fault, kind, is_there in (
        (Fault.AWAY, TargetUnavailable, False),
        (Fault.CUT, TargetUnavailable, False),
        (Fault.LOST, TargetUnavailable, True),
        (Fault.FULL, StorageFull, False),
        (Fault.REFUSED, ConfigError, False),
    ):
        store.plan(fault, "create", "pieces/")
        store.create(f"other/{fault.name}", b"1")
        with pytest.raises(kind):
            store.create(f"pieces/{fault.name}", b"1")
        assert (f"pieces/{fault.name}" in names_of(store)) is is_there and store.is_through
    store.always = Fault.AWAY
    for work in (lambda: store.read("pieces/LOST"), lambda: store.size("x"), lambda: names_of(store)):
        with pytest.raises(TargetUnavailable):
            work()
    store.always = None
    assert store.read("pieces/LOST") == b"1"


def test_a_listing_lags_and_an_object_is_read_all_the_same(tmp_path: Path) -> None:
    store = FaultyStore(DirectoryStore(tmp_path / "shop", Side.TARGET), lists_at_once=False)
    store.create("1", b"1")
    store.lag()
    store.create("2", b"2")
    assert names_of(store) == ["1"] and store.read("2") == b"2" and store.size("2") == 1
    store.catch_up()
    assert names_of(store) == ["1", "2"]


@pytest.mark.parametrize("creates_once", [True, False])
def test_a_put_arrives_twice(tmp_path: Path, creates_once: bool) -> None:
    store = FaultyStore(DirectoryStore(tmp_path / "shop", Side.TARGET), creates_once=creates_once)
    store.plan(Fault.TWICE, "create")
    with pytest.raises(TargetUnavailable):
        store.create("1", b"old")
    store.delete("1")
    store.create("1", b"new")
    store.arrive()
    assert store.read("1") == (b"new" if creates_once else b"old")


def test_two_creators_at_once_where_none_is_refused(tmp_path: Path) -> None:
    store = FaultyStore(DirectoryStore(tmp_path / "shop", Side.TARGET), creates_once=False)
    store.between = lambda name: store.store.create(name, b"other")
    store.create("1", b"mine")
    assert store.read("1") == b"mine"
    with pytest.raises(ObjectExists):
        store.create("1", b"again")
    with pytest.raises(ObjectMissing):
        store.read("2")

"""Keep objects in a directory: what the file system refuses, what writers that died have left, shares without links."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from anabranch.config.store_urls import parse_store_url
from anabranch.errors import ConfigError, Side, SourceUnavailable, StorageFull, TargetUnavailable
from anabranch.stores import directory
from anabranch.stores.contract import ObjectExists
from anabranch.stores.directory import DirectoryStore
from anabranch.stores.folders import ABANDONED_S, UPLOADS
from anabranch.stores.opening import open_store
from rigs.disk import IS_ROOT, fill, small_disk


def store_in(tmp_path: Path, end: Side = Side.TARGET) -> DirectoryStore:
    return DirectoryStore(tmp_path / "shop", end)


def test_a_store_is_opened_by_its_url(tmp_path: Path) -> None:
    store = open_store(parse_store_url(f"trail+objects://{tmp_path}/shop", {}), Side.SOURCE)
    store.create("pieces/1", b"one")
    assert (tmp_path / "shop/pieces/1").read_bytes() == b"one" and store.guarantees.creates_once
    assert store.path("pieces/1") == str(tmp_path / "shop/pieces/1")


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"{tmp_path}/share is not there — make the directory .*, or mount it"):
        DirectoryStore(tmp_path / "share" / "shop", Side.TARGET)
    (tmp_path / "share").mkdir()
    store = DirectoryStore(tmp_path / "share" / "shop", Side.TARGET)
    store.create("one", b"1")
    (tmp_path / "share").rename(tmp_path / "away")
    for work in (lambda: store.create("two", b"2"), lambda: store.read("one"), lambda: list(store.names())):
        with pytest.raises(ConfigError, match="share is not there"):
            work()
    assert not (tmp_path / "share").exists()


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    with small_disk(tmp_path / "disk", 2) as disk:
        store = store_in(disk)
        store.create("one", b"1" * 1000)
        fill(disk / "ballast")
        for work in (store.create, store.replace):
            with pytest.raises(StorageFull, match="two: No space left on device — make room"):
                work("two", b"2" * 100_000)
            with pytest.raises(StorageFull):
                work("new/folder/two", b"2" * 100_000)
        assert [found.name for found in store.names()] == ["one"] and not list((disk / "shop" / UPLOADS).iterdir())
        (disk / "ballast").unlink()
        store.create("two", b"2" * 100_000)
        assert store.size("two") == 100_000


@pytest.mark.skipif(IS_ROOT, reason="root may write everywhere")
def test_missing_rights_are_told(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    store.create("one", b"1")
    (tmp_path / "shop").chmod(0o500)
    with pytest.raises(ConfigError, match="Permission denied"):
        store.create("two/2", b"2")
    (tmp_path / "shop").chmod(0o700)


@pytest.mark.parametrize(("end", "kind"), [(Side.SOURCE, SourceUnavailable), (Side.TARGET, TargetUnavailable)])
def test_a_share_that_is_away_is_tried_again(
    tmp_path: Path, end: Side, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_in(tmp_path, end)
    store.create("one", b"1")

    def stale(fd: int) -> None:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    monkeypatch.setattr(directory.os, "fsync", stale)
    with pytest.raises(kind, match="two: Stale file handle"):
        store.create("two", b"2")
    monkeypatch.undo()
    assert [found.name for found in store.names()] == ["one"]


def test_without_links_a_name_is_looked_at_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(old: Path, new: Path) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(directory.os, "link", refused)
    store = store_in(tmp_path)
    assert not store.guarantees.creates_once and store.guarantees.lists_at_once
    store.create("one", b"1")
    with pytest.raises(ObjectExists):
        store.create("one", b"2")
    assert store.read("one") == b"1" and not list((tmp_path / "shop" / UPLOADS).iterdir())


def test_a_link_whose_answer_was_lost_is_no_other_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server of files that is asked again says that the name is taken, by what it has linked itself."""
    linked = os.link

    def twice(old: Path, new: Path) -> None:
        linked(old, new)
        linked(old, new)

    store = store_in(tmp_path)
    assert store.guarantees.creates_once
    monkeypatch.setattr(directory.os, "link", twice)
    store.create("one", b"1")
    assert store.read("one") == b"1"


def test_a_killed_writer_leaves_nothing_that_counts_and_is_tidied_away(tmp_path: Path) -> None:
    """Kill a process while it writes: what it left is no object, and goes when it is a day old."""
    script = (
        "import os, signal, sys; from pathlib import Path; from anabranch.errors import Side\n"
        "from anabranch.stores import directory\n"
        "directory.os.link = lambda old, new: os.kill(os.getpid(), signal.SIGKILL)\n"
        "directory.DirectoryStore(Path(sys.argv[1]), Side.TARGET).create('one', b'1')\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "shop")])
    assert done.returncode < 0
    left = list((tmp_path / "shop" / UPLOADS).iterdir())
    store = store_in(tmp_path)
    assert left and list(store.names()) == []
    store.create("one", b"whole")
    assert all(path.exists() for path in left)
    long_ago = time.time() - ABANDONED_S - 60
    for path in left:
        os.utime(path, (long_ago, long_ago))
    store_in(tmp_path).create("two", b"2")
    assert not any(path.exists() for path in left)
    assert [found.name for found in store.names()] == ["one", "two"]


@pytest.mark.parametrize("mode", [0o2770, 0o750, 0o700])
def test_folders_that_readers_write_have_the_mode_of_the_root(tmp_path: Path, mode: int) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop").chmod(mode)
    store = store_in(tmp_path)
    store.create("pieces/1", b"one")
    store.replace("readers/in.json", b"{}")
    modes = {one: (tmp_path / "shop" / one).stat().st_mode & 0o7777 for one in (UPLOADS, "readers", "pieces")}
    assert modes[UPLOADS] == modes["readers"] == mode
    assert not modes["pieces"] & 0o027

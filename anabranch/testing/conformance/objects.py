"""Conformance of a store of objects: what a trail in a store relies on, asked of each kind of store alike."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from anabranch.stores.contract import Found, ObjectExists, ObjectMissing, ObjectStore
from anabranch.testing.conformance.subject import refuses


@dataclass(frozen=True)
class Place:
    """An empty place in a store. `open`: as another process would; `half`: leaves an upload there that was cut in half;
    `fill`: makes objects of one byte in a shorter way than by the store."""

    open: Callable[[], ObjectStore]
    half: Callable[[str, bytes], None]
    many: int = 10_000  # objects that it is filled with
    fill: Callable[[Sequence[str]], None] | None = None


AT_ONCE = 4
PIECES = "pieces/%020d"
NAMES = (
    "a b/c  d",
    "a-b",
    "a.b",
    "a/1",
    "a/b/2",
    "b+c&d=e;f%20",
    "größe/名前/🙂",
    "q?x=1#y",
    "t/'\"<>|*:[]{}~`$!@^,",
    "x" * 180,
)


def names_of(store: ObjectStore, prefix: str = "") -> list[str]:
    return [found.name for found in store.names(prefix)]


def what_was_written_is_read_by_others(place: Place) -> None:
    with closing(place.open()) as store, closing(place.open()) as other:
        store.create("pieces/1", b"one")
        assert other.read("pieces/1") == b"one" and other.size("pieces/1") == 3
        assert list(other.names()) == [Found("pieces/1", 3)]


def an_object_is_created_once(place: Place) -> None:
    with closing(place.open()) as store, closing(place.open()) as other:
        store.create("pieces/1", b"one")
        refuses(ObjectExists, lambda: store.create("pieces/1", b"two"))
        refuses(ObjectExists, lambda: other.create("pieces/1", b"one"))
        assert other.read("pieces/1") == b"one"
        assert names_of(store) == ["pieces/1"]


def of_many_creators_at_once_one_succeeds(place: Place) -> None:
    """Ask a store without `creates_once`, too: one of them, at least, has succeeded, and the object is whole."""
    rounds = 10
    won: list[list[int]] = [[] for _ in range(rounds)]
    start = threading.Barrier(AT_ONCE)
    failed: list[BaseException] = []

    def create(number: int) -> None:
        try:
            with closing(place.open()) as store:
                for turn in range(rounds):
                    start.wait(120)
                    try:
                        store.create(PIECES % turn, bytes([number]) * 10_000)
                        won[turn].append(number)
                    except ObjectExists:
                        continue
        except BaseException as error:  # noqa: BLE001 - raised again by whoever waits for the threads
            failed.append(error)
            start.abort()

    together([partial(create, number) for number in range(AT_ONCE)])
    if failed:
        raise failed[0]
    with closing(place.open()) as store:
        for turn, winners in enumerate(won):
            content = store.read(PIECES % turn)
            assert len(content) == 10_000 and content == content[:1] * 10_000
            assert len(winners) == 1 or not store.guarantees.creates_once, winners
            assert winners and (content[0] in winners)


def together(tasks: Sequence[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=task) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def what_is_missing_is_told(place: Place) -> None:
    with closing(place.open()) as store:
        assert names_of(store) == []
        store.create("pieces/1/x", b"one")
        for name in ("pieces/2", "pieces/1", "pieces", "other/1"):
            refuses(ObjectMissing, partial(store.read, name))
            refuses(ObjectMissing, partial(store.read, name, 3, 0))
            refuses(ObjectMissing, partial(store.size, name))
            store.delete(name)
        assert names_of(store) == ["pieces/1/x"]


def a_replaced_object_is_the_new_one(place: Place) -> None:
    with closing(place.open()) as store, closing(place.open()) as other:
        store.replace("readers/one.json", b"1" * 1000)
        assert other.read("readers/one.json") == b"1" * 1000
        store.replace("readers/one.json", b"22")
        assert other.read("readers/one.json") == b"22" and other.size("readers/one.json") == 2
        refuses(ObjectExists, lambda: other.create("readers/one.json", b"3"))
        assert list(other.names()) == [Found("readers/one.json", 2)]


def readers_see_the_old_content_or_the_new(place: Place) -> None:
    contents = [bytes([65 + number]) * (200_000 + 7 * number) for number in range(6)]
    seen: list[bytes] = []
    ended = threading.Event()
    failed: list[BaseException] = []

    def read() -> None:
        try:
            with closing(place.open()) as store:
                while not ended.is_set():
                    seen.append(store.read("state"))
        except BaseException as error:  # noqa: BLE001 - raised again by whoever waits for the threads
            failed.append(error)

    with closing(place.open()) as store:
        store.create("state", contents[0])
        reader = threading.Thread(target=read)
        reader.start()
        for content in contents[1:]:
            store.replace("state", content)
        ended.set()
        reader.join()
        assert not failed, failed
        assert store.read("state") == contents[-1]
    assert set(seen) <= set(contents)


def parts_of_an_object_are_read(place: Place) -> None:
    content = bytes(range(256)) * 40
    with closing(place.open()) as store:
        store.create("one", content)
        for offset, length in (
            (0, 1),
            (0, None),
            (255, 2),
            (10_000, 500),
            (10_239, 1),
            (100, 0),
            (10_240, 9),
            (99_999, 1),
        ):
            expected = content[offset:] if length is None else content[offset : offset + length]
            assert store.read("one", offset, length) == expected, (offset, length)
        assert store.read("one", 10_000) == content[10_000:] and store.read("one", 20_000) == b""


def an_empty_object_is_an_object(place: Place) -> None:
    with closing(place.open()) as store:
        store.create("empty", b"")
        assert store.read("empty") == b"" and store.size("empty") == 0 and store.read("empty", 3) == b""
        assert list(store.names()) == [Found("empty", 0)]
        refuses(ObjectExists, lambda: store.create("empty", b"x"))


def a_large_object_is_whole(place: Place) -> None:
    content = os.urandom(1 << 20) * 8 + b"end"
    with closing(place.open()) as store:
        store.create("pieces/large", content)
        assert store.size("pieces/large") == len(content)
        assert store.read("pieces/large") == content
        assert store.read("pieces/large", 5_000_000, 100_000) == content[5_000_000:5_100_000]
        store.replace("pieces/large", content[::-1])
        assert store.read("pieces/large") == content[::-1]


def odd_names_are_kept(place: Place) -> None:
    with closing(place.open()) as store:
        for number, name in enumerate(NAMES):
            store.create(name, str(number).encode())
        assert names_of(store) == sorted(NAMES)
        for number, name in enumerate(NAMES):
            assert store.read(name) == str(number).encode()
            assert names_of(store, name) == [other for other in sorted(NAMES) if other.startswith(name)]
            store.delete(name)
        assert names_of(store) == []


def names_that_no_store_keeps_are_refused(place: Place) -> None:
    with closing(place.open()) as store:
        for name in (
            "",
            "/a",
            "a/",
            "a//b",
            "../a",
            "a/../b",
            ".",
            "a/.b",
            "a\0b",
            "a\nb",
            "a\\b",
            "x" * 201,
            "x/" * 500,
        ):
            refuses(ValueError, partial(store.create, name, b"x"))
            refuses(ValueError, partial(store.read, name))
            refuses(ValueError, partial(store.delete, name))
        assert names_of(store) == []


def names_come_by_prefix_and_in_order(place: Place) -> None:
    names = ["a-b", "a/1", "a/10", "a/2", "a/b/c", "a/b-c", "a0", "b", "ba/x", "bb/x"]
    with closing(place.open()) as store:
        for name in names:
            store.create(name, name.encode())
        for prefix in ("", "a", "a/", "a/1", "a/b", "a/b/", "b", "ba", "c", "a/b/c/d", "a-b/"):
            assert list(store.names(prefix)) == [
                Found(name, len(name)) for name in sorted(names) if name.startswith(prefix)
            ], prefix


def many_names_are_listed(place: Place) -> None:
    names = [PIECES % number for number in range(place.many)]
    (place.fill or partial(filled, place))(names)
    with closing(place.open()) as store:
        store.create("readers/one", b"1")
        assert names_of(store, "pieces/") == names
        assert names_of(store, (PIECES % place.many)[:-3]) == [
            n for n in names if n.startswith((PIECES % place.many)[:-3])
        ]
        assert next(iter(store.names())).name == names[0]
        assert sum(1 for _ in store.names()) == place.many + 1


def filled(place: Place, names: Sequence[str]) -> None:
    """Create objects by several sessions at once."""

    def fill(mine: Iterable[str]) -> None:
        with closing(place.open()) as store:
            for name in mine:
                store.create(name, b"x")

    together([partial(fill, names[first::AT_ONCE]) for first in range(AT_ONCE)])


def what_is_deleted_is_gone(place: Place) -> None:
    with closing(place.open()) as store, closing(place.open()) as other:
        store.create("pieces/1", b"one")
        store.create("pieces/2", b"two")
        store.delete("pieces/1")
        store.delete("pieces/1")
        refuses(ObjectMissing, lambda: other.read("pieces/1"))
        assert names_of(other) == ["pieces/2"]
        other.create("pieces/1", b"again")
        assert store.read("pieces/1") == b"again"


def an_upload_cut_in_half_is_invisible(place: Place) -> None:
    with closing(place.open()) as store:
        store.create("pieces/1", b"one")
        place.half("pieces/2", b"a half")
        assert names_of(store) == ["pieces/1"]
        refuses(ObjectMissing, lambda: store.read("pieces/2"))
        refuses(ObjectMissing, lambda: store.size("pieces/2"))
        store.create("pieces/2", b"whole")
        assert names_of(store) == ["pieces/1", "pieces/2"] and store.read("pieces/2") == b"whole"


def a_store_tells_its_place(place: Place) -> None:
    with closing(place.open()) as store:
        assert "pieces/1" in store.path("pieces/1") and store.path() and not store.path().endswith("pieces/1")


def a_closed_store_can_be_opened_again(place: Place) -> None:
    store = place.open()
    store.create("one", b"1")
    store.close()
    store.close()
    with closing(place.open()) as again:
        assert again.read("one") == b"1"


CHECKS = (
    what_was_written_is_read_by_others,
    an_object_is_created_once,
    of_many_creators_at_once_one_succeeds,
    what_is_missing_is_told,
    a_replaced_object_is_the_new_one,
    readers_see_the_old_content_or_the_new,
    parts_of_an_object_are_read,
    an_empty_object_is_an_object,
    a_large_object_is_whole,
    odd_names_are_kept,
    names_that_no_store_keeps_are_refused,
    names_come_by_prefix_and_in_order,
    many_names_are_listed,
    what_is_deleted_is_gone,
    an_upload_cut_in_half_is_invisible,
    a_store_tells_its_place,
    a_closed_store_can_be_opened_again,
)

"""Remove pieces that every reader of a store has, once they are old enough; say how far each reader is.

With no reader registered all pieces stay, and the newest one always does: whoever writes goes on behind it. That a piece is
to go is written first, into `trail.json`: who begins to read then does not look for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from anabranch.failpoints import reach
from anabranch.stores.contract import ObjectMissing, ObjectStore
from anabranch.transport import pieces, store_facts
from anabranch.transport.store_claims import Claims
from anabranch.transport.store_facts import Acknowledged, Begun
from anabranch.transport.store_place import Put

EVERY = 10.0  # seconds between two looks
MOST = 1000  # pieces that are removed in one turn
LONGEST = 2.0  # seconds for that


class Retention:
    """The retention of one session of the pump that writes. `put`: what it has noted; `keep`: seconds for which a piece stays.

    Delivery: a piece goes only if every reader that was ever seen has it durably, and is registered still."""

    def __init__(self, store: ObjectStore, put: Put, keep: float, claims: Claims) -> None:
        self._store, self._put, self._keep, self._claims = store, put, keep, claims
        self._looked = -EVERY
        self._readers: list[Acknowledged] = []
        self._has_looked = False  # for pieces that an earlier listing has not shown
        self._known_at = (0, 0.0)  # a piece, and when it was made

    def is_due(self) -> bool:
        return time.monotonic() - self._looked >= EVERY

    def remove(self, begun: Begun, newest: int, stop: Callable[[], bool]) -> Begun:
        """Remove pieces that nobody needs; return what `trail.json` says then. What a kill has left goes, too."""
        self._looked = time.monotonic()
        self._look()
        found = store_facts.begun(self._store)  # another pump may have removed more
        if found and found.chain == begun.chain and found.first > begun.first:
            begun = found
        first = self._first_needed(begun.first, newest)
        if first > begun.first:
            begun = store_facts.from_piece_on(begun, first)
            store_facts.save(self._store, begun)
            reach("store.removing")
        self._delete(begun.first, stop)
        return begun

    def shown(self, begun: Begun, newest: int) -> dict[str, Any]:
        """Return what `status` says of the store."""
        return {"first": begun.first, "last": newest, "pieces": max(0, newest - begun.first + 1)}

    def readers_shown(self, published: int) -> list[dict[str, Any]]:
        """Return how far readers are, as pumps that go on from a store are shown."""
        return [
            {
                "name": one.name, "to": one.to, "state": one.state, "published": published,
                "acknowledged": one.sequence, "left": 0, "lag": one.lag, "legs": [], "behind": [],
            }
            for one in self._readers
        ]  # fmt: skip

    def _delete(self, first: int, stop: Callable[[], bool]) -> None:
        """Remove the objects before a piece, some in each turn. Those with a writer in their names are looked for: some may be
        of one that was overtaken. So are those that are left from before this pump noted how far it was."""
        put, until = self._put, time.monotonic() + LONGEST
        is_known = not self._claims.is_named and first - MOST <= put.swept and (put.swept > 1 or self._has_looked)
        if is_known:
            before: Iterable[tuple[str, int]] = ((pieces.name_of(number), number) for number in range(put.swept, first))
        elif first > put.swept or not self._has_looked:
            before = self._listed_before(first)
        else:
            return
        for count, (name, number) in enumerate(before):
            if stop() or count >= MOST or time.monotonic() >= until:
                return
            self._store.delete(name)
            if is_known:
                put.swept = number + 1
        self._has_looked, put.swept = True, max(put.swept, first)

    def _listed_before(self, first: int) -> Iterator[tuple[str, int]]:
        for found in self._store.names(pieces.FOLDER):
            number = pieces.number_of(found.name)
            if number is None:
                continue
            if number >= first:
                return
            yield found.name, number

    def _look(self) -> None:
        """Read how far readers are: those of a listing, and those that were seen before, since a listing may lag. One that has
        taken its object away is forgotten."""
        listed = (found.name for found in self._store.names(store_facts.READERS))
        names = sorted({*self._put.readers, *listed})
        self._readers = store_facts.acknowledged(self._store, names)
        self._put.readers = [store_facts.reader_object(one.name) for one in self._readers]

    def _first_needed(self, first: int, newest: int) -> int:
        """Return the first piece that has to stay."""
        if not self._readers:
            return first
        counts = (self._claims.counts(one.number, one.writer, first) for one in self._readers)
        last = min(min(counts), newest - 1, first + MOST - 1)
        while first <= last and self._is_old(first):
            first += 1
        return first

    def _is_old(self, number: int) -> bool:
        """Return whether a piece was made so long ago that it may go. One that is gone already may."""
        if self._known_at[0] != number:
            name = self._claims.name(number)
            try:
                self._known_at = (
                    number,
                    pieces.made_at(self._store.read(name, 0, pieces.HEAD), number, self._store.path(name)),
                )
            except ObjectMissing:
                return True
        return time.time() - self._known_at[1] >= self._keep

"""Tell which rows a history of two active sites may end with, and which conflicts must be noted, by what each writer
did and by how much of the other site each write had before it (K23).

A ledger that the jobs replicate with the rows says that: every transaction of a writer adds its number there, so whoever has
the number has all that the transaction wrote, and all that was logged before it. What the rule leaves open is told in
docs/explanation/torture.md. What does not live here: what writers do (two_sites_writer.py), asking both sites (two_sites.py).
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from anabranch.rows.conflict import NotedConflict
from rigs.two_sites_drawn import SUMS, WINS

WINNER = 1  # the place of the site that wins in WINS
Row = tuple[int, str, int]
"""Version, text and stock."""


@dataclass(frozen=True, eq=False)
class Op:
    """A committed write or delete of a row. `order`: rises with each commit to this row at its site. `version`: of what was
    written, or deleted. `added`: to the stock. `seen`: transactions of the other site that had come when it had the row's lock;
    `may_have_seen`: those that had come when it was about to commit."""

    site: int
    transaction: int
    order: int
    version: int
    text: str = ""
    stock: int = 0
    added: int = 0
    is_insert: bool = False
    seen: frozenset[int] = frozenset()
    may_have_seen: frozenset[int] = frozenset()

    @property
    def is_delete(self) -> bool:
        return not self.text

    @property
    def row(self) -> Row:
        return self.version, self.text, self.stock

    @property
    def age(self) -> tuple[int, bool]:
        """Sort as the rule does: of equally new ones the first site's wins."""
        return self.version, self.site == 0

    def has(self, other: Op) -> bool:
        """Return whether this was made where the other one had been for certain."""
        return self.order > other.order if self.site == other.site else other.transaction in self.seen

    def may_have(self, other: Op) -> bool:
        return self.order > other.order if self.site == other.site else other.transaction in self.may_have_seen


@dataclass
class OneKey:
    """All that was done to the row of a key."""

    every: list[Op] = field(default_factory=list)

    def of(self, site: int) -> list[Op]:
        return sorted((one for one in self.every if one.site == site), key=lambda one: one.order)

    @cached_property
    def writes(self) -> list[Op]:
        return [one for one in self.every if not one.is_delete]

    @cached_property
    def deletes(self) -> list[Op]:
        return [one for one in self.every if one.is_delete]

    @cached_property
    def last(self) -> Op | None:
        """The one that was made where all others had been, if there is such a one."""
        return next((one for one in self.every if all(one is x or one.has(x) for x in self.every)), None)

    @cached_property
    def is_in_turn(self) -> bool:
        """Whether no two of them crossed."""
        return all(one is x or one.has(x) or x.has(one) for one in self.every for x in self.every)

    def written(self, row: Row, what: str) -> Op:
        found = [one for one in self.writes if one.text == row[1]]
        assert found, f"{what}: nobody has written {row}"
        return found[0]

    def refuse(self, table: str, row: Row | None, what: str) -> None:
        """Raise AssertionError for a row that cannot be in the end."""
        if table == SUMS and self.deletes:
            self._refuse_sums_with_deletes(row, what)
        elif table == WINS:
            self._refuse_where_one_wins(row, what)
        else:
            wanted = self._newest(table)
            assert row == wanted, f"{what} is {row}, and not {wanted}"

    def _newest(self, table: str) -> Row | None:
        """Return what the rule says: the newest version, unless it, or a newer one, was deleted; its stock, or the sum."""
        newest = max(self.writes, key=lambda one: one.age, default=None)
        if newest is None or newest.version <= max((one.version for one in self.deletes), default=-1):
            return None
        stock = sum(one.added for one in self.writes) if table == SUMS else newest.stock
        return newest.version, newest.text, stock

    def _refuse_sums_with_deletes(self, row: Row | None, what: str) -> None:
        """A delete wins over all that it has seen and over all that crossed it. What was written behind all deletes stays or
        goes: a note of one of them may have been there still."""
        if row is None:
            return
        version, _, stock = row
        stands = self.written(row, what)
        assert version == stands.version, f"{what} has another version than {stands}"
        for gone in self.deletes:
            assert stands.may_have(gone), f"{what} is {row}, which {gone} has deleted, or crossed"
        most = sum(one.added for one in self.writes if not any(gone.has(one) for gone in self.deletes))
        assert stands.added <= stock <= most, f"{what} has {stock}, of {stands.added} to {most}"
        if self.last is not None:
            assert row == self.last.row, f"{what} is {row}, and not {self.last}"

    def _refuse_where_one_wins(self, row: Row | None, what: str) -> None:
        """The winning site's last row stands, unless the other site had it when it wrote: then one of both does."""
        wins = self.of(WINNER)
        if self.is_in_turn and self.last is not None:
            wanted = None if self.last.is_delete else self.last.row
            assert row == wanted, f"{what} is {row}, and not {wanted}: nothing crossed"
            return
        last = wins[-1]  # one of both has crossed the other's
        behind = [one for one in self.of(1 - WINNER) if one.may_have(last)]
        crossed = [one for one in self.of(1 - WINNER) if not last.has(one)]
        if last.is_delete:
            may_stand = crossed if any(one.is_insert for one in crossed) else behind
            may_be_gone = True
        else:
            may_stand = [last, *behind]
            may_be_gone = any(one.is_delete for one in behind) or self._is_used_again(last)
        if row is None:
            assert may_be_gone, f"{what} is gone, and {last} wins"
            return
        version, _, stock = row
        stands = self.written(row, what)
        assert any(one is stands for one in may_stand), f"{what} is {row}, and {last} wins"
        assert stock == stands.stock and version >= stands.version, f"{what} is {row}, and was written as {stands}"
        newest = max(one.version for one in self.writes)
        assert self.deletes or version >= newest, f"{what} is as old as {version}, and {newest} was written"

    def _is_used_again(self, last: Op) -> bool:
        """Return whether the row began again under a deleted key with a version that the other site had already: its clock
        was behind."""
        others = [one.version for one in self.every if one.site != last.site]
        return last.is_insert and bool(self.deletes) and max(others, default=-1) >= last.version


@dataclass
class Written:
    """All that writers of a history have committed, by key."""

    keys: dict[int, OneKey] = field(default_factory=lambda: defaultdict(OneKey))
    transactions: set[int] = field(default_factory=set)
    commits: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    """How often each kind of fault came about."""
    crossed: int = 0
    """Crossings that had to be noted, by both jobs."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    _deleted: dict[int, int] = field(default_factory=dict)
    """By key how new the newest row was that somebody has deleted, or was about to: who writes then makes it newer."""
    _order: int = 0

    def next_order(self) -> int:
        with self.lock:
            self._order += 1
            return self._order

    def add(self, transaction: int, ops: dict[int, Op]) -> None:
        with self.lock:
            self.commits += 1
            self.transactions.add(transaction)
            for key, one in ops.items():
                self.keys[key].every.append(one)

    def known(self) -> frozenset[int]:
        """Return the transactions that are committed by now."""
        with self.lock:
            return frozenset(self.transactions)

    def base(self, key: int) -> int:
        """Return what a new version of the row is to be greater than, whatever the site has of it, as a clock would say."""
        with self.lock:
            return self._deleted.get(key, 0)

    def deletes(self, key: int, version: int) -> None:
        with self.lock:
            self._deleted[key] = max(version, self._deleted.get(key, 0))

    def befell(self, kind: str, times: int = 1) -> None:
        self.faults[kind] = self.faults.get(kind, 0) + times

    def refuse_strange(self, table: str, rows: dict[int, Row], what: str) -> None:
        """Raise AssertionError for rows that cannot be in the end."""
        for key, one in self.keys.items():
            one.refuse(table, rows.get(key), f"{what}: row {key}")
        assert rows.keys() <= self.keys.keys(), (
            f"{what}: rows that nobody has written: {rows.keys() - self.keys.keys()}"
        )

    def refuse_unnoted(self, table: str, noted: Sequence[Sequence[NotedConflict]], what: str) -> int:
        """Raise AssertionError for a crossing that a job has not noted with both versions, and a note where nothing crossed.
        `noted`: by the site that a job reads. Returns how many crossings had to be noted."""
        found, total = [defaultdict[int, list[NotedConflict]](list) for _ in noted], 0
        for by_key, every in zip(found, noted, strict=True):
            for one in every:
                if one.source.name == table:
                    by_key[int(one.key["id"] or -1)].append(one)
        for key, done in self.keys.items():
            for site, by_key in enumerate(found):
                total += _refuse_unnoted(table, done, site, by_key[key], f"{what}: row {key}, job from site {site}")
        return total


def _refuse_unnoted(table: str, key: OneKey, site: int, noted: Sequence[NotedConflict], what: str) -> int:
    """Judge one key, and the job that brings what `site` has done to the other one. Returns how often it had to note."""
    if key.is_in_turn and not (table == SUMS and key.deletes):
        assert not noted, f"{what}: nothing crossed, and {noted[0]} is noted"
    there = key.of(1 - site)
    if key.deletes or not there or (table == WINS and site == WINNER):
        return 0
    crossed = [one for one in key.of(site) if not there[-1].has(one)]
    if not crossed or crossed[0].may_have(there[-1]):
        return 0
    texts = {one.text for one in key.of(site)}
    both = any(
        one.after and one.found and one.after["v"] in texts and one.found["v"] == there[-1].text for one in noted
    )
    assert both, f"{what}: {crossed[0]} crossed {there[-1]}, and what is noted is {list(noted)}"
    return 1

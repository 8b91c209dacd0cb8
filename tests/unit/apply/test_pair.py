"""A table that both ends write: what may not be done to it, and that both ends become equal, whatever crosses (K23)."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import cast

import pytest

from anabranch.apply.conflict import Decider, Removed
from anabranch.apply.pair import greater_than, is_greater
from anabranch.contracts import Conflict, RowWriter
from anabranch.model.datatype import Kind, LogicalType
from anabranch.rows.conflict import Age, ConflictPolicy, FoundRow, OnConflict
from anabranch.rows.net import DELETE, INSERT, UPDATE, RowChange, TargetTable
from rigs.chunks import INT, TEXT, followed, schema

TABLE = followed(schema("t", {"id": INT, "age": INT, "v": TEXT}, ["id"])).table
Row = dict[str, str | None]


def policy(target_wins_ties: bool) -> ConflictPolicy:
    return ConflictPolicy(OnConflict.NEWEST, "age", pair=True, target_wins_ties=target_wins_ties, deletes=True)


@dataclass
class Site:
    """The rows of one site, and what its users have done, for the other one. As much of a RowWriter as a Decider asks."""

    is_winner: bool
    rows: dict[str, Row] = field(default_factory=dict)
    log: list[RowChange] = field(default_factory=list)
    notes: list[tuple[int, str, int | None]] = field(default_factory=list)  # of deletes that came: number, key, age
    number: int = 0

    def row(self, table: TargetTable, key: Mapping[str, str | None], age: Age | None) -> FoundRow | None:
        there = self.rows.get(str(key["id"]))
        if there is None or age is None:
            return there and FoundRow(there)
        one, other = int(str(there["age"])), int(str(age.value))
        return FoundRow(there, one >= other if age.or_equal else one > other)

    def writes(self, key: str, age: int, text: str) -> None:
        now: Row = {"id": key, "age": str(age), "v": text}
        before = self.rows.get(key)
        if before is None:
            self.log.append(RowChange(TABLE, INSERT, values=now))
        else:
            self.log.append(RowChange(TABLE, UPDATE, {"id": key}, now, before=dict(before)))
        self.rows[key] = now

    def policy(self) -> ConflictPolicy:
        return policy(target_wins_ties=self.is_winner)

    def takes(self, change: RowChange) -> None:
        verdict = Decider(cast(RowWriter, self)).decide(change, self.policy())
        for one in verdict.changes:
            key = str(one.values.get("id") or one.old_key["id"])
            assert one.operation != INSERT or key not in self.rows
            if one.operation == DELETE:
                del self.rows[key]
            else:
                self.rows[key] = {**self.rows.get(key, {}), **one.values}
        if verdict.removed is not None:
            self.number += 1
            age = verdict.removed.age
            self.notes.append((self.number, str(change.old_key["id"]), None if age is None else int(age)))

    def deletes(self, key: str) -> None:
        before = self.rows.pop(key)
        self.log.append(RowChange(TABLE, DELETE, {"id": key}, before=before))

    def meets(self, key: str, age: int | None) -> None:
        """Remove a row that is not newer, as a user would, so that the other site reads it."""
        if key in self.rows and (age is None or int(str(self.rows[key]["age"])) <= age):
            self.deletes(key)


def history(seed: int) -> tuple[Site, Site, dict[str, str]]:
    """Two writers on few keys with ages that often tie; what is under way arrives whenever. Returns what the rule says, too."""
    chance = random.Random(seed)
    sites, read = (Site(True), Site(False)), [0, 0]
    written: dict[str, list[tuple[int, bool, str]]] = {}
    left = chance.randrange(2, 12)
    while left or any(at < len(site.log) for at, site in zip(read, sites, strict=True)):
        number = chance.randrange(2)
        site, other = sites[number], sites[1 - number]
        if left and chance.random() < 0.5:
            left -= 1
            key = str(chance.randrange(2))
            now = int(str(site.rows[key]["age"])) if key in site.rows else 0
            age, text = now + chance.randrange(1, 3), f"{number} {left}"
            written.setdefault(key, []).append((age, site.is_winner, text))
            site.writes(key, age, text)
        elif read[number] < len(site.log):
            other.takes(site.log[read[number]])
            read[number] += 1
    return *sites, {key: max(versions)[2] for key, versions in written.items()}


def test_rule_23_pitfall_69_histories_end_with_equal_sites_and_the_winner_of_the_rule() -> None:
    for seed in range(4000):
        one, other, expected = history(seed)
        assert one.rows == other.rows, seed
        assert {key: row["v"] for key, row in one.rows.items()} == expected, seed


@dataclass
class Job:
    """The job into a site: how far it has read the other one's log, and what it does with the notes there."""

    site: Site
    other: Site
    read: int = 0
    met: set[int] = field(default_factory=set)
    waiting: dict[int, tuple[str, int | None, int]] = field(default_factory=dict)

    def look(self) -> None:
        end, there = len(self.other.log), {number for number, *_ in self.other.notes}
        new = {n: (key, age, end) for n, key, age in self.other.notes if n not in self.met and n not in self.waiting}
        self.waiting |= new
        for number, (key, age, upto) in list(self.waiting.items()):
            if self.read >= upto:
                self.site.meets(key, age)
                self.met.add(number)
                del self.waiting[number]
        self.met &= there

    def is_done(self) -> bool:
        return self.read == len(self.other.log) and not self.met and not self.other.notes


def with_deletes(seed: int, knows: bool) -> tuple[Site, Site, dict[str, str]]:
    """A history in which rows are deleted, and made again. `knows`: who writes makes a row newer than all that was deleted by
    then, as a clock does; else a key may begin again, or go on, with a version that is older than a deleted one."""
    chance = random.Random(seed)
    one, other = Site(True), Site(False)
    jobs = (Job(other, one), Job(one, other))
    written, gone = dict[str, list[tuple[int, bool, str]]](), dict[str, int]()
    left = chance.randrange(2, 14)
    while left or not all(job.is_done() for job in jobs):
        number = chance.randrange(2)
        site, job, step = (one, other)[number], jobs[number], chance.random()
        if left and step < 0.35:
            left -= 1
            key = str(chance.randrange(2))
            now = int(str(site.rows[key]["age"])) if key in site.rows else 0
            if key in site.rows and chance.random() < 0.4:
                site.deletes(key)
                gone[key] = max(now, gone.get(key, 0))
            else:
                age = max(now, gone.get(key, 0) if knows else 0) + chance.randrange(1, 3)
                written.setdefault(key, []).append((age, site.is_winner, f"{number} {left}"))
                site.writes(key, age, f"{number} {left}")
        elif step < 0.7 and job.read < len(job.other.log):
            job.site.takes(job.other.log[job.read])
            job.read += 1
        elif step < 0.95:
            job.look()
            job.other.notes[:] = [note for note in job.other.notes if note[0] not in job.met]
        else:
            job.waiting.clear()  # its process starts again
    newest = {key: max(versions) for key, versions in written.items()}
    return one, other, {key: found[2] for key, found in newest.items() if found[0] > gone.get(key, 0)}


def test_rule_23_pitfall_69_histories_with_deletes_end_with_equal_sites_and_the_winner_of_the_rule() -> None:
    """The newest version that anybody has written stays, unless that or a newer one was deleted."""
    for seed in range(4000):
        one, other, expected = with_deletes(seed, knows=True)
        assert one.rows == other.rows, seed
        assert {key: row["v"] for key, row in one.rows.items()} == expected, seed


def test_rule_23_pitfall_69_sites_end_equal_whatever_versions_come_behind_a_delete() -> None:
    for seed in range(4000):
        one, other, _ = with_deletes(seed, knows=False)
        assert one.rows == other.rows, seed


@dataclass
class Standing(Site):
    """A site of a table in which one of both wins, whatever the versions are. Users' texts say in `from` which write of the
    winning site their row was made from, as far as it had come; a Decider does not read it."""

    again: list[tuple[str, int, Row]] = field(default_factory=list)
    accepted: list[tuple[str, str]] = field(default_factory=list)  # what a change was made from, and what was there

    def policy(self) -> ConflictPolicy:
        return replace(policy(target_wins_ties=self.is_winner), target_stays=self.is_winner)

    def takes(self, change: RowChange) -> None:
        key = str(change.old_key.get("id") or change.values["id"])
        there = self.rows.get(key)
        verdict = Decider(cast(RowWriter, self)).decide(change, self.policy())
        if verdict.again is not None:
            self.again.append((key, int(verdict.again.age), dict(verdict.again.values)))
        if self.is_winner and there is not None and change.operation != INSERT and verdict.stands:
            self.accepted.append((made_from(change.before), made_from(there)))
        super().takes(change)

    def writes_again(self) -> None:
        """As a user would: a greater version of what is there, or the delete of what the other site has."""
        for key, age, values in self.again:
            there = self.rows.get(key)
            if there is None and values:
                self.log.append(RowChange(TABLE, INSERT, values=values))
                self.log.append(RowChange(TABLE, DELETE, {"id": key}, before=values))
            elif there is not None and int(str(there["age"])) <= age:
                self.writes(key, age + 1, str(there["v"]))
        self.again.clear()


def made_from(row: Mapping[str, str | None]) -> str:
    return str(row["v"]).partition(" from ")[2]


def with_a_site_that_wins(seed: int, has_deletes: bool = True, knows: bool = True) -> tuple[Standing, Standing]:
    """A history in which ages tell little: each site draws its own, and often both the same. `knows`: see `with_deletes`."""
    chance = random.Random(seed)
    winner, other = Standing(True), Standing(False)
    jobs, gone = (Job(other, winner), Job(winner, other)), dict[str, int]()
    left = chance.randrange(2, 16)
    while left or winner.again or not all(job.is_done() for job in jobs):
        number = chance.randrange(2)
        site, job, step = (winner, other)[number], jobs[number], chance.random()
        if left and step < 0.4:
            left -= 1
            key = str(chance.randrange(2))
            now = int(str(site.rows[key]["age"])) if key in site.rows else 0
            if has_deletes and key in site.rows and chance.random() < 0.3:
                site.deletes(key)
                gone[key] = max(now, gone.get(key, 0))
            else:
                age = max(now, gone.get(key, 0) if knows else 0) + chance.randrange(1, 4)
                base = made_from(site.rows[key]) if number and key in site.rows else str(left)
                site.writes(key, age, f"{number}.{left} from {base}")
        elif step < 0.7 and job.read < len(job.other.log):
            job.site.takes(job.other.log[job.read])
            job.read += 1
        elif step < 0.8:
            winner.writes_again()
        else:
            job.look()
            job.other.notes[:] = [note for note in job.other.notes if note[0] not in job.met]
    return winner, other


def test_rule_23_pitfall_69_what_the_site_that_wins_has_stays_unless_the_other_one_had_seen_it() -> None:
    """Both end equal, and the winning site takes no change that was not made from the very row it has."""
    taken = 0
    for seed in range(1200):
        winner, other = with_a_site_that_wins(seed, has_deletes=False)
        assert winner.rows == other.rows, seed
        assert all(one == there for one, there in winner.accepted), (seed, winner.accepted)
        taken += len(winner.accepted)
    assert taken


def test_rule_23_pitfall_69_sites_of_which_one_wins_end_equal_whatever_is_deleted() -> None:
    for seed in range(1200):
        winner, other = with_a_site_that_wins(seed, knows=bool(seed % 2))
        assert winner.rows == other.rows, seed


SUMS = followed(schema("s", {"id": INT, "age": INT, "v": TEXT, "stock": INT}, ["id"])).table


@dataclass
class Shop(Site):
    """A site whose rows have a stock, which both sites add to and take from."""

    def sells(self, key: str, age: int, text: str, number: int) -> None:
        before = self.rows.get(key)
        stock = number + int(str(before["stock"])) if before else number
        now: Row = {"id": key, "age": str(age), "v": text, "stock": str(stock)}
        if before is None:
            self.log.append(RowChange(SUMS, INSERT, values=now))
        else:
            self.log.append(RowChange(SUMS, UPDATE, {"id": key}, now, before=dict(before)))
        self.rows[key] = now

    def policy(self) -> ConflictPolicy:
        return replace(policy(target_wins_ties=self.is_winner), delta=("stock",), deletes=True)


def test_rule_23_what_both_sites_add_up_is_the_sum_of_it_all() -> None:
    """Whichever row is newer: nothing that a site has added or taken is lost, and nothing is added twice."""
    for seed in range(3000):
        chance = random.Random(seed)
        sites, read = (Shop(True), Shop(False)), [0, 0]
        sums, versions = dict[str, int](), dict[str, list[tuple[int, bool, str]]]()
        left = chance.randrange(2, 12)
        while left or any(at < len(site.log) for at, site in zip(read, sites, strict=True)):
            number = chance.randrange(2)
            site, other = sites[number], sites[1 - number]
            if left and chance.random() < 0.5:
                left -= 1
                key, change = str(chance.randrange(2)), chance.randrange(-3, 6)
                now = int(str(site.rows[key]["age"])) if key in site.rows else 0
                age, text = now + chance.randrange(1, 3), f"{number} {left}"
                sums[key] = sums.get(key, 0) + change
                versions.setdefault(key, []).append((age, site.is_winner, text))
                site.sells(key, age, text, change)
            elif read[number] < len(site.log):
                other.takes(site.log[read[number]])
                read[number] += 1
        assert sites[0].rows == sites[1].rows, seed
        assert {key: int(str(row["stock"])) for key, row in sites[0].rows.items()} == sums, seed
        assert {key: row["v"] for key, row in sites[0].rows.items()} == {k: max(v)[2] for k, v in versions.items()}, (
            seed
        )


def sums_with_deletes(seed: int) -> tuple[Shop, Shop, dict[str, int]]:
    """A history in which rows with a stock are deleted, and made again with whatever version. Returns the sums of those that
    nobody has deleted, too."""
    chance = random.Random(seed)
    one, other = Shop(True), Shop(False)
    jobs = (Job(other, one), Job(one, other))
    sums, gone = dict[str, int](), set[str]()
    left = chance.randrange(2, 14)
    while left or not all(job.is_done() for job in jobs):
        number = chance.randrange(2)
        site, job, step = (one, other)[number], jobs[number], chance.random()
        if left and step < 0.35:
            left -= 1
            key, change = str(chance.randrange(3)), chance.randrange(-2, 3)
            if key in site.rows and chance.random() < 0.3:
                site.deletes(key)
                gone.add(key)
            else:
                now = int(str(site.rows[key]["age"])) if key in site.rows else 0
                sums[key] = sums.get(key, 0) + change
                site.sells(key, now + chance.randrange(1, 3), f"{number} {left}", change)
        elif step < 0.7 and job.read < len(job.other.log):
            job.site.takes(job.other.log[job.read])
            job.read += 1
        elif step < 0.95:
            job.look()
            job.other.notes[:] = [note for note in job.other.notes if note[0] not in job.met]
        else:
            job.waiting.clear()  # its process starts again
    return one, other, {key: found for key, found in sums.items() if key not in gone}


def test_rule_23_pitfall_69_a_delete_of_a_row_with_sums_leaves_both_sites_equal_whatever_crosses_it() -> None:
    """And takes nothing from the rows that nobody has deleted."""
    for seed in range(2000):
        one, other, kept = sums_with_deletes(seed)
        assert one.rows == other.rows, seed
        assert {key: int(str(one.rows[key]["stock"])) for key in kept} == kept, seed


def test_rule_23_a_delete_of_a_row_with_sums_wins_and_notes_what_it_had_not_seen() -> None:
    before: Row = {"id": "1", "age": "5", "v": "x", "stock": "3.0"}
    change = RowChange(SUMS, DELETE, {"id": "1"}, before=before)
    for age, stock, kind in (("5", "3.00", ""), ("5", "4", "differs"), ("4", "3", "differs"), ("6", "3", "newer")):
        site = Shop(True, {"1": {"id": "1", "age": age, "v": "there", "stock": stock}})
        verdict = Decider(cast(RowWriter, site)).decide(change, site.policy())
        assert (verdict.changes, verdict.kind, verdict.removed) == ((change,), kind, Removed(None)), (age, stock)
        assert verdict.found == site.rows["1"] and verdict.stands
    nothing = Decider(cast(RowWriter, Shop(True))).decide(change, Shop(True).policy())
    assert (nothing.changes, nothing.kind, nothing.removed) == ((), "", Removed(None))  # both have deleted it


def test_rule_23_a_sum_keeps_its_scale_and_has_no_null() -> None:
    change = RowChange(
        SUMS,
        UPDATE,
        {"id": "1"},
        {"age": "6", "stock": "0.10"},
        before={"id": "1", "age": "4", "v": "x", "stock": "0.30"},
    )
    site = Shop(False, {"1": {"id": "1", "age": "5", "v": "y", "stock": "99999999999999999999999999999999999999.20"}})
    site.takes(change)
    assert site.rows["1"] == {"id": "1", "age": "6", "v": "x", "stock": "99999999999999999999999999999999999999.00"}
    site.rows["1"]["stock"] = None
    with pytest.raises(Conflict, match="stock is added up, and is NULL"):
        site.takes(replace(change, values={"age": "7"}))


REFUSED = {
    "key": (
        RowChange(
            TABLE, UPDATE, {"id": "1"}, {"id": "2", "age": "2", "v": "x"}, before={"id": "1", "age": "1", "v": "x"}
        ),
        "another key",
    ),
    "as old": (
        RowChange(
            TABLE, UPDATE, {"id": "1"}, {"id": "1", "age": "1", "v": "y"}, before={"id": "1", "age": "1", "v": "x"}
        ),
        "does not make age greater",
    ),
}


@pytest.mark.parametrize(("change", "words"), REFUSED.values(), ids=REFUSED)
def test_rule_23_a_change_that_nobody_could_order_is_refused_with_its_key(change: RowChange, words: str) -> None:
    site = Site(True, {"1": {"id": "1", "age": "1", "v": "x"}})
    with pytest.raises(Conflict, match=words) as refused:
        site.takes(change)
    assert refused.value.key == {"id": "1"}


@pytest.mark.parametrize("delta", [(), ("stock",)], ids=["by versions", "added up"])
def test_rule_23_a_delete_is_refused_where_the_job_says_so(delta: tuple[str, ...]) -> None:
    there: Row = {"id": "1", "age": "1", "v": "x", "stock": "3"}
    change = RowChange(SUMS, DELETE, {"id": "1"}, before=there)
    decider = Decider(cast(RowWriter, Site(True, {"1": there})))
    with pytest.raises(Conflict, match='deletes = "refuse"') as refused:
        decider.decide(change, replace(policy(target_wins_ties=False), delta=delta, deletes=False))
    assert refused.value.key == {"id": "1"}


def test_rule_23_a_delete_stands_for_the_version_that_it_has_removed() -> None:
    change = RowChange(TABLE, DELETE, {"id": "1"}, before={"id": "1", "age": "5", "v": "x"})
    for age, kind, is_removed in (("4", "differs", True), ("5", "", True), ("6", "newer", False)):
        site = Site(True, {"1": {"id": "1", "age": age, "v": "there"}})
        verdict = Decider(cast(RowWriter, site)).decide(change, site.policy())
        assert (verdict.kind, verdict.removed) == (kind, Removed("5") if is_removed else None), age
        site.takes(change)
        assert bool(site.rows) is not is_removed and [note[1:] for note in site.notes] == [("1", 5)] * is_removed
    nothing = Decider(cast(RowWriter, Site(True))).decide(change, policy(target_wins_ties=True))
    assert (nothing.changes, nothing.kind, nothing.removed) == ((), "", Removed("5"))  # both have deleted it


def test_pitfall_68_a_newer_row_brings_what_its_change_left_as_it_was() -> None:
    """A large value that a PostgreSQL does not log again, beside another one of the other site."""
    site = Site(False, {"1": {"id": "1", "age": "5", "v": "of the other site"}})
    change = RowChange(TABLE, UPDATE, {"id": "1"}, {"age": "6"}, before={"id": "1", "age": "4", "v": "large"})
    site.takes(change)
    assert site.rows["1"] == {"id": "1", "age": "6", "v": "large"}
    partial = replace(change, before={"id": "1", "age": "4"}, values={"age": "7"})
    with pytest.raises(Conflict, match="lacks some of its columns"):
        site.takes(partial)


GREATER = [
    ("9", "10", True),
    ("1.50", "1.5", False),
    ("2026-01-01 00:00:00.9", "2026-01-01 00:00:00.91", True),
    ("2026-01-01 00:00:00", "2026-01-01 00:00:00.000001", True),
    ("2026-01-01 00:00:00.100000+00", "2026-01-01 00:00:00.1+00", False),
    ("9999-12-31", "10000-01-01", True),
    ("infinity", "2026-01-01", False),
    ("-infinity", "2026-01-01", True),
    ("0044-03-15 BC", "2026-01-01", False),
    (None, "1", False),
]


@pytest.mark.parametrize(("before", "after", "expected"), GREATER)
def test_rule_23_greater_is_told_of_numbers_dates_and_times(
    before: str | None, after: str | None, expected: bool
) -> None:
    assert is_greater(before, after) is expected


NEXT = [
    (INT, "9", "10"),
    (LogicalType(Kind.DECIMAL, precision=6, scale=2), "1.09", "1.10"),
    (LogicalType(Kind.DATE), "2026-12-31", "2027-01-01"),
    (LogicalType(Kind.TIMESTAMP), "2026-01-01 00:00:59.999999", "2026-01-01 00:01:00.000000"),
    (LogicalType(Kind.TIMESTAMP, fraction=3), "2026-01-01 00:00:00.9", "2026-01-01 00:00:00.901000"),
    (LogicalType(Kind.INSTANT, fraction=0), "2026-01-01 00:00:00+00", "2026-01-01 00:00:01.000000+00"),
]
LAST = [
    (INT, str((1 << 63) - 1)),
    (LogicalType(Kind.UINT8), "255"),
    (LogicalType(Kind.DECIMAL, precision=3, scale=1), "99.9"),
    (LogicalType(Kind.DATE), "9999-12-31"),
    (LogicalType(Kind.TIMESTAMP), "infinity"),
]


def aged(type_: LogicalType) -> TargetTable:
    return followed(schema("aged", {"id": INT, "age": type_}, ["id"])).table


@pytest.mark.parametrize(("type_", "value", "expected"), NEXT, ids=lambda one: str(one))
def test_rule_23_a_row_that_stays_gets_the_next_greater_value(type_: LogicalType, value: str, expected: str) -> None:
    found = greater_than(aged(type_), "age", value, {"id": "1"})
    assert found == expected and is_greater(value, found)


@pytest.mark.parametrize(("type_", "value"), LAST, ids=lambda one: str(one))
def test_rule_23_a_row_that_can_get_no_greater_value_is_named(type_: LogicalType, value: str) -> None:
    with pytest.raises(Conflict, match=f"there is no age greater than {value}") as refused:
        greater_than(aged(type_), "age", value, {"id": "1"})
    assert refused.value.key == {"id": "1"}

"""Disagreement: a change that finds the target other than it expects (K28), and what the table's policy makes of it.

Decided in the slow way only, row by row and under the row's lock: the quick way notices by counts, and gives way. What is
decided is noted in the same transaction. What no policy covers stays a Conflict: values that the target refuses, unique
values of another row, rows that the log has only in part.

What does not live here: comparing ages and reading rows (the Writer), where the policy comes from (rules/rule_set.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from anabranch.apply.pair import added_up, greater_than, is_same, refuse_change
from anabranch.contracts import Conflict, RowWriter
from anabranch.rows.conflict import Age, ConflictPolicy, FoundRow, NotedConflict, OnConflict, Texts
from anabranch.rows.net import DELETE, INSERT, UPDATE, RowChange

KEYS_ACT = "another row already has the new key, and foreign keys of the target would act on its removal"
IN_PART = (
    "the row is missing and the log lacks some of its columns, so it cannot be inserted:"
    " let the source log full row images"
)


@dataclass(frozen=True)
class Again:
    """The version that the target's row is to be newer than at the other site. `values`: the row as the other site has it,
    where this one has deleted it."""

    age: str
    values: Texts = field(default_factory=dict)


@dataclass(frozen=True)
class Removed:
    """A row of a pair that is deleted. `age`: what comes behind it at the other site and is not newer goes, too; None: all of
    it goes."""

    age: str | None


@dataclass(frozen=True)
class Verdict:
    """A decision. `changes` carry it out. `stands`: what the source's keys did to children has to follow. `removed`: the delete
    of a row of a pair, for what comes behind it at the other site (pair_deletes.py). `again`: the target's row stands against
    the other site, and goes there (pair_standing.py). `wins`: the change's row takes the whole place of one that is there."""

    changes: tuple[RowChange, ...]
    stands: bool = True
    kind: str = ""  # "" where nothing is to be noted
    decision: str = ""
    found: Texts | None = None
    removed: Removed | None = None
    again: Again | None = None
    wins: bool = False


@dataclass(frozen=True)
class Decider:
    """Reads the rows that a change concerns, and decides. `keys_act`: foreign keys of the target remove or change rows
    that refer to this table's."""

    writer: RowWriter
    keys_act: bool = False

    def decide(self, change: RowChange, policy: ConflictPolicy) -> Verdict:
        """Decide a change that may find the target otherwise. Raises Conflict where the policy leaves it to a person.

        A policy that decides nothing lets every change stand.
        """
        if not policy.decides:
            return Verdict((change,))
        if policy.pair:
            return self._in_pair(change, policy)
        if not change.table.key:
            return self._keyless(change, policy)
        if change.operation == INSERT:
            return self._insert(change, policy)
        return self._delete(change, policy) if change.operation == DELETE else self._update(change, policy)

    def _insert(self, change: RowChange, policy: ConflictPolicy) -> Verdict:
        key = {name: change.values.get(name) for name in change.table.key}
        there = self._row(change, key, policy)
        if there is None:
            return Verdict((change,))
        if self._source_wins(change, policy, there):
            instead = replace(change, operation=UPDATE, old_key=key)
            return Verdict((instead,), kind="exists", decision="source", found=there.values)
        return Verdict((), stands=False, kind="exists", decision="target", found=there.values)

    def _delete(self, change: RowChange, policy: ConflictPolicy) -> Verdict:
        there = self._row(change, change.old_key, policy)
        if there is None:
            return Verdict((), kind="missing", decision="ignored")
        return self._kept(there) if there.is_newer else Verdict((change,))

    def _update(self, change: RowChange, policy: ConflictPolicy) -> Verdict:
        new_key = {name: change.values.get(name, value) for name, value in change.old_key.items()}
        there = self._row(change, change.old_key, policy)
        other = self._row(change, new_key, policy) if new_key != change.old_key else None
        if other is not None and there is not None and _same_key(change, there, other):
            other = None  # the target takes both keys for equal
        if there is not None and there.is_newer:
            return self._kept(there)
        if other is not None:
            return self._arrives(change, policy, there, other, new_key)
        return self._missing(change, policy) if there is None else Verdict((change,))

    def _arrives(
        self, change: RowChange, policy: ConflictPolicy, there: FoundRow | None, other: FoundRow, new_key: Texts
    ) -> Verdict:
        """Decide a row that moves to a key that another row has."""
        leaves = RowChange(change.table, DELETE, dict(change.old_key))
        wins = self._source_wins(change, policy, other)
        if there is not None and self.keys_act:
            raise Conflict(change.table.source, KEYS_ACT, dict(new_key))
        if not wins:
            gone = (leaves,) if there is not None else ()
            return Verdict(gone, kind="exists", decision="target", found=other.values)
        if there is None:
            changes: tuple[RowChange, ...] = (replace(change, old_key=dict(new_key), values=_whole(change)),)
        else:
            changes = (RowChange(change.table, DELETE, dict(new_key)), change)
        return Verdict(changes, kind="exists", decision="source", found=other.values)

    def _in_pair(self, change: RowChange, policy: ConflictPolicy) -> Verdict:
        """Decide a change of a table that both ends write (K23): of two rows of one key the newer one stays at both ends, of
        equally new ones that of the site that wins. It holds in any order and any batching, because a row only ever gets newer
        (pair.py refuses what would break that)."""
        age, is_insert = _age(change, policy.newest_by), change.operation == INSERT
        key = {name: change.values.get(name) for name in change.table.key} if is_insert else dict(change.old_key)
        refuse_change(change, policy)
        if policy.target_stays and (verdict := self._stays(change, policy, key, age)):
            return verdict
        if change.operation == DELETE:
            return self._sum_deleted(change, policy, age) if policy.delta else self._deleted_in_pair(change, age)
        there = self.writer.row(change.table, key, replace(age, or_equal=policy.target_wins_ties))
        whole = {} if is_insert else _whole(change)
        if there is None:
            row = change if is_insert else RowChange(change.table, INSERT, values=whole)
            return Verdict((row,), kind="" if is_insert else "missing", decision="" if is_insert else "source")
        sums = added_up(change, policy, there.values)
        if there.is_newer:
            changed = {name: value for name, value in sums.items() if value != there.values[name]}
            added = (RowChange(change.table, UPDATE, key, changed),) if changed else ()
            kind = "exists" if is_insert else "newer"
            return Verdict(added, stands=False, kind=kind, decision="target", found=there.values)
        if is_insert:
            instead = replace(change, operation=UPDATE, old_key=key, values={**change.values, **sums})
            return Verdict((instead,), kind="exists", decision="source", found=there.values, wins=True)
        instead = replace(change, values={**whole, **sums})  # also what it left as it was: the target's may be another
        if self._is_newer(change, key, there, Age(policy.newest_by, change.before[policy.newest_by])):
            return Verdict((instead,), kind="differs", decision="source", found=there.values, wins=True)
        return Verdict((instead,), wins=True)

    def _stays(self, change: RowChange, policy: ConflictPolicy, key: Texts, age: Age) -> Verdict | None:
        """Decide a change at the site that wins in the table: what is there stays, unless the change was made from it. Return
        None for a change that was. The versions tell: they only rise here, since a row that is not newer than what it stood
        against is made so, in this epoch for what comes next, and once more behind it for the other site."""
        there, column = self.writer.row(change.table, key, age), policy.newest_by
        if there is None:
            if change.operation != UPDATE or not policy.deletes:
                return None
            gone = Again(str(age.value), _whole(change))
            return Verdict((), stands=False, kind="missing", decision="ignored", again=gone)
        if change.operation != INSERT and self._is_as_old(change, key, there, Age(column, change.before[column])):
            return None
        kind = "exists" if change.operation == INSERT else "newer" if there.is_newer else "differs"
        if there.is_newer:
            return Verdict((), stands=False, kind=kind, decision="target", found=there.values)
        newer = greater_than(change.table, column, str(age.value), key)
        raised, again = RowChange(change.table, UPDATE, dict(key), {column: newer}), Again(newer)
        return Verdict((raised,), stands=False, kind=kind, decision="target", found=there.values, again=again)

    def _is_as_old(self, change: RowChange, key: Texts, there: FoundRow, age: Age) -> bool:
        """Return whether the row that is there has this very version."""
        at_least = self._is_newer(change, key, there, replace(age, or_equal=True))
        return at_least and not self._is_newer(change, key, there, age)

    def _is_newer(self, change: RowChange, key: Texts, there: FoundRow, age: Age) -> bool:
        """Return whether the row that is there is newer than this age. Equal texts are one value; else the target is asked."""
        if there.values.get(age.column) == age.value:
            return age.or_equal
        found = self.writer.row(change.table, key, age)
        return found is not None and found.is_newer

    def _deleted_in_pair(self, change: RowChange, age: Age) -> Verdict:
        """Decide a delete: it stands for the version that it has removed, and wins over that and all older ones. Where both
        sites have deleted the row they agree."""
        there, removed = self.writer.row(change.table, dict(change.old_key), age), Removed(age.value)
        if there is None:
            return Verdict((), removed=removed)
        if there.is_newer:
            return Verdict((), stands=False, kind="newer", decision="target", found=there.values)
        is_older = not self._is_newer(change, change.old_key, there, replace(age, or_equal=True))
        kind, decision = ("differs", "source") if is_older else ("", "")
        return Verdict((change,), kind=kind, decision=decision, found=there.values, removed=removed)

    def _sum_deleted(self, change: RowChange, policy: ConflictPolicy, age: Age) -> Verdict:
        """Decide a delete of a row with columns that are added up: it wins, whatever the row's version is. What has crossed it
        had its sum from a row that is gone at the other site, so no version could tell what of it is to stay (decision 321)."""
        there, removed = self.writer.row(change.table, dict(change.old_key), age), Removed(None)
        if there is None:
            return Verdict((), removed=removed)
        same = all(is_same(change.before.get(name), there.values.get(name)) for name in policy.delta)
        if same and self._is_as_old(change, change.old_key, there, age):
            return Verdict((change,), found=there.values, removed=removed)
        kind, decision = "newer" if there.is_newer else "differs", "source"
        return Verdict((change,), kind=kind, decision=decision, found=there.values, removed=removed)

    def _missing(self, change: RowChange, policy: ConflictPolicy) -> Verdict:
        if policy.name in (OnConflict.IGNORE_MISSING, OnConflict.TARGET_WINS):
            return Verdict((), kind="missing", decision="ignored")
        row = RowChange(change.table, INSERT, values=_whole(change))
        return Verdict((row,), kind="missing", decision="source")

    def _keyless(self, change: RowChange, policy: ConflictPolicy) -> Verdict:
        """Decide a change of a table without a key: only carrying it out tells whether one of the equal rows is there."""
        if change.operation == INSERT or self.writer.change(replace(change, checked=False)):
            return Verdict((change,) if change.operation == INSERT else ())
        return self._missing(change, policy) if change.operation == UPDATE else Verdict((), True, "missing", "ignored")

    @staticmethod
    def _kept(there: FoundRow) -> Verdict:
        return Verdict((), stands=False, kind="newer", decision="target", found=there.values)

    def _source_wins(self, change: RowChange, policy: ConflictPolicy, there: FoundRow) -> bool:
        """Return whether the source's row wins over one that is there and should not be."""
        if policy.name == OnConflict.IGNORE_MISSING:
            what = f"{change.operation} in {change.table.target}: a row with this key is there already"
            raise Conflict(change.table.source, what, {name: there.values.get(name) for name in change.table.key})
        return policy.name == OnConflict.SOURCE_WINS or (policy.name == OnConflict.NEWEST and not there.is_newer)

    def _row(self, change: RowChange, key: Texts, policy: ConflictPolicy) -> FoundRow | None:
        return self.writer.row(change.table, key, _age(change, policy.newest_by) if policy.newest_by else None)


def _whole(change: RowChange) -> dict[str, str | None]:
    """Return the row as the source has it. Raises Conflict where the log has it in part."""
    whole = {**change.before, **change.old_values, **change.values}
    if not whole.keys() >= set(change.table.columns):
        what = f"update in {change.table.target}: {IN_PART}"
        raise Conflict(change.table.source, what, dict(change.old_key))
    return {name: whole[name] for name in change.table.columns}


def _same_key(change: RowChange, one: FoundRow, other: FoundRow) -> bool:
    return all(one.values[name] == other.values[name] for name in change.table.key)


def _age(change: RowChange, column: str) -> Age:
    known = {**change.before, **change.values}
    if column not in known:
        what = f"{change.operation} in {change.table.target}: the log's image lacks {column}, by which the newest row is told"
        raise Conflict(change.table.source, what, dict(change.old_key))
    return Age(column, known[column])


@dataclass(frozen=True)
class Where:
    """The source transaction that a change belongs to."""

    sequence: int
    position: str
    commit_time: int
    gtid: str | None = None


def note_of(change: RowChange, policy: ConflictPolicy, verdict: Verdict, where: Where) -> NotedConflict:
    """Return the note of a decision, which is kept beside the rows."""
    key = change.old_key or {name: change.values.get(name) for name in change.table.key}
    before, after = {**change.before, **change.old_values, **change.old_key}, {**change.old_key, **change.values}
    return NotedConflict(
        where.sequence,
        where.position,
        where.commit_time,
        change.table.source,
        change.table.target,
        key,
        change.operation,
        verdict.kind,
        policy.name,
        verdict.decision,
        before if change.operation != INSERT else None,
        after if change.operation != DELETE else None,
        verdict.found,
    )

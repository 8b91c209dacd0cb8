"""A job that has begun: its tables are checked as it replicates them. What has changed at the source since parks a table
once it is running; that is no reason to refuse the start.

What does not live here: asking target and trail (job/preflight.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.column_changes import ColumnChange
from anabranch.model.ids import TableId
from anabranch.model.key_changes import goes_on_as, keys_apart, may_become
from anabranch.model.parked_reasons import ANEW
from anabranch.model.schema import TableSchema
from anabranch.rules.rule_set import RuleSet

CHECK = "job.definitions"
EDITED = "job.edited"
PLAN = "anabranch plan JOB says what that means for its tables, and takes it over; or put it back"
JOIN = "anabranch load JOB --table {table} brings it in then"
ALTERED = "its columns were altered at the source: it will be parked, unless [ddl] of the job file follows such changes"
KEYS = (
    "drop at the target, too, what may refuse rows; anabranch load JOB --table {table} --recreate makes all keys anew"
)


@dataclass(frozen=True)
class KnownJob:
    """`definitions`: those that the job replicates its tables by, none before it has begun. `loaded`: its target tables
    may hold rows. `parked`: left alone at present. `source_name`: LogOptions.name, where the job has one already. `uuid`: the
    job's, likewise. `edited`: what the job file says otherwise than when the job last ran (K32), `reshaped`: the tables that
    have another form at the target than it says."""

    definitions: Mapping[TableId, TableSchema] = field(default_factory=dict)
    loaded: frozenset[TableId] = frozenset()
    parked: frozenset[TableId] = frozenset()
    source_name: str = ""
    uuid: str = ""
    edited: tuple[str, ...] = ()
    reshaped: frozenset[TableId] = frozenset()

    @property
    def has_begun(self) -> bool:
        return bool(self.definitions or self.parked)

    def replicated(self, rules: RuleSet, now: Mapping[TableId, TableSchema]) -> dict[TableId, TableSchema]:
        """Return the definitions to check: the job's own once it has begun, else those of `now`, which the source has. What
        the job file gives another form waits for a load once that is taken over: what stands at the target is no fault."""
        if not self.has_begun:
            return dict(now)
        left_alone = self.parked | self.reshaped
        return {t: s for t, s in self.definitions.items() if rules.includes(t) and t not in left_alone}

    def differences(self, rules: RuleSet, now: Mapping[TableId, TableSchema]) -> Iterator[CheckResult]:
        """Warn of tables that will park once the log is read, and of those that are parked already."""
        if self.edited:
            message = f"the job file differs from the job as last run: {'; '.join(self.edited)}"
            yield CheckResult(EDITED, CheckVerdict.FAILED, message, PLAN)
        if not self.has_begun:
            return
        join = ANEW if rules.keeps_changes else JOIN
        for table, schema in sorted(self.replicated(rules, now).items()):
            if table not in now:
                yield _warning(table, "it is no longer at the source: it will be parked")
            elif not goes_on_as(schema, now[table]) and may_become(schema, now[table], frozenset(ColumnChange)):
                yield _warning(table, ALTERED, join)
            elif not goes_on_as(schema, now[table]):
                yield _warning(table, "its definition changed at the source: it will be parked", join)
            elif (apart := keys_apart(schema, now[table])) and not rules.keeps_changes:
                yield _warning(table, f"its keys changed at the source, the target's did not: {', '.join(apart)}", KEYS)
        for table in sorted(now.keys() - self.definitions.keys() - self.parked):
            yield _warning(
                table, "it is new at the source: it will be parked, unless [ddl] create_table follows it", join
            )
        if parked := sorted(str(table) for table in self.parked if rules.includes(table)):
            message = f"{len(parked)} tables are parked, their changes do not arrive: {', '.join(parked)}"
            yield CheckResult(
                "job.parked", CheckVerdict.WARNING, message, "anabranch status JOB says why and what to do"
            )


def _warning(table: TableId, message: str, hint: str = "") -> CheckResult:
    return CheckResult(CHECK, CheckVerdict.WARNING, message, hint.format(table=table.typed), str(table))

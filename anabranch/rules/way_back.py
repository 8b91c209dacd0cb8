"""The way back of a job: for each of its tables, what has to be said so that changes of the target's table go back into the
source's, and what keeps them from it or is lost.

Decided from definitions and the job file alone: the source's tables, and the target's as they were made, where they were. What
does not live here: asking for these (`lifecycle/reversing.py`), the checks of both servers (`preflight/way_back.py`), the file
(`reverse_file.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from anabranch.config import JobConfig
from anabranch.config.patterns import Pattern
from anabranch.config.toml_text import text_of
from anabranch.contracts import TypeMap
from anabranch.errors import AnabranchError
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.datatype import Fidelity, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.net import TargetTable
from anabranch.rules.inverted import shared_of
from anabranch.rules.rule_set import RuleSet
from anabranch.rules.standing_types import chosen

TARGETS, TABLES, FILTERS, KEYS, COLUMNS, TYPES, PARENTS = (
    f"reverse.{name}" for name in ("targets", "tables", "filters", "keys", "columns", "types", "foreign_keys")
)
NAMED = 3  # columns that a finding about many names


@dataclass(frozen=True)
class TableBack:
    """A table of the way back. `read` is the job's target table, `written` its source table. `rename`: columns as they are
    called in `read` -> in `written`. `drop`: columns of `read` that do not go back, and why. `types`: columns of `read` -> the
    type to choose for them, with which they go into the column that stands. `is_made`: `read` stands at the target."""

    read: TableId
    written: TableId
    rename: Mapping[str, str] = field(default_factory=dict)
    drop: Mapping[str, str] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    is_made: bool = False


@dataclass(frozen=True)
class WayBack:
    """`tables`: those that go back. `left_out`: source tables that do not, and why. `findings`: what is refused and what is
    told; a table with something refused is among `tables` all the same."""

    tables: tuple[TableBack, ...]
    left_out: Mapping[TableId, str]
    findings: tuple[CheckResult, ...]

    @property
    def refused(self) -> tuple[CheckResult, ...]:
        return tuple(one for one in self.findings if one.verdict is CheckVerdict.FAILED)


def _or_exclude(table: TableId) -> str:
    return f"leave the table out of the way back ([reverse] exclude = [{text_of(str(table))}])"


def _nobody_knows(native: str) -> LogicalType | None:
    """Answer where a database gives its types in the source's own words, or does not tell."""
    return None


@dataclass(frozen=True)
class Ends:
    """The facts about both ends. `at_source`: definitions of the job's tables; `at_target`: the target's tables as the database
    there defines them now, by their names there; none where the job has not made them. `types`: the type map of the target,
    `back`: that of the source in the role of a target. `parked`: source tables whose target is behind; `unready`: those
    that the job loads or builds indexes and keys of. `shared`: target tables that other jobs write to.
    `has_begun`: the job knows of its tables already. `spelled`: the logical type that a column of the target has, by how its
    type is spelled. `altered`: source tables of which it is not known yet which columns the target is without."""

    at_source: Mapping[TableId, TableSchema]
    at_target: Mapping[TableId, TableSchema]
    types: TypeMap
    back: TypeMap
    parked: Collection[TableId] = ()
    unready: Collection[TableId] = ()
    shared: Collection[TableId] = ()
    has_begun: bool = False
    spelled: Callable[[str], LogicalType | None] = _nobody_knows
    altered: Collection[TableId] = ()


def way_back(config: JobConfig, rules: RuleSet, ends: Ends) -> WayBack:
    """Turn a job round. `rules`: the job's own."""
    findings = list(_targets(config))
    left_out = dict(_left_out(config, rules, ends))
    tables: list[TableBack] = []
    widened: dict[str, list[str]] = defaultdict(list)
    for table, schema in sorted(ends.at_source.items()):
        if table in left_out or not rules.includes(table):
            continue
        try:
            form = rules.target_table(schema)
        except AnabranchError:
            continue  # the job's own checks refuse it
        one = _Table(config, rules, ends, schema, form)
        found, results = one.turned(widened)
        tables.append(found)
        findings += results
    findings += _altered(tables, ends)
    findings += _several_into_one(tables, ends)
    findings += _parents(tables, ends, left_out)
    findings += _widened(widened)
    for table, why in sorted(left_out.items()):
        findings.append(CheckResult(TABLES, CheckVerdict.WARNING, f"it does not go back: {why}", "", str(table)))
    return WayBack(tuple(tables), left_out, tuple(findings))


def _targets(config: JobConfig) -> Iterator[CheckResult]:
    if len(config.ends) > 1:
        names = ", ".join(config.ends)
        yield CheckResult(
            TARGETS,
            CheckVerdict.FAILED,
            f"the job has several targets ({names}), and changes of more than one cannot go back to one source",
            "make a job of its own for the target that takes over",
        )


def _left_out(config: JobConfig, rules: RuleSet, ends: Ends) -> Iterator[tuple[TableId, str]]:
    patterns = [(text, Pattern.parse(text)) for text in config.reverse.exclude]
    for table in ends.at_source:
        if not rules.includes(table):
            continue
        named = next((text for text, pattern in patterns if pattern.matches(table)), None)
        if named is not None:
            yield table, f"[reverse] exclude has '{named}'" if '"' in named else f'[reverse] exclude has "{named}"'
        elif table in ends.parked:
            yield table, "it is parked, so the target's rows are behind the source's"


def _altered(tables: Collection[TableBack], ends: Ends) -> Iterator[CheckResult]:
    for one in tables:
        if one.written in ends.altered:
            text = (
                "the source altered its columns, and the target, which is without some of them, has not come there yet"
            )
            hint = f"let the job come there (anabranch run JOB --until-caught-up), or {_or_exclude(one.written)}"
            yield CheckResult(COLUMNS, CheckVerdict.FAILED, text, hint, str(one.written))


def _several_into_one(tables: Collection[TableBack], ends: Ends) -> Iterator[CheckResult]:
    for read, written in shared_of([(one.written, one.read) for one in tables]).items():
        names = ", ".join(map(str, written))
        text = f"{names} go into {read}: nobody can say from which of them a row there is"
        yield CheckResult(TABLES, CheckVerdict.FAILED, text, "give them targets of their own ([[rules]] target)")
    for one in tables:
        if one.read in ends.shared:
            text = f"other jobs write to {one.read}, too: nobody can say which rows there are this table's"
            hint = f"give it a target of its own ([[rules]] target), or {_or_exclude(one.written)}"
            yield CheckResult(TABLES, CheckVerdict.FAILED, text, hint, str(one.written))


def _parents(tables: Collection[TableBack], ends: Ends, left_out: Mapping[TableId, str]) -> Iterator[CheckResult]:
    for one in tables:
        for key in ends.at_source[one.written].foreign_keys:
            if key.parent in left_out:
                text = f"foreign key {key.name} leads to {key.parent}, which does not go back: its new rows are missing there"
                yield CheckResult(PARENTS, CheckVerdict.WARNING, text, "let both go back, or neither", str(one.written))


def _widened(widened: Mapping[str, list[str]]) -> Iterator[CheckResult]:
    for what, names in widened.items():
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        text = f"{what}: a value that the source's type does not hold stops the way back"
        yield CheckResult(TYPES, CheckVerdict.WARNING, f"{text} ({', '.join(names[:NAMED])}{more})", names=tuple(names))


@dataclass(frozen=True)
class _Table:
    """One table that is turned round. `schema`: the source's. `form`: what it is at the target."""

    config: JobConfig
    rules: RuleSet
    ends: Ends
    schema: TableSchema
    form: TargetTable

    @property
    def names(self) -> Mapping[str, str]:
        """Source column -> target column, of those that are written or computed there."""
        return dict(zip(self.form.source_columns, self.form.columns, strict=True)) | dict(self.form.computed)

    def turned(self, widened: dict[str, list[str]]) -> tuple[TableBack, list[CheckResult]]:
        results = [*self._rows(), *self._left(), *self._losses(widened)]
        made = self.ends.at_target.get(self.form.target)
        rename = {target: source for source, target in self.names.items() if source != target}
        drop, types = dict[str, str](), dict[str, str]()
        if made is not None:
            results += self._missing(made)
            drop = dict(self._not_written(made))
            results += self._computed(drop)
            results += self._types(made, drop, types)
        else:
            drop = {self.names[c.name]: _COMPUTES for c in self._plain_there()}
            results += self._computed(drop)
            results += self._types(self._foreseen(), drop, {})
        rename = {name: source for name, source in rename.items() if name not in drop}
        return TableBack(self.form.target, self.schema.id, rename, drop, types, made is not None), results

    def _result(self, check: str, message: str, hint: str, verdict: CheckVerdict = CheckVerdict.FAILED) -> CheckResult:
        return CheckResult(check, verdict, message, hint.replace("{exclude}", self._exclude), str(self.schema.id))

    @property
    def _exclude(self) -> str:
        return _or_exclude(self.schema.id)

    def _rows(self) -> Iterator[CheckResult]:
        """Find what keeps rows from being told apart."""
        if not self.schema.primary_key:
            yield self._result(
                KEYS,
                "it has no primary key: which row of the source a change of the target is about cannot be told",
                "give it a primary key, or {exclude}",
            )
        if self.rules.has_filter(self.schema.id):
            yield self._result(
                FILTERS,
                "it has a filter (where): rows that the target never had may have the keys of rows that come back",
                "take the filter out, or {exclude}",
            )

    def _left(self) -> Iterator[CheckResult]:
        """Find columns that the job leaves out, which a row that comes back has no value for."""
        told = []
        for name in self.rules.left_out(self.schema):
            column = next((one for one in self.schema.columns if one.name == name), None)
            if column is None:
                continue
            if _needs_value(column):
                yield self._result(
                    COLUMNS,
                    f"column {name} is left out, and is NOT NULL without a default: a row that is new at the target has no"
                    " value for it",
                    "replicate the column, give it a default at the source, or {exclude}",
                )
            elif not column.generated:
                told.append(name)
        if told:
            names = ", ".join(told)
            text = f"{names}: left out, so rows that are new at the target get the source's default"
            yield self._result(COLUMNS, text, "", CheckVerdict.WARNING)

    def _losses(self, widened: dict[str, list[str]]) -> Iterator[CheckResult]:
        """Find types that lose something on the way to the target: what was lost there comes back so."""
        for name, type in zip(self.form.source_columns, self.form.types, strict=True):
            column, fit = self.schema.column(name), self.ends.types.fit(type, self.rules.values)
            if fit.native == column.native:
                continue
            if fit.changes_values:
                accepts = self.config.reverse.lossy == "accept"
                yield self._result(
                    TYPES,
                    f"column {name} {column.native} loses something as {fit.native}: {fit.reason}",
                    ""
                    if accepts
                    else "choose a type that loses nothing ([[tables]] columns.type, [types.map],"
                    ' [target.options]); let values come back as they are there ([reverse] lossy = "accept"); or {exclude}',
                    CheckVerdict.WARNING if accepts else CheckVerdict.FAILED,
                )
            elif fit.fidelity is Fidelity.WIDENED:
                widened[f"{_bare(column.native)} as {_bare(fit.native)}"].append(f"{self.schema.id}.{name}")

    def _missing(self, made: TableSchema) -> Iterator[CheckResult]:
        if set(made.primary_key) != set(self.form.key):
            keys = f"({', '.join(made.primary_key)}), the source's is ({', '.join(self.form.key)})"
            hint = "give the target's table the source's key, or {exclude}"
            yield self._result(KEYS, f"the primary key of the target's {made.id} is {keys}", hint)
        there = {column.name for column in made.columns}
        for name in self.form.columns:
            if name not in there:
                yield self._result(
                    COLUMNS,
                    f"the target's {made.id} has no column {name}",
                    "load the table again (anabranch load JOB --table T --recreate), or {exclude}",
                )

    def _plain_there(self) -> list[Column]:
        """Return the source's generated columns that the target has as plain ones."""
        return [c for c in self.schema.columns if c.generated and c.name in self.form.source_columns]

    def _not_written(self, made: TableSchema) -> Iterator[tuple[str, str]]:
        computes = {self.names[column.name] for column in self._plain_there()}
        known = frozenset(self.names.values())
        for column in made.columns:
            if column.name not in known:
                yield column.name, "only the target has it"
            elif column.name in computes and not column.generated:
                yield column.name, _COMPUTES

    def _computed(self, drop: Mapping[str, str]) -> Iterator[CheckResult]:
        """Tell of columns that do not go back; refuse those of a key."""
        for name, why in drop.items():
            if name in self.form.key:
                text = f"column {name} of the primary key does not go back: {why}"
                yield self._result(COLUMNS, text, "{exclude}")
        if names := [name for name in drop if name not in self.form.key]:
            text = f"{', '.join(names)}: what the target has there does not go back"
            yield self._result(COLUMNS, text, "", CheckVerdict.WARNING)

    def _foreseen(self) -> TableSchema:
        """Return the target's table as it will be defined there, with the columns of which that is known."""
        columns = []
        for name, target, type in zip(self.form.source_columns, self.form.columns, self.form.types, strict=True):
            fit = self.ends.types.fit(type, self.rules.values)
            if (found := self.ends.spelled(fit.native)) is not None and fit.fidelity is not Fidelity.REFUSED:
                columns.append(Column(target, found, fit.native, nullable=self.schema.column(name).nullable))
        key = self.form.key if {*self.form.key} <= {column.name for column in columns} else ()
        return TableSchema(self.form.target, tuple(columns), primary_key=key)

    def _types(self, made: TableSchema, drop: Collection[str], types: dict[str, str]) -> Iterator[CheckResult]:
        """Choose types for columns whose usual type is not the one that stands at the source."""
        columns = {column.name: column for column in made.columns}
        keyed = made.keyed
        for source, target in zip(self.form.source_columns, self.form.columns, strict=True):
            column, standing = columns.get(target), self.schema.column(source).native
            if column is None or target in drop or column.generated:
                continue
            if column.type is None:
                why = column.refusal or "not in the type map"
                text = f"column {target} {column.native} of the target cannot be read: {why}"
                yield self._result(TYPES, text, "choose another type for it ([[tables]] columns.type), or {exclude}")
                continue
            found, why = chosen(self.ends.back, column, standing, target in keyed, target in self.form.key)
            if found is None:
                text = f"column {target} {column.native} of the target does not go into {standing} of the source: {why}"
                hint = "choose another type for it at the target ([[tables]] columns.type, [types.map]), or {exclude}"
                yield self._result(TYPES, text, hint)
                continue
            if found:
                types[target] = found
            if why:
                text = f"column {target} {column.native} goes into {standing} of the source with a loss: {why}"
                yield self._result(TYPES, text, "", CheckVerdict.WARNING)


_COMPUTES = "the source computes it itself"


def _needs_value(column: Column) -> bool:
    has = column.has_default or column.default_is_expression or column.auto_increment or column.generated
    return not (column.nullable or has or column.set_by_server)


def _bare(native: str) -> str:
    return native.partition("(")[0] if "(" in native else native

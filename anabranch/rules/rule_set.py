"""The rule set of a job: which source tables are replicated, how each looks at the target, which rows pass.

Answers for one table at a time, from the job file and the table's definition alone. What does not live here: parsing
patterns (`config/patterns.py`), and asking a database which tables there are (preflight, load, capture).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from anabranch.config import JobConfig, TableEntry
from anabranch.config.patterns import Pattern, Template, place_of
from anabranch.config.sections.pair import Pair
from anabranch.config.toml_text import text_of
from anabranch.contracts import TypeMap
from anabranch.errors import ConfigError, Problem, SchemaError
from anabranch.model.at_target import TextForm
from anabranch.model.change_names import change_table
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.parked_reasons import ANEW
from anabranch.model.schema import Column, TableSchema
from anabranch.rows import json_texts
from anabranch.rows.conflict import ConflictPolicy, OnConflict
from anabranch.rows.net import TargetTable
from anabranch.rules.choices import TypeChoices
from anabranch.rules.contradictions import EXCLUDE, Contradiction, contradictions
from anabranch.rules.decided import decided
from anabranch.rules.ghosts import HINT, KEY, Ghosts
from anabranch.rules.instances import instances_of, unfit_columns
from anabranch.rules.values import value_rules


@dataclass(frozen=True, slots=True)
class Filter:
    """Rows for which `text` (Spark SQL) is true pass; `columns` are the source columns it names (K27)."""

    text: str
    columns: tuple[str, ...]


def check_filter(text: str) -> None:
    """Check what can be checked of a filter without its table. Raises ValueError."""
    from anabranch.rules.expressions import check_syntax  # its parser takes time to come, and few jobs have filters

    check_syntax(text)


# what may say which of two rows is newer
# Kinds of which a greater value is greater at every end, and stays as exact.
RISING = frozenset(
    {
        *(Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64, Kind.UINT8, Kind.UINT16, Kind.UINT32, Kind.UINT64),
        *(Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP, Kind.INSTANT),
    }
)
# Kinds of which a sum is the same at every end, in whatever order it was made.
SUMMED = RISING - {Kind.DATE, Kind.TIMESTAMP, Kind.INSTANT}
ORDERED = frozenset(
    {
        *(Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64, Kind.UINT8, Kind.UINT16, Kind.UINT32, Kind.UINT64),
        *(Kind.DECIMAL, Kind.FLOAT32, Kind.FLOAT64, Kind.DATE, Kind.TIMESTAMP, Kind.INSTANT, Kind.YEAR),
    }
)


@dataclass(frozen=True, slots=True)
class _Rule:
    include: tuple[Pattern, ...]
    target: Template


class RuleSet:
    """Made once per process from a job's configuration. Raises ConfigError for a filter that cannot be one."""

    def __init__(self, config: JobConfig, types: TypeMap, target: str = "") -> None:
        """Set up the rules. `types`: the type map of the job's target."""
        self._config, self.target_name, self.keeps_changes = config, target, config.keeps_changes
        self.values = value_rules(config, types, target)
        self._rules = [_Rule(_patterns(rule.include), Template.parse(rule.target)) for rule in config.rules]
        self._excluded = [pattern for rule in config.rules for pattern in _patterns(rule.exclude)]
        self._entries = {entry.id: entry for entry in config.tables}
        self.ghosts = Ghosts(config)
        self._target, self._types = types, TypeChoices(config.types, types, self.values)
        self._check_filters()

    def target_of(self, table: TableId) -> TableId | None:
        """Return the target's name for a source table, None for one that no rule includes or one excludes."""
        if any(pattern.matches(table) for pattern in self._excluded) or self.ghosts.pattern_of(table):
            return None
        for rule in self._rules:
            if any(pattern.matches(table) for pattern in rule.include):
                found = rule.target.render(table)
                return change_table(found) if self._config.has_change_tables else found
        return None

    def includes(self, table: TableId) -> bool:
        return self.target_of(table) is not None

    def shares_target(self, table: TableId, others: Iterable[TableId]) -> bool:
        """Return whether another one of these tables goes into the same target table."""
        target = self.target_of(table)
        return target is not None and any(self.target_of(other) == target for other in others if other != table)

    def not_replicated(self, table: TableId) -> ConfigError:
        """Return the error for a named table that the job does not replicate, with the line that decides it."""
        by = decided(self._config, table).by
        if by and by.key == "exclude":
            problem = Problem(f"{by.pattern!r} leaves it out, for all rules", by.line, EXCLUDE)
            return ConfigError(f"rule {by.rule} excludes {table}", problems=[problem])
        if by and by.key == KEY:
            problem = Problem(f"{by.pattern!r} is the name of a table that a tool works with", by.line, f"[ddl] {KEY}")
            return ConfigError(f"[ddl] {KEY} leaves {table} out", problems=[problem], hint=HINT)
        return ConfigError(f"no rule includes {table}", hint="name it as schema.table, as the source spells it")

    def targets(self, tables: Iterable[TableId]) -> dict[TableId, TableId]:
        """Return every included table with its target. Raises ConfigError when two would share one."""
        found = {table: target for table in sorted(tables) if (target := self.target_of(table))}
        if shared := list(_shared(found)):
            raise ConfigError(
                "several source tables would go into one target table",
                problems=[Problem(text, key="[[rules]] target", line=self._config.line_of("rules")) for text in shared],
                hint="give them different targets, e.g. with {schema} in the template, or exclude all but one",
            )
        return found

    def without_match(self, tables: Iterable[TableId]) -> list[Problem]:
        """Include patterns that match none of the source's tables."""
        present = list(tables)
        return [
            Problem(
                f"{text!r} matches no table",
                line=self._config.line_of("rules", number, "include", place),
                key="[[rules]] include",
                nearest=_nearest_table(text, present),
            )
            for number, rule in enumerate(self._config.rules)
            for place, text in enumerate(rule.include)
            if not any(Pattern.parse(text).matches(table) for table in present)
        ]

    def unseen(self, tables: Iterable[TableId]) -> tuple[TableId, ...]:
        """Return what include patterns name that match none of the source's tables, as `place_of` has it."""
        present = list(tables)
        texts = [text for rule in self._config.rules for text in rule.include]
        lost = (text for text in texts if not any(Pattern.parse(text).matches(table) for table in present))
        return tuple(dict.fromkeys(place for text in lost if (place := place_of(text))))

    def left_to_tools(self, tables: Iterable[TableId]) -> list[TableId]:
        """Return tables that a rule includes, and that are left out because a tool for online changes works with them."""
        found = (decided(self._config, table) for table in sorted(tables) if self.ghosts.pattern_of(table))
        return [one.table for one in found if one.by is not None and one.by.key == KEY]

    def contradictions(self, tables: Collection[TableId]) -> list[Contradiction]:
        """Return where one rule takes something from another, among all of the source's tables."""
        return contradictions(self._config, tables)

    def unused_types(self, tables: Iterable[TableSchema]) -> list[str]:
        """Return patterns of [types.map] that match no column of these tables."""
        return self._types.unused(column for schema in tables for column in schema.columns)

    def dropped(self, table: TableId) -> tuple[str, ...]:
        """Return source columns that the job leaves out."""
        entry = self._entries.get(table)
        return tuple(entry.columns.drop) if entry else ()

    def left_out(self, schema: TableSchema) -> tuple[str, ...]:
        """Return source columns that the target is without: the job leaves them out, or they came later and were ignored."""
        return (*self.dropped(schema.id), *schema.left_out)

    def has_filter(self, table: TableId) -> bool:
        """Return whether the job leaves rows of the table out."""
        entry = self._entries.get(table)
        return entry is not None and entry.where is not None

    def refused(self, schema: TableSchema) -> list[Column]:
        """Return columns whose type cannot be replicated, that the target does not compute and that the job does not drop."""
        left = {*self.left_out(schema), *(c.name for c in schema.computed if c.name not in schema.primary_key)}
        return [column for column in schema.columns if column.type is None and column.name not in left]

    def target_table(self, schema: TableSchema) -> TargetTable:
        """Return the table as it is at the target. Generated columns are copied as plain ones, where the target does
        not compute them.

        Raises ConfigError where the job's settings do not fit the definition, SchemaError for refused types.
        """
        target = self.target_of(schema.id)
        if target is None:
            raise self.not_replicated(schema.id)
        self._check_columns(schema)
        if refused := self.refused(schema):
            raise _refused_columns(schema.id, refused)
        dropped = self.left_out(schema)
        if keys := sorted(set(schema.left_out) & set(schema.primary_key)):
            raise _key_left_out(schema.id, keys[0], self.keeps_changes)
        chosen = entry.columns.type if (entry := self._entries.get(schema.id)) else {}
        keyed = schema.keyed
        kept = [
            (column.name, self._types.of(column, chosen.get(column.name, ""), column.name in keyed))
            for column in schema.columns
            if column.name not in dropped and column.type
        ]
        renames = self._renames(schema.id)
        computed = [column.name for column in schema.computed if column.name not in dropped]
        if here := self._computed_there(schema, dict(kept)):
            kept, computed = [pair for pair in kept if pair[0] not in here], [*computed, *here]
        names = {name: renames.get(name, name) for name, _ in kept}
        return TargetTable(
            source=schema.id,
            target=target,
            columns=tuple(names.values()),
            types=tuple(_types(kept)),
            key=tuple(names[name] for name in schema.primary_key),
            source_columns=tuple(names),
            computed=tuple((name, renames.get(name, name)) for name in computed),
        )

    def instances(self, schema: TableSchema, strict: bool = False) -> tuple[TargetTable, ...]:
        """Return the table once for each change table that it has, in the order of the job file. Raises ConfigError as
        `target_table`; `strict`: also for columns of an instance that the table does not have."""
        table, entry = self.target_table(schema), self._entries.get(schema.id)
        named = entry.instances if entry else []
        if strict and entry and (unfit := list(unfit_columns(table, named))):
            problems = [self._at(entry, text, "instances") for text in unfit]
            raise ConfigError(f"the instances of {schema.id} do not fit the table", problems=problems)
        return instances_of(table, named)

    def computed_types(self, schema: TableSchema, table: TargetTable) -> dict[str, LogicalType]:
        """Return the columns that the target computes though rows of the source have their values: source name and type."""
        types = {name: self._types.of(schema.column(name)) for name, _ in table.computed}
        return {name: type for name, type in types.items() if type is not None}

    def _computed_there(self, schema: TableSchema, types: Mapping[str, LogicalType | None]) -> list[str]:
        """Return the generated columns that are computed at the target, though rows have their values: of columns that all
        stand there as they are. One that says which row is newer, or is part of a key, has to be written; a change table
        has all of them as they were."""
        if self.keeps_changes:
            return []
        entry, renames = self._entries.get(schema.id), self._renames(schema.id)
        written = {*schema.primary_key, entry.newest_by if entry else None}

        def is_as_it_is(name: str) -> bool:
            type = types.get(name)
            return type is not None and not type.target and renames.get(name, name) == name

        return [
            column.name
            for column in schema.columns
            if column.generated and column.name not in written
            if all(map(is_as_it_is, (column.name, *schema.named_by(column))))
            if not self._target.why_not_computed(column, schema, self.values)
        ]

    def where(self, schema: TableSchema) -> Filter | None:
        """Return the table's filter, None where every row passes. Raises ConfigError for one that does not fit."""
        entry = self._entries.get(schema.id)
        if entry is None or entry.where is None:
            return None
        from anabranch.rules.expressions import columns_of  # as above

        try:
            named = columns_of(entry.where, [c.name for c in schema.columns])
            self._refuse_json(schema, named)
            return Filter(entry.where, named)
        except ValueError as error:
            raise ConfigError(f"the filter of {schema.id} cannot be used", problems=[self._at(entry, error)]) from None

    def _refuse_json(self, schema: TableSchema, named: Iterable[str]) -> None:
        """Refuse a filter over arrays and composites that a load has as JSON, and the stream as the source prints them."""
        for name in named:
            form = json_texts.wanted(schema.column(name).type, self.values)
            if name not in schema.keyed and form is not TextForm.OF_KIND:
                what, option = ("an array", "arrays") if form is TextForm.JSON_ARRAY else ("a composite", "composites")
                raise ValueError(
                    f'column {name} is {what}, by which no filter goes where [target.options] {option} is "json"'
                )

    def on_conflict(self, schema: TableSchema) -> ConflictPolicy:
        """Return the policy for the table's conflicts. Raises ConfigError for a `newest_by` that does not fit the table."""
        entry = self._entries.get(schema.id)
        if self._config.pair is not None:
            return self._in_pair(self._config.pair, entry, schema)
        if entry is None or entry.on_conflict is None:
            return ConflictPolicy(OnConflict(self._config.apply.on_conflict))
        if entry.newest_by is None:
            return ConflictPolicy(OnConflict(entry.on_conflict))
        if problem := self._unfit(entry, entry.newest_by, schema):
            at = self._at(entry, problem, "newest_by")
            raise ConfigError(f"the settings of {schema.id} do not fit the table", problems=[at])
        column = self._renames(schema.id).get(entry.newest_by, entry.newest_by)
        return ConflictPolicy(OnConflict(entry.on_conflict), column)

    def _in_pair(self, pair: Pair, entry: TableEntry | None, schema: TableSchema) -> ConflictPolicy:
        """Return the policy for a table that both ends write."""
        name = (entry.newest_by if entry else None) or pair.newest_by
        problem = self._unfit(entry, name, schema, RISING)
        if not problem and schema.column(name).nullable:
            problem = f"{name} may be NULL, and a row without it is neither newer nor older than another"
        if problem:
            at = Problem(problem, line=self._config.line_of("pair", "newest_by"), key="[pair] newest_by")
            where = "newest_by in its [[tables]] entry names another column"
            raise ConfigError(f"the settings of [pair] do not fit {schema.id}", problems=[at], hint=where)
        renames, delta = self._renames(schema.id), entry.delta if entry else []
        for one in delta:
            if entry and (problem := self._no_sum(entry, one, name, schema)):
                at = self._at(entry, problem, "delta")
                raise ConfigError(f"the settings of {schema.id} do not fit the table", problems=[at])
        wins = entry.wins if entry else None
        return ConflictPolicy(
            OnConflict.NEWEST,
            renames.get(name, name),
            pair=True,
            target_wins_ties=(wins or pair.winner) != pair.site,
            target_stays=wins == pair.other,
            delta=tuple(renames.get(one, one) for one in delta),
            deletes=pair.deletes == "newest",
            alters=pair.ddl_from is not None,
        )

    def _no_sum(self, entry: TableEntry, name: str, newest_by: str, schema: TableSchema) -> str:
        """Say why a column of a pair cannot be added up; "" if it can."""
        if name not in {column.name for column in schema.columns}:
            return f"the table has no column {name}"
        column = schema.column(name)
        if name == newest_by or name in schema.primary_key:
            return f"{name} says which row it is, or which is newer, and cannot be added up"
        type_ = self._types.of(column, entry.columns.type.get(name, ""))
        if (
            type_ is None
            or type_.carried not in SUMMED
            or type_.kind not in SUMMED
            or (column.type and column.type.printed)
        ):
            return f"{name} is {column.native}: only whole numbers and decimals of a fixed scale can be added up"
        return f"{name} may be NULL, which has no sum" if column.nullable else ""

    def _unfit(
        self, entry: TableEntry | None, name: str, schema: TableSchema, printed: Collection[Kind] = frozenset()
    ) -> str:
        """Say why the column cannot tell which row is newest; "" if it can. `printed`: kinds that also do as their source
        prints them."""
        known = [column.name for column in schema.columns]
        if name not in known:
            nearest = "".join(f"; did you mean {n}?" for n in get_close_matches(name, known, 1))
            return f"the table has no column {name}{nearest}"
        if name in self.left_out(schema):
            return f"{name} is left out, so the target cannot tell which row is newest"
        if not schema.primary_key:
            return "the table has no primary key, so there is no one row to compare with"
        column = schema.column(name)
        type_ = self._types.of(column, entry.columns.type.get(name, "") if entry else "")
        if type_ is not None and type_.at_target.sorts_as_text:
            return f"{name} is {type_.target} at the target, which sorts as text"
        if type_ is not None and type_.kind in printed:
            return ""
        is_ordered = type_ is not None and not printed and type_.carried in ORDERED
        return "" if is_ordered else f"{name} is no number, date or time: {column.native}"

    def _renames(self, table: TableId) -> Mapping[str, str]:
        entry = self._entries.get(table)
        return entry.columns.rename if entry else {}

    def _at(self, entry: TableEntry, error: object, *path: str) -> Problem:
        number = self._config.tables.index(entry)
        path = path or ("where",)
        return Problem(
            str(error), line=self._config.line_of("tables", number, *path), key=f"[[tables]] {'.'.join(path)}"
        )

    def _check_filters(self) -> None:
        problems = []
        for entry in self._entries.values():
            try:
                if entry.where is not None:
                    check_filter(entry.where)
            except ValueError as error:
                problems.append(self._at(entry, error))
        if problems:
            raise ConfigError("a filter cannot be used", problems=problems)

    def _check_columns(self, schema: TableSchema) -> None:
        entry = self._entries.get(schema.id)
        if entry is None:
            return
        found = [*_unknown_columns(entry, schema), *_dropped_keys(entry, schema), *_doubled_names(entry, schema)]
        if found:
            problems = [self._at(entry, text, *path) for path, text in found]
            raise ConfigError(f"the settings of {schema.id} do not fit the table", problems=problems)


def _patterns(texts: Iterable[str]) -> tuple[Pattern, ...]:
    return tuple(Pattern.parse(text) for text in texts)


def _types(columns: Iterable[tuple[str, LogicalType | None]]) -> Iterator[LogicalType]:
    yield from (type for _, type in columns if type is not None)


def _shared(targets: Mapping[TableId, TableId]) -> Iterator[str]:
    sources: dict[TableId, list[str]] = {}
    for source, target in targets.items():
        sources.setdefault(target, []).append(str(source))
    yield from (f"{target} would get {', '.join(names)}" for target, names in sources.items() if len(names) > 1)


def _nearest_table(pattern: str, tables: list[TableId]) -> str:
    return "".join(get_close_matches(pattern, [str(table) for table in tables], 1))


def _refused_columns(table: TableId, columns: list[Column]) -> SchemaError:
    names = text_of([column.name for column in columns])
    reasons = "; ".join(f"{c.name} {c.native}: {c.refusal or 'not in the type map'}" for c in columns)
    hint = f"leave them out: [[tables]] name = {text_of(str(table))}, columns = {{ drop = {names} }}"
    return SchemaError(f"columns cannot be replicated: {reasons}", table=str(table), hint=hint)


def _key_left_out(table: TableId, name: str, keeps_changes: bool) -> ConfigError:
    hint = ANEW if keeps_changes else f"anabranch load JOB --table {table.typed} --recreate takes it in"
    return ConfigError(f"{name} of {table} was left out when it came, and belongs to the primary key now", hint=hint)


def _unknown_columns(entry: TableEntry, schema: TableSchema) -> Iterator[tuple[tuple[str, ...], str]]:
    known = [column.name for column in schema.columns]
    columns = entry.columns
    for what, names in (
        ("drop", columns.drop),
        ("rename", list(columns.rename)),
        ("type", list(columns.type)),
        ("zero_date", list(columns.zero_date)),
    ):
        for name in names:
            if name not in known:
                nearest = "".join(f"; did you mean {n}?" for n in get_close_matches(name, known, 1))
                yield ("columns", what), f"the table has no column {name}{nearest}"


def _dropped_keys(entry: TableEntry, schema: TableSchema) -> Iterator[tuple[tuple[str, ...], str]]:
    for name in schema.primary_key:
        if name in entry.columns.drop:
            yield ("columns", "drop"), f"{name} belongs to the primary key and cannot be left out"


def _doubled_names(entry: TableEntry, schema: TableSchema) -> Iterator[tuple[tuple[str, ...], str]]:
    seen: dict[str, str] = {}
    for column in schema.columns:
        if column.left_out or column.name in entry.columns.drop:
            continue
        name = entry.columns.rename.get(column.name, column.name)
        if name in seen:
            yield ("columns", "rename"), f"{seen[name]} and {column.name} would both be called {name}"
        seen[name] = column.name

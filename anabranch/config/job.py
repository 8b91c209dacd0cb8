"""The job file as one pydantic model of its sections (`sections/`), and what is read from several of them together.

Values are checked one by one with their section; `reading.py` finds the lines, `patterns.py` and `url.py` know the small
languages inside. What does not live here: anything that needs a database to be checked (preflight).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, PrivateAttr, model_validator

from anabranch.config.changes import with_options
from anabranch.config.hops import Hop, hop_of, misfits_of_hop
from anabranch.config.lines import Path as KeyPath
from anabranch.config.lines import line_of
from anabranch.config.section import Section, refuse
from anabranch.config.sections.apply import STRICT, Apply
from anabranch.config.sections.capture import Capture
from anabranch.config.sections.compat import Compat
from anabranch.config.sections.cutover import Cutover
from anabranch.config.sections.ddl import ADDITIVE, IN_MESSAGES, Ddl
from anabranch.config.sections.load import Load
from anabranch.config.sections.metrics import Metrics
from anabranch.config.sections.observe import Observe
from anabranch.config.sections.pair import Pair, refuse_changes, refuse_misfits, refuse_sums
from anabranch.config.sections.retry import Retry
from anabranch.config.sections.reverse import Reverse
from anabranch.config.sections.rules import Rule
from anabranch.config.sections.source import Source
from anabranch.config.sections.spark import Spark
from anabranch.config.sections.tables import TableEntry
from anabranch.config.sections.target import CHANGE_TABLES, NamedTarget, Target
from anabranch.config.sections.trace import Trace
from anabranch.config.sections.trail import Trail
from anabranch.config.sections.types_at_target import Types
from anabranch.config.values import JobName
from anabranch.databases import SOURCE, TARGET, Options, registry
from anabranch.errors import Problem
from anabranch.model.column_changes import APPLY, Actions, ColumnChange, TableActions
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.markers import jobs_among
from anabranch.model.way_back_names import name_of

# Options of these names choose a target's type for the kind, or whether it computes a column.
TYPE_CHOICES = ("json", "geometry", "vector", "uuid", "instant", "computed", "arrays", "composites")
ONLY = "target"  # what the database in [target] is called among several


class JobConfig(Section):
    """A job: one source, one target or several, rules, settings."""

    name: JobName
    """The job's name; its home is `$ANABRANCH_HOME/<name>`, by default `./.anabranch/<name>`."""
    source: Source
    target: Target | None = None
    targets: list[NamedTarget] = []
    rules: list[Rule] = Field(min_length=1)
    tables: list[TableEntry] = []
    # Defaults are not validated: that would build a validator of each section beside the one of the whole.
    load: Load = Load.model_construct()
    capture: Capture = Capture.model_construct()
    ddl: Ddl = Ddl.model_construct()
    apply: Apply = Apply.model_construct()
    types: Types = Types.model_construct()
    spark: Spark = Spark.model_construct()
    retry: Retry = Retry.model_construct()
    trace: Trace = Trace.model_construct()
    trail: Trail = Trail.model_construct()
    metrics: Metrics = Metrics.model_construct()
    observe: Observe = Observe.model_construct()
    compat: Compat = Compat.model_construct()
    cutover: Cutover = Cutover.model_construct()
    reverse: Reverse = Reverse.model_construct()
    pair: Pair | None = None

    _home: Path = PrivateAttr(default=Path(".anabranch"))
    _file: Path | None = PrivateAttr(default=None)
    _lines: dict[KeyPath, int] = PrivateAttr(default_factory=dict)
    _former: dict[KeyPath, KeyPath] = PrivateAttr(default_factory=dict)
    _unused: tuple[tuple[str, str], ...] = PrivateAttr(default=())

    @model_validator(mode="after")
    def _pair_fits(self) -> Self:
        if self.pair is not None:
            several = bool(self.targets)
            refuse_misfits(self.pair, self.name, self.source, several, self.apply, self.load, self.tables)
            refuse_changes(self.pair, self.ddl)
        else:
            refuse_sums(self.tables)
        return self

    @model_validator(mode="after")
    def _relaxed_fits(self) -> Self:
        if self.apply.commit_order == "relaxed":
            misfits = [entry for entry in self.tables if entry.on_conflict not in (None, "stop")]
            what = '[apply] commit_order = "relaxed" with on_conflict'
            if misfits:
                raise refuse(
                    *(Problem(f'{what} = "{one.on_conflict}" of {one.id}', expected=STRICT) for one in misfits)
                )
        return self

    @model_validator(mode="after")
    def _changes_fit(self) -> Self:
        for number, one in enumerate(self.targets):
            if _keeps_changes(one.endpoint):
                what = f"[[targets]] {number + 1} is {one.endpoint.scheme}://, which keeps changes and no rows"
                raise refuse(Problem(what, expected="a job of its own for it, with [target]"))
        if not self.has_change_tables and (named := [str(entry.id) for entry in self.tables if entry.instances]):
            what = f"[[tables]] instances of {', '.join(named)}"
            raise refuse(Problem(what, expected=f'[target] form = "{CHANGE_TABLES}", whose tables they are'))
        if self.compat.attunity and not self.has_change_tables:
            raise refuse(Problem("[compat] attunity", expected=f'[target] form = "{CHANGE_TABLES}" beside it'))
        if self.keeps_changes and (misfits := list(self._misfits_of_changes())):
            beside = self.kept_changes
            raise refuse(*(Problem(f"{what} beside {beside}", expected=expected) for what, expected in misfits))
        return self

    def _misfits_of_changes(self) -> Iterator[tuple[str, str]]:
        """Yield what a job that keeps changes cannot have, and what it can."""
        if self.target and self.has_change_tables and _keeps_changes(self.target.endpoint):
            yield "[target] url", "a database that keeps tables"
        alone = "nothing of the kind: rows of the target are changes, which nobody merges or writes back"
        if self.targets:
            yield "[[targets]]", "one target"
        if self.pair is not None:
            yield "[pair]", alone
        if self.reverse.enabled:
            yield "[reverse] enabled", alone
        if self.load.existing != "refuse":
            yield f'[load] existing = "{self.load.existing}"', "nothing: there is no load"
        if self.apply.on_conflict != "stop" or any(entry.on_conflict not in (None, "stop") for entry in self.tables):
            yield "on_conflict", alone
        if self.apply.on_error != "stop":
            yield f'[apply] on_error = "{self.apply.on_error}"', '"stop": readers would miss what comes later'
        if self.apply.mode != "epoch":
            yield f'[apply] mode = "{self.apply.mode}"', '"epoch": each change has the place of its transaction anyway'
        if self.apply.appliers > 1:
            yield f"[apply] appliers = {self.apply.appliers}", "1: changes are kept in their order over one session"
        if self.types.nul == "strip" and self.target and self.target.options.has_first_rows:
            yield '[types] nul = "strip"', '"stop" with an initial load: the changes that follow keep zero characters'
        if self.has_messages:
            yield from self.ddl.beyond_messages()
            return
        yield from self.ddl.beyond_change_tables()

    @model_validator(mode="after")
    def _hop_fits(self) -> Self:
        if found := list(misfits_of_hop(self)):
            raise refuse(*(Problem(what, expected=expected) for what, expected in found))
        return self

    @property
    def hop(self) -> Hop | None:
        """Return which part of a way this job is: the one into a trail, or the one out of it; None for a whole way."""
        return hop_of(self)

    @property
    def keeps_changes(self) -> bool:
        """Return whether the target keeps changes and no rows."""
        return self.target is not None and (self.has_change_tables or _keeps_changes(self.target.endpoint))

    @property
    def has_change_tables(self) -> bool:
        """Return whether the target keeps changes as rows of tables."""
        return self.target is not None and self.target.form == CHANGE_TABLES

    @property
    def has_messages(self) -> bool:
        """Return whether the target keeps changes as messages."""
        return self.keeps_changes and not self.has_change_tables

    @property
    def kept_changes(self) -> str:
        """Say what in the file makes the target keep changes."""
        if self.target is None or self.has_change_tables:
            return f'[target] form = "{CHANGE_TABLES}"'
        return f"[target] url = {self.target.endpoint.scheme}://…"

    @property
    def home(self) -> Path:
        """The job's directory, absolute; whoever needs it makes it."""
        return self._home.absolute() / self.name

    def column_actions(self, table: TableId) -> TableActions:
        """Return what becomes of each kind of change of a table's columns. A job of a pair parks all but what comes by way of
        `[pair] ddl_from`, a way back what its file does not name."""
        found = self.ddl.of(table, self._usual)
        if self.pair is not None and self.pair.is_altered_first:
            return found.made_first("[pair] ddl_from")
        return found

    def followed_changes(self, table: TableId) -> frozenset[ColumnChange]:
        """Return the kinds of changes behind which a table may go on."""
        return self.column_actions(table).followed

    @property
    def is_way_back(self) -> bool:
        """Return whether the job is the way back of one whose rows it leaves out."""
        return any(name_of(job) == self.name for job in jobs_among(self.source.leave_out))

    @property
    def _usual(self) -> Actions:
        """Return what becomes of changes that the file says nothing of."""
        if self.pair is not None and self.pair.ddl_from:
            return {ColumnChange.ADD: APPLY}
        if self.pair or self.is_way_back or self.has_change_tables:
            return {}
        return IN_MESSAGES if self.has_messages else ADDITIVE

    @property
    def followed_anywhere(self) -> frozenset[ColumnChange]:
        """The kinds of changes behind which some table may go on."""
        return frozenset[ColumnChange]().union(*(said.followed for said in self.ddl.every(self._usual)))

    @property
    def followed_everywhere(self) -> frozenset[ColumnChange]:
        """The kinds of changes behind which every table may go on."""
        others, *rules = self.ddl.every(self._usual)
        return others.followed - {kind for rule in rules for kind in rule.actions if kind not in rule.followed}

    @property
    def file(self) -> Path | None:
        """The job file this came from."""
        return self._file

    @property
    def ends(self) -> dict[str, Endpoint]:
        """The targets by their names; that of `[target]` is ONLY."""
        alone = {ONLY: self.target.endpoint} if self.target else {}
        return alone | {one.name: one.endpoint for one in self.targets}

    def target_options(self, name: str = "") -> Options:
        """Return the options of the target of this name; the first one's for "", where it is about the job as a whole."""
        every = ({ONLY: self.target.options} if self.target else {}) | {one.name: one.options for one in self.targets}
        return every[name or next(iter(every))]

    def with_target_options(self, options: Options, name: str = "") -> JobConfig:
        """Return the same job with other options of one target, named as for `target_options`."""
        name, made = name or next(iter(self.ends)), {"options": options}
        if self.target and name == ONLY:
            return self.model_copy(update={"target": self.target.model_copy(update=made)})
        targets = [one.model_copy(update=made) if one.name == name else one for one in self.targets]
        return self.model_copy(update={"targets": targets})

    def emptying(self, target: str = "") -> Literal["truncate", "delete"]:
        """Return how tables of a target are emptied that the source has truncated: as the file says, or as is usual there."""
        end = self.ends[target or next(iter(self.ends))]
        return self.apply.truncate or registry()[end.scheme].empties_by

    def type_choices(self, target: str = "") -> dict[str, Any]:
        """Return what a target's options say of the types for kinds of values, by the names of ValueRules."""
        options = asdict(self.target_options(target))
        return {kind: options[kind] for kind in TYPE_CHOICES if kind in options}

    @property
    def unused(self) -> tuple[tuple[str, str], ...]:
        """Section and key of options that stand where they stood before, and belong to databases that the job has not."""
        return self._unused

    @property
    def zero_dates(self) -> tuple[tuple[str, str, str], ...]:
        """Source table, column, and what becomes of its dates that are none."""
        return tuple(
            (str(entry.id), column, chosen)
            for entry in self.tables
            for column, chosen in entry.columns.zero_date.items()
        )

    def line_of(self, *path: str | int) -> int | None:
        """Return the line of a key in the job file, for messages of later checks."""
        return line_of(self._lines, path)

    def place_of(self, *path: str) -> KeyPath:
        """Return where a key stands in the file: an option may stand where it stood before (options.py)."""
        return self._former.get(path, path)

    def fingerprint(self, target: str = "") -> dict[str, Any]:
        """Return what must not change between starts without a decision (K32): JSON, without secrets."""
        source = self.source.endpoint
        tables = {
            str(entry.id): {
                "drop": sorted(entry.columns.drop),
                "rename": entry.columns.rename,
                "type": entry.columns.type,
                "where": entry.where,
            }
            for entry in self.tables
        }
        found = {
            "source": f"{source.scheme}://{source.place}/{source.database}",
            "rules": [rule.model_dump() for rule in self.rules],
            "tables": tables,
            "types": {"map": self.types.map},
            "ghosts": list(self.ddl.ghosts.patterns),
        }
        if self.has_change_tables:
            found["form"] = CHANGE_TABLES
        return with_options(found, {SOURCE: self.source.options, TARGET: self.target_options(target)})


def _keeps_changes(end: Endpoint) -> bool:
    return registry()[end.scheme].keeps_changes

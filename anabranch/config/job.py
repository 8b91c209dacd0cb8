"""The job file as pydantic models. The text under a field is its entry in the reference page (docs/generate.py reads it).

Values here are checked one by one; `reading.py` finds the lines, `patterns.py` and `url.py` know the small languages
inside. What does not live here: anything that needs a database to be checked (preflight).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import date
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    PrivateAttr,
    ValidationInfo,
    model_validator,
)
from pydantic_core import PydanticCustomError

from anabranch.config.changes import with_options
from anabranch.config.lines import Path as KeyPath
from anabranch.config.lines import line_of
from anabranch.config.patterns import PLACEHOLDERS, Pattern, Template
from anabranch.config.url import parse_url
from anabranch.databases import SOURCE, TARGET, Options, registry
from anabranch.errors import Problem
from anabranch.model.endpoint import EndLimits, Endpoint
from anabranch.model.ids import TableId
from anabranch.model.markers import JOB_NAME, PREFIX

TYPE_CHOICES = (
    "json",
    "geometry",
    "vector",
    "uuid",
    "instant",
    "computed",
    "arrays",
    "composites",
)  # options of that name choose a target's type for the kind, or whether it computes a column
ONLY = "target"  # what the database in [target] is called among several
TARGET_NAME = r"[a-z][a-z0-9_-]{0,30}"
_LIKE_A_JOB = rf"{PREFIX[:-1]}\s*[:./= ]\s*({JOB_NAME})"


def refuse(*problems: Problem) -> PydanticCustomError:
    """Build the error that a validator raises; `reading.py` adds line and key."""
    return PydanticCustomError("refused", "{text}", {"text": "; ".join(map(str, problems)), "problems": problems})


def _endpoint(value: Any, info: ValidationInfo, role: str) -> Endpoint:
    if not isinstance(value, str):
        raise refuse(Problem("is not text", expected="a URL in quotes"))
    env: Mapping[str, str] = (info.context or {}).get("env", {})
    endpoint, problems = parse_url(value, env, needs_database=False, role=role)
    if endpoint is None:
        raise refuse(*problems)
    return endpoint


def _pattern(text: str) -> str:
    try:
        Pattern.parse(text)
    except ValueError as error:
        raise refuse(Problem(f"{text!r} is no table pattern", expected=f'{error}, like "shop.*"')) from None
    return text


def _template(text: str) -> str:
    try:
        Template.parse(text)
    except ValueError as error:
        nearest = next((p for p in PLACEHOLDERS if get_close_matches(p, text.replace(".", "{").split("{"), 1)), "")
        problem = Problem(
            f"{text!r} is no name for a target table",
            expected=f'{error}, like "public.{{table}}"',
            nearest=f"{{{nearest}}}" if nearest and f"{{{nearest}}}" not in text else "",
        )
        raise refuse(problem) from None
    return text


def _table_name(text: str) -> str:
    try:
        TableId.parse(text)
    except ValueError:
        raise refuse(Problem(f"{text!r} names no table", expected='schema.table, like "shop.customers"')) from None
    return text


def _job_name(text: str) -> str:
    if not re.fullmatch(JOB_NAME, text):
        expected = "1 to 63 letters, digits, '_' or '-', beginning with a letter or digit (it names a directory)"
        raise refuse(Problem(f"{text!r} cannot be a job's name", expected=expected))
    return text


def _origin(text: str) -> str:
    job = text.removeprefix(PREFIX)
    expected = f'"{PREFIX}NAME" for what the job NAME has written, or an origin that the log names'
    if not text.strip() or text != text.strip():
        raise refuse(Problem(f"{text!r} names no origin", expected=expected))
    if text.startswith(PREFIX) and not re.fullmatch(JOB_NAME, job):
        raise refuse(Problem(f"{job!r} cannot be a job's name", expected=expected))
    if not text.startswith(PREFIX) and (found := re.fullmatch(_LIKE_A_JOB, text, re.IGNORECASE)):
        raise refuse(Problem(f"{text!r} names no origin", expected=expected, nearest=f"{PREFIX}{found[1]}"))
    return text


def _target_name(text: str) -> str:
    if not re.fullmatch(TARGET_NAME, text):
        expected = "1 to 31 small letters, digits, '_' or '-', beginning with a letter (it names a directory)"
        raise refuse(Problem(f"{text!r} cannot be a target's name", expected=expected))
    return text


def _zero_date(text: str) -> str:
    if text not in ("stop", "null", "-infinity", "infinity"):
        try:
            if date.fromisoformat(text).isoformat() != text:
                raise ValueError
        except ValueError:
            expected = '"stop", "null", "-infinity", "infinity" or a date like "0001-01-01"'
            raise refuse(Problem(f"{text!r} is no date", expected=expected)) from None
    return text


def _not_newest(value: Any) -> Any:
    if value == "newest":
        raise refuse(Problem("'newest' compares a column of one table", expected="it in [[tables]], with newest_by"))
    return value


def _settings(value: Any) -> Any:
    """Return settings as text with dotted names.

    `spark.executor.memory = "4g"` without quotes around the name is nested tables in TOML.
    """
    return dict(_flat("", value)) if isinstance(value, dict) else value


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(f"{prefix}.{key}" if prefix else key, inner)
    elif isinstance(value, str | bool | int | float):
        yield prefix, value if isinstance(value, str) else str(value).lower()
    else:
        raise refuse(Problem(f"{prefix} is not a setting", expected='text, like "4g"'))


def _source_url(value: Any, info: ValidationInfo) -> Endpoint:
    return _endpoint(value, info, "source")


def _checked(value: Any) -> Options:
    assert isinstance(value, Options), "options.py makes them before the whole is checked"
    return value


def _target_url(value: Any, info: ValidationInfo) -> Endpoint:
    return _endpoint(value, info, "target")


SourceUrl = Annotated[Endpoint, PlainValidator(_source_url, json_schema_input_type=str), PlainSerializer(str)]
TargetUrl = Annotated[Endpoint, PlainValidator(_target_url, json_schema_input_type=str), PlainSerializer(str)]
OwnOptions = Annotated[  # of the database's own class, made by options.py
    Options, PlainValidator(_checked, json_schema_input_type=dict[str, Any]), PlainSerializer(asdict)
]
PatternText = Annotated[str, AfterValidator(_pattern)]


class Section(BaseModel):
    model_config = ConfigDict(
        defer_build=True,
        extra="forbid",
        frozen=True,
        strict=True,
        hide_input_in_errors=True,
        populate_by_name=True,
        arbitrary_types_allowed=True,
    )


class Source(Section):
    """The database that is read."""

    endpoint: SourceUrl = Field(alias="url")
    """`mysql://` or `mariadb://user:${PASSWORD}@host:port`, `postgresql://user:${PASSWORD}@host:port/database`. `${NAME}` is
    an environment variable, put in after the URL is cut into parts and taken literally. Options go into the query: `ssl_ca`,
    `ssl_cert`, `ssl_key`, `ssl_mode`, `unix_socket`."""
    leave_out: list[Annotated[str, AfterValidator(_origin)]] = []
    """Origins whose transactions are not replicated: `"anabranch:NAME"` for what the job NAME writes to this source, so that
    two jobs may go opposite ways between the same tables ([both ways](../howto/replicate-both-ways.md)). Also origins that
    the log itself names: a replication origin of PostgreSQL (with `pgoutput`), a `server_id` or the uuid of a GTID's source
    of MySQL and MariaDB. All others pass. It may be changed at any time; `capture` has to start again."""
    options: OwnOptions = Options()
    """Settings of the database that `url` names: `[source.options]`, below."""


class Target(Section):
    """The database that is written. A job of one target has this section, or one entry of `[[targets]]`."""

    endpoint: TargetUrl = Field(alias="url")
    """`postgresql://user:${PASSWORD}@host:port/database`, `mysql://` or `mariadb://user:${PASSWORD}@host:port`; variables and
    options as for the source. A MySQL or MariaDB is one target as a whole, however many databases tables go to."""
    options: OwnOptions = Options()
    """Settings of the database that `url` names: `[target.options]`, below."""


class NamedTarget(Section):
    """Databases that are written from one trail, each at its own pace. All other settings hold for every one of them."""

    name: Annotated[str, AfterValidator(_target_name)]
    """What commands and status call it: small letters, digits, `_`, `-`. `target` is the name of the one in `[target]`,
    beside which these may stand."""
    endpoint: TargetUrl = Field(alias="url")
    """As in `[target]`. A database of a PostgreSQL, or a server of MySQL or MariaDB, is one target of a job."""
    options: OwnOptions = Options()
    """As in `[target]`: `[targets.options]` below its entry."""


class Rule(Section):
    """Tables to replicate, and their target. At least one rule; of several that match, the first gives the target."""

    include: list[PatternText] = Field(min_length=1)
    """Case-sensitive globs on `schema.table` (MySQL: `database.table`). A part in double quotes is taken literally."""
    exclude: list[PatternText] = []
    """Globs of tables that are left out, whatever another rule says. Preflight warns of tables that another rule includes, and
    names both rules."""
    target: Annotated[str, AfterValidator(_template)] = "{schema}.{table}"
    """The target table's name, with `{schema}` and `{table}` of the source. Missing target schemas are created."""


class Columns(Section):
    """Changes to a table's columns."""

    drop: list[str] = []
    """Columns that are not replicated."""
    rename: dict[str, str] = {}
    """Source column -> target column."""
    type: dict[str, str] = {}
    """Source column -> target type, as in `[types.map]`, over which it takes precedence."""
    zero_date: dict[str, Annotated[str, AfterValidator(_zero_date)]] = {}
    """Source column -> what to write for its invalid dates, as `[types] zero_date`, over which it takes precedence."""

    @model_validator(mode="after")
    def _no_contradiction(self) -> Self:
        for names, what in ((self.rename, "renamed"), (self.type, "given a type")):
            both = sorted(set(self.drop) & set(names))
            if both:
                raise refuse(Problem(f"{', '.join(both)}: dropped and {what}", expected="one of the two"))
        return self


class TableEntry(Section):
    """Settings of one table. Optional, several."""

    name: Annotated[str, AfterValidator(_table_name)]
    """The source table, exactly, as `schema.table`."""
    columns: Columns = Columns.model_construct()
    where: str | None = Field(default=None, min_length=1)
    """Spark SQL condition over source columns: only rows for which it is true are replicated. It uses key columns only,
    or the source logs full row images."""

    on_conflict: Literal["stop", "source_wins", "target_wins", "ignore_missing", "newest"] | None = None
    """Settle a change whose row is not as expected at the target: it is missing, or it is already there.
    `[apply] on_conflict` when absent. `newest` compares `newest_by`, and keeps the target's row where it is later."""
    newest_by: str | None = Field(default=None, min_length=1)
    """The source column that says how new a row is, for `on_conflict = "newest"`: a number, a date or a time."""

    @model_validator(mode="after")
    def _newest_by_a_column(self) -> Self:
        if self.on_conflict == "newest" and self.newest_by is None:
            raise refuse(
                Problem('on_conflict = "newest" needs newest_by', expected='a column, like newest_by = "changed_at"')
            )
        if self.on_conflict != "newest" and self.newest_by is not None:
            raise refuse(Problem("newest_by has no effect", expected='it together with on_conflict = "newest"'))
        return self

    @property
    def id(self) -> TableId:
        return TableId.parse(self.name)


class Load(Section):
    """The initial load."""

    parallel: int = Field(default=4, ge=1, le=1024)
    """Chunks that are copied at the same time."""
    existing: Literal["refuse", "empty", "keep", "take_over"] = "refuse"
    """What to do with target tables that hold rows: refuse to start, empty them, or keep the rows: for tables that several
    jobs write to, each its own keys. `take_over`: the tables have the source's rows already, and nothing is ever loaded;
    `anabranch arm` lets such a job begin ([the way back](../howto/migrate-with-a-way-back.md))."""
    lock: Literal["none", "table", "global"] = "none"
    """A short read lock at the source where nothing else gives a consistent snapshot (no key; no GTIDs; XA on MariaDB)."""
    format: Literal["auto", "text"] = "auto"
    """How rows travel: `auto` passes those of a table on unread, in the databases' own binary form, where both ends have one
    for all its columns ([which do](../explanation/initial-load.md#rows-that-nobody-reads)); `text` never does."""
    defer_constraints: bool = False
    """Take unique and foreign keys off existing target tables for the load and put them back after it."""


class Capture(Section):
    """Reading the source's log into the trail."""

    decoding: Literal["auto", "python", "native"] = "auto"
    """Choose the decoder that capture uses for the source's log: the compiled one (`native`, which has to be installed:
    [the compiled decoder](../explanation/native-decoder.md)), the one in Python, or `auto`, the compiled one where it is
    there. Both make the same of every log; it may be changed at any time. Of a PostgreSQL it is what `pgoutput` gives as text;
    other decoders' messages, and values in binary form, are Python's."""
    flush_interval_ms: int = Field(default=1000, ge=10, le=60000)
    """The longest a committed transaction waits for its flush; under load flushes come one after another."""
    segment_mb: int = Field(default=64, ge=1, le=4096)
    """Size at which a segment of the trail is sealed."""
    retain_hours: int = Field(default=24, ge=0)
    """How long a segment stays after everything in it was applied."""
    retain_mb: int | None = Field(default=None, ge=0)
    """No more than this of such segments, however young. What is not applied, or held for a table, is never counted."""
    retain_segments: int | None = Field(default=None, ge=0)
    """No more such segments than this, however young."""
    memory_limit_mb: int = Field(default=50, ge=1)
    """Memory for rows of transactions that are open; beyond it the largest go to disk, beside the trail. Without effect on
    MySQL and MariaDB, whose logs have a transaction when it is committed or prepared, and without `streaming`."""
    transaction_staging_timeout_s: int = Field(default=120, ge=1)
    """How long rows of an open transaction stay in memory only; then they go to disk, beside the trail, however few they are.
    Without effect on MySQL and MariaDB, and without `streaming`, as `memory_limit_mb`."""
    staging_timeout_s: int = Field(default=120, ge=1)
    """How long a trail that begins, or a table that joins, waits for older transactions that are prepared at the source (XA)
    and undecided."""


class Apply(Section):
    """Bringing the trail to the target."""

    mode: Literal["epoch", "transaction"] = "epoch"
    """One target transaction per epoch (many source transactions), or one per source transaction."""
    truncate: Literal["truncate", "delete"] | None = None
    """How a TRUNCATE is done at the target; `delete` keeps it invisible to older snapshots until it commits. When absent:
    `truncate` at a PostgreSQL, `delete` at a MySQL or MariaDB, where TRUNCATE commits by itself
    ([more](../howto/mysql-as-a-target.md#truncate))."""
    triggers: Literal["refuse", "fire"] = "refuse"
    """Refuse triggers at a target where no session can switch them off (MySQL, MariaDB): preflight names the tables that have
    some. Or let them fire for what the job writes ([more](../howto/prepare-a-mysql-target.md#triggers))."""
    on_conflict: Annotated[
        Literal["stop", "source_wins", "target_wins", "ignore_missing"], BeforeValidator(_not_newest)
    ] = "stop"
    """Settle a change whose row is not as expected at the target, in tables whose entry does not say: stop with
    the row's key; write the source's row; keep the target's; or leave out what changes a missing row."""
    on_error: Literal["stop", "park", "set_aside"] = "stop"
    """Decide about a row that the target refuses, or that has a value which cannot be converted: stop the job with the row's
    key; park its table, with all tables that foreign keys connect it with, while the others go on; or set the row aside, and
    park only where that cannot be. Parked
    tables are resumed by `anabranch parked resume`, rows that are set aside by `anabranch parked release`."""
    set_aside_limit: int = Field(default=1000, ge=1)
    """How many changes of a table may be set aside. One more parks it."""
    runner: Literal["streaming", "continuous"] = "streaming"
    """Choose what starts an epoch: Spark's Structured Streaming, in batches that last while the trail brings more; or one
    thread of apply that watches the trail continuously, with the shortest delay; Spark starts when an epoch has work for it."""
    stage_rows: int | None = Field(default=None, ge=1)
    """Row images of an epoch from which executors stage it. When absent: 250,000 of updates and deletes, as was measured."""


class Types(Section):
    """Decisions about values that the target cannot hold."""

    zero_date: Annotated[str, AfterValidator(_zero_date)] = "stop"
    """Treat an invalid date (0000-00-00, 2024-00-15): `"stop"` with the row's key, write NULL (`"null"`), or the
    date that stands for it, at midnight UTC: `"0001-01-01"`, `"-infinity"`, `"infinity"`. In a primary key only an infinite
    date is accepted, and only for 0000-00-00, because two rows must not become one. For one column:
    `[[tables]] columns.zero_date`."""
    nul: Literal["stop", "strip"] = "stop"
    """A NUL character in text: stop with the row's key, or leave the character out."""
    map: dict[str, str] = {}
    """Source type -> target type, instead of the type map's: `"tinyint(1)" = "boolean"`. The left side is the type as
    the source spells it, or its name alone, or a glob on either; the exact spelling wins, then the first. `"numeric()"`
    are those that have no sizes. Which types there are for a type: the [type table](types.md#types-of-your-own-choice)."""


class Spark(Section):
    """Settings of Spark, which runs the data pipeline."""

    master: str = Field(default="local[*]", min_length=1)
    """Spark's master URL."""
    conf: Annotated[dict[str, str], BeforeValidator(_settings)] = Field(default={}, repr=False)
    """Spark settings, by their own names: `"spark.executor.memory" = "4g"`."""


class RetryEnd(Section):
    """Time limits towards one end."""

    connect_s: int = Field(default=10, ge=1, le=3600)
    """How long opening a connection may take, to each address that a name stands for; PostgreSQL's takes 2 at least."""
    statement_s: int = Field(default=-1, ge=-1, le=86400)
    """How long a statement may take; then it is ended and tried again; -1: without limit. It does not hold for what copies or
    compares rows, prepares the source, or builds indexes."""
    silence_s: int = Field(default=30, ge=5, le=3600)
    """After so long without an answer, also to a second connection, the end counts as away: the line is cut."""
    interval_s: int | None = Field(default=None, ge=1, le=3600)
    """The longest pause between two tries; pauses begin short and double. When absent: 1 in capture, 10 elsewhere."""
    give_up_s: int | None = Field(default=None, ge=-1)
    """How long an end that was reached and is away is tried again until the part ends with its error; -1: for ever. When
    absent: 300, and for a target under `run` without `--until-caught-up` for ever."""
    limit: int = Field(default=-1, ge=-1, le=2147483647)
    """After so many tries without success the part ends, too; -1: however many."""
    lock_s: int | None = Field(default=None, ge=-1)
    """How long others who hold a lock or an older transaction are waited for; -1: for ever. When absent: for ever by what
    prepares the source, 300 elsewhere, and for a target under `run` without `--until-caught-up` for ever."""

    @property
    def is_unlimited(self) -> bool:
        """True if the end is waited for without limit: the job file leaves that to `run`, or says so."""
        return self.give_up_s in (None, -1) and self.limit < 0

    def limits(self, interval: float, is_patient: bool) -> EndLimits:
        """Return the limits. `is_patient`: where the job file says nothing, the end is waited for without limit."""
        usual = math.inf if is_patient else EndLimits().away
        return EndLimits(
            connect=self.connect_s,
            statement=_seconds(self.statement_s),
            silence=self.silence_s,
            interval=self.interval_s or interval,
            away=usual if self.give_up_s is None else _seconds(self.give_up_s),
            tries=_seconds(self.limit),
            least=EndLimits().least if self.give_up_s is None else 1,
            lock=usual if self.lock_s is None else _seconds(self.lock_s),
        )


def _seconds(value: int) -> float:
    return math.inf if value < 0 else float(value)


class Retry(Section):
    """Time limits towards both ends, and what is tried again."""

    source: RetryEnd = RetryEnd.model_construct()
    """The source."""
    target: RetryEnd = RetryEnd.model_construct()
    """The target, or each of several."""
    restarts_per_hour: int = Field(default=5, ge=-1, le=3600)
    """How often in an hour `run` starts a part again that died; -1: always. One more, and `run` ends with its code."""


class Trace(Section):
    """The record of what happened to the job: in its home, and in `anabranch.trace` at each target."""

    retain_hours: int = Field(default=168, ge=1, le=8784)
    """How long. `anabranch trace JOB` shows it."""


class Cutover(Section):
    """The switch to the target: `anabranch cutover JOB`."""

    flip: list[str] = []
    """Command and arguments, run without a shell when the target is to take writes: it leads the application there. It has
    `ANABRANCH_SOURCE_URL`, `ANABRANCH_TARGET_URL` (without passwords), `ANABRANCH_JOB`, `ANABRANCH_FENCE_POSITION` in its
    environment. Another end than 0 opens the source again; after a kill it is run once more. A cut-over needs one."""
    sequence_margin: int = Field(default=1000, ge=0, le=1_000_000_000)
    """Numbers that sequences and AUTO_INCREMENT counters at the target leave out behind those that the source has given, in
    steps of the counter."""
    max_lag: int = Field(default=10, ge=1, le=86400)
    """Seconds that a commit of the source may take to the target; the source is fenced only then."""
    grace: int = Field(default=60, ge=0, le=86400)
    """Seconds behind the flip in which a write at the source is an alarm, with its rows."""


class Reverse(Section):
    """The way back, from the target to the source ([how](../howto/migrate-with-a-way-back.md))."""

    enabled: bool = False
    """Check in every preflight, that of `run` included, that the job can go back: what cannot is refused when the job is made,
    not when it is needed. Once it has begun such a finding is a warning. `anabranch preflight JOB --reverse` does the same
    once, and always refuses."""
    exclude: list[PatternText] = []
    """Globs of source tables that do not go back: the checks and `anabranch reverse` leave them out."""
    lossy: Literal["refuse", "accept"] = "refuse"
    """Refuse types that change some values on the way there, or let such values come back as they are at the target."""


class JobConfig(Section):
    """A job: one source, one target or several, rules, settings."""

    name: Annotated[str, AfterValidator(_job_name)]
    """The job's name; its home is `$ANABRANCH_HOME/<name>`, by default `./.anabranch/<name>`."""
    source: Source
    target: Target | None = None
    targets: list[NamedTarget] = []
    rules: list[Rule] = Field(min_length=1)
    tables: list[TableEntry] = []
    # Defaults are not validated: that would build a validator of each section beside the one of the whole.
    load: Load = Load.model_construct()
    capture: Capture = Capture.model_construct()
    apply: Apply = Apply.model_construct()
    types: Types = Types.model_construct()
    spark: Spark = Spark.model_construct()
    retry: Retry = Retry.model_construct()
    trace: Trace = Trace.model_construct()
    cutover: Cutover = Cutover.model_construct()
    reverse: Reverse = Reverse.model_construct()

    _home: Path = PrivateAttr(default=Path(".anabranch"))
    _file: Path | None = PrivateAttr(default=None)
    _lines: dict[KeyPath, int] = PrivateAttr(default_factory=dict)
    _former: dict[KeyPath, KeyPath] = PrivateAttr(default_factory=dict)
    _unused: tuple[tuple[str, str], ...] = PrivateAttr(default=())

    @property
    def home(self) -> Path:
        """The job's directory, absolute; whoever needs it makes it."""
        return self._home.absolute() / self.name

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
        }
        return with_options(found, {SOURCE: self.source.options, TARGET: self.target_options(target)})

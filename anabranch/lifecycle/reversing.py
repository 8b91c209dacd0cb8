"""The way back of a job: what both ends say of it, its job file, and its checks.

What does not live here: the decisions (`rules/way_back.py`), the text (`rules/reverse_file.py`), letting the way back begin
(`arming.py`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch import connectors
from anabranch.config import JobConfig, parse_job, raw_job
from anabranch.config.reading import AnyVariable
from anabranch.contracts import SpelledTypes
from anabranch.databases import registry
from anabranch.errors import ConfigError, StateError
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.column_changes import left_out_now
from anabranch.model.datatype import LogicalType
from anabranch.model.ids import TableId
from anabranch.model.markers import origin_of
from anabranch.model.schema import TableSchema
from anabranch.model.way_back_names import name_of
from anabranch.model.writers import own_targets
from anabranch.preflight.report import Report
from anabranch.preflight.way_back import OtherRoles, target_asked
from anabranch.rules.reverse_file import reverse_file
from anabranch.rules.rule_set import RuleSet, check_filter
from anabranch.rules.way_back import Ends, TableBack, WayBack, way_back
from anabranch.version import __version__
from anabranch.view.identity import trail_uuid
from anabranch.view.opened import catalog_of, require_rows, source_of, store_of
from anabranch.view.options import source_limits, target_limits
from anabranch.view.refusals import refuse_beside_trail

if TYPE_CHECKING:
    from anabranch.contracts import RowTarget, SourceConnector
    from anabranch.model.table_life import TableState
    from anabranch.view.job_view import JobView


@dataclass(frozen=True)
class Reversed:
    """The way back as a job file. `name`: the job's in it. `text`: the file. `back`: what was decided. `advice`: what the job's
    own file lacks, "" for nothing."""

    name: str
    text: str
    back: WayBack
    advice: str = ""


def reversed_job(job: JobView) -> Reversed:
    """Return the job file of the way back. Raises PreflightFailed for what cannot go back, StateError for tables that the
    target does not have yet, ConfigError for a job of several targets."""
    refuse_beside_trail(job, "a way back")
    if len(job.config.ends) > 1:
        hint = "make a job of its own for the target that takes over"
        raise ConfigError("the job has several targets: it has no one way back", job=job.config.name, hint=hint)
    ends = _ends(job)
    back = way_back(job.config, job.rules, ends)
    Report(job.config.name, back.refused).require()
    _require_made(job, back, ends)
    found = _written(job, back)
    _prove(found, back, ends)
    return Reversed(found.config.name, found.text, back, _advice(job, found.config.name))


def _advice(job: JobView, name: str) -> str:
    """Say what the job has to leave out while it runs beside its way back."""
    origin = origin_of(name)
    if origin in job.config.source.leave_out:
        return ""
    return f'while both jobs run, {job.config.name} has to leave out what comes back: [source] leave_out = ["{origin}"]'


def reverse_results(job: JobView, is_asked: bool) -> tuple[CheckResult, ...]:
    """Return the checks of the way back: of definitions, and of both servers in their other roles. Of a job that has begun
    nothing is refused unless this is asked for (`is_asked`): to stop it would bring nothing back."""
    ends = _ends(job)
    found = _results(job, ends)
    return found if is_asked or not ends.has_begun else tuple(map(_told, found))


def _told(result: CheckResult) -> CheckResult:
    is_refused = result.verdict is CheckVerdict.FAILED
    return replace(result, verdict=CheckVerdict.WARNING) if is_refused else result


def _results(job: JobView, ends: Ends) -> tuple[CheckResult, ...]:
    back = way_back(job.config, job.rules, ends)
    found = list(back.findings)
    if len(job.config.ends) == 1 and back.tables:
        try:
            found += _other_roles(job, ends, back).results()
        except ValueError as error:  # no rules lead back
            if not back.refused:
                found.append(CheckResult("reverse.tables", CheckVerdict.FAILED, str(error), "give them other names"))
    if all(one.verdict is not CheckVerdict.FAILED for one in found):
        text = f"{len(back.tables)} tables can go back"
        found.append(CheckResult("reverse.tables", CheckVerdict.OK, text))
    return tuple(found)


# --- what both ends say ---------------------------------------------------------------------------------------------------


def _ends(job: JobView) -> Ends:
    require_rows(job)
    source = source_of(job)
    with store_of(job) as store:
        is_there = store.exists()
        states = store.states.tables(job.config.name) if is_there else {}
        shared = store.states.others(job.config.name) if is_there else frozenset[TableId]()
    with catalog_of(source) as catalog:
        mine = own_targets(catalog.writers(), trail_uuid(job) or "") - states.keys()
        now = catalog.tables(lambda table: job.rules.includes(table) and table not in mine, whole=False)
    left_out = {table: left_out_now(_form(states.get(table), schema), schema) for table, schema in now.items()}
    now = {table: left_out[table] or schema for table, schema in now.items()}
    return Ends(
        now,
        _made(job, [target for table in now if (target := job.rules.target_of(table))]),
        job.types,
        written_end(job).types,
        frozenset(table for table in now if _is_behind(table, states)),
        frozenset(table for table, state in states.items() if not (state.is_parked or state.is_built)),
        shared,
        bool(states),
        altered=frozenset(table for table, schema in left_out.items() if schema is None),
        **_foreseen(job),
    )


def _form(state: TableState | None, now: TableSchema) -> TableSchema:
    """Return the definition that the target has of a table, marked by what it is without; of one that it lacks, `now`."""
    return state.schema.leaving_out(state.facts.left_out) if state and state.schema else now


def _foreseen(job: JobView) -> dict[str, Any]:
    found = foreseen(job)
    return {"spelled": found} if found is not None else {}


def foreseen(job: JobView) -> Callable[[str], LogicalType | None] | None:
    """Return how types of the target are read before they stand there; None where nobody knows. Of one family they are mostly
    the source's own."""
    families = {registry()[end.scheme].extra or end.scheme for end in (job.endpoint, job.config.source.endpoint)}
    read = read_end(job)
    return read.spelled if len(families) > 1 and isinstance(read, SpelledTypes) else None


def _is_behind(table: TableId, states: Mapping[TableId, TableState]) -> bool:
    """Return whether the job follows others, and not this table."""
    return bool(states) and (table not in states or states[table].is_parked)


def _made(job: JobView, targets: list[TableId]) -> dict[TableId, TableSchema]:
    """Return the job's target tables as they are defined there now, those that are there."""
    wanted = frozenset(targets)
    with target_asked(), closing(read_end(job).catalog()) as catalog:
        return catalog.tables(lambda table: table in wanted, whole=False)


def read_end(job: JobView) -> SourceConnector:
    """Return the job's target in the role of a source."""
    return connectors.source(replace(job.endpoint, limits=target_limits(job)))


def written_end(job: JobView) -> RowTarget:
    """Return the job's source in the role of a target."""
    return connectors.row_target(replace(job.config.source.endpoint, limits=source_limits(job)))


# --- the file -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Written:
    config: JobConfig
    text: str
    rules: RuleSet


def _written(job: JobView, back: WayBack) -> _Written:
    """Return the file, as the product reads it. Its ends are those of the job, so what its variables are does not matter here.
    Raises ValueError where no rules lead back."""
    file = job.config.file or job.path
    text = reverse_file(raw_job(file), back, f"written by anabranch {__version__} from {file.name}")
    config = parse_job(text, file.with_name(f"{name_of(job.config.name)}.toml"), AnyVariable(), check_filter)
    return _Written(config, text, RuleSet(config, written_end(job).types))


def _require_made(job: JobView, back: WayBack, ends: Ends) -> None:
    """Refuse tables that are not there, or that the job has not done with: what it builds after the way back was armed would
    park the table there."""
    if missing := [str(table.read) for table in back.tables if not table.is_made]:
        shown = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        raise StateError(
            f"the target does not have {shown} yet: the way back is written by what was made there",
            job=job.config.name,
            hint="load first (anabranch run JOB, or load); before that, anabranch preflight JOB --reverse checks the way back",
        )
    if unready := [str(table.written) for table in back.tables if table.written in ends.unready]:
        raise StateError(
            f"the job still loads, or builds indexes and keys of, {', '.join(unready[:5])}",
            job=job.config.name,
            hint="let it run until they are done: anabranch run JOB --until-caught-up",
        )
    if not back.tables:
        raise StateError("no table of the job goes back", job=job.config.name, hint="anabranch preflight JOB --reverse")


def _prove(found: _Written, back: WayBack, ends: Ends) -> None:
    """Hold the rules of the file against what was decided, before anybody relies on it."""
    for table in back.tables:
        form = found.rules.target_table(ends.at_target[table.read])
        names = dict(zip(form.source_columns, form.columns, strict=True)) | dict(form.computed)
        assert form.target == table.written, f"{table.read} would go into {form.target}"
        assert all(names[name] == table.rename.get(name, name) for name in names), f"{table.read}: {names}"
        assert not names.keys() & table.drop.keys(), f"{table.read}: {table.drop}"


def write(text: str, path: Path, like: Path, force: bool) -> None:
    """Write the file, readable by those who may read the job's own. Raises ConfigError where there is one already."""
    try:
        mode = like.stat().st_mode & 0o777
    except OSError:
        mode = 0o600
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if force else os.O_EXCL)
    try:
        handle = os.open(path, flags, mode)
    except FileExistsError:
        raise ConfigError(f"{path} is there already", hint="another name, or --force to write over it") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from None
    with open(handle, "w", encoding="utf-8") as stream:
        stream.write(text)


# --- the servers in their other roles ---------------------------------------------------------------------------------------


def _other_roles(job: JobView, ends: Ends, back: WayBack) -> OtherRoles:
    found = _written(job, back)
    made = {table.read: ends.at_target[table.read] for table in back.tables if table.is_made}
    mirrored = {table.read: _mirrored(job, ends.at_source[table.written], table) for table in back.tables}
    return OtherRoles(found.config, found.rules, read_end(job), written_end(job), made, mirrored | made)


def _mirrored(job: JobView, schema: TableSchema, table: TableBack) -> TableSchema:
    """Return a source table as if it stood at the target already: its columns by their names there. Of a table that is to be
    made nobody has types yet, so they are taken for the source's."""
    names = {source: target for target, source in table.rename.items()}
    dropped = set(job.rules.left_out(schema))
    columns = tuple(
        replace(column, name=names.get(column.name, column.name))
        for column in schema.columns
        if column.name not in dropped and column.type is not None
    )
    key = tuple(names.get(name, name) for name in schema.primary_key)
    return replace(schema, id=table.read, columns=columns, primary_key=key, indexes=(), foreign_keys=(), checks=())

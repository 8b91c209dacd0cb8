"""The checks of a pair: what the twin says, and whether the tables at both ends let the newer of two rows be told.

The twin keeps its state at its target, which is this job's source: there its settings are found, as it last began. Reads only.
What does not live here: what each change may do (`apply/pair.py`), settings of this file alone (`config/sections/pair.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING

from anabranch.config.sections.pair import Pair
from anabranch.contracts import ComparingSource, Counter, CountingSource, PairCatalog, SourceConnector
from anabranch.errors import ConfigError
from anabranch.lifecycle.reversing import read_end
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.markers import origin_of
from anabranch.model.pairing import Pairing, said_of_deletes
from anabranch.model.schema import Column, TableSchema
from anabranch.model.writers import JOB, SourceWriter
from anabranch.preflight.way_back import target_asked
from anabranch.view.opened import catalog_of, source_of

if TYPE_CHECKING:
    from anabranch.view.job_view import JobView

OK, WARNING, FAILED = CheckVerdict.OK, CheckVerdict.WARNING, CheckVerdict.FAILED
TWIN, TABLES, KEYS, NUMBERS = "pair.twin", "pair.tables", "pair.keys", "pair.numbers"
INTEGERS = {kind for kind in Kind if kind.value.removeprefix("u").startswith("int") and kind.value[-1].isdigit()} | {
    Kind.YEAR
}
TEXTS = {Kind.TEXT, Kind.ENUM, Kind.UUID}
BYTES = "its bytes"  # by which keys are compared where different texts are never equal
Tables = Mapping[TableId, TableSchema]


def pair_results(job: JobView) -> list[CheckResult]:
    """Return the checks of a job with [pair]. Raises the error of an end that cannot be asked."""
    pair = job.config.pair
    assert pair is not None
    source = source_of(job)
    twin, here = _at_source(job, pair, source)
    wanted = {target: table for table in here if (target := job.rules.target_of(table))}
    far = read_end(job)
    with target_asked(), closing(far.catalog()) as catalog:
        there = catalog.tables(wanted.__contains__, whole=False)
        made = {wanted[target]: schema for target, schema in there.items()}
    columns = _columns(job, here)
    return [
        *_twin(job.config.name, pair, twin, columns),
        *_told(job, pair, here, made, columns),
        *_keys(job, source, far, here, made),
        *_deleted_keys(job, pair, here, made, columns),
        *_numbers(job, pair, source, far, here, made, twin is not None),
    ]


def twin_results(job: JobView) -> list[CheckResult]:
    """Return what the twin's settings, as it began last, say to those of this job with [pair]. Raises the source's error."""
    pair = job.config.pair
    assert pair is not None
    twin, here = _at_source(job, pair, source_of(job))
    return list(_twin(job.config.name, pair, twin, _columns(job, here)))


def _at_source(job: JobView, pair: Pair, source: SourceConnector) -> tuple[SourceWriter | None, Tables]:
    """Return the twin, as it began last, and the job's tables. Raises SourceError where its notes may not be read."""
    with catalog_of(source) as catalog:
        if pair.deletes == "newest" and isinstance(catalog, PairCatalog):
            catalog.pair_notes(pair.twin, 1)
        twin = next((one for one in catalog.writers() if one.name == f"{JOB}{pair.twin}" and not one.through), None)
        return twin, catalog.tables(job.rules.includes, whole=False)


@dataclass(frozen=True)
class Told:
    """The way a table decides. Columns are a name at the source and one at the target: that by which the newest row is told,
    and those that are added up. `wins`: the site whose row stays however new both are; "" where versions decide."""

    newest_by: tuple[str, str]
    delta: tuple[tuple[str, str], ...]
    wins: str = ""

    @property
    def sums(self) -> str:
        """The columns of the source that are added up, for people; "none" for none."""
        return ", ".join(sorted(name for name, _ in self.delta)) or "none"


def _columns(job: JobView, here: Tables) -> dict[TableId, Told]:
    """Return by source table how it decides; tables that do not fit are left out, which other checks say."""
    found, wins = {}, {entry.id: entry.wins or "" for entry in job.config.tables}
    for table, schema in here.items():
        try:
            policy = job.rules.on_conflict(schema)
            target = job.rules.target_table(schema)
        except ConfigError:
            continue
        named = dict(zip(target.columns, target.source_columns, strict=True))
        delta = tuple((named[name], name) for name in policy.delta)
        found[table] = Told((named[policy.newest_by], policy.newest_by), delta, wins.get(table, ""))
    return found


# --- the twin -------------------------------------------------------------------------------------------------------------


def _twin(name: str, pair: Pair, twin: SourceWriter | None, columns: Mapping[TableId, Told]) -> Iterator[CheckResult]:
    if twin is None:
        message = f"the twin {pair.twin} has not been seen at the source yet: its settings are compared once it has begun there"
        yield CheckResult(
            TWIN, WARNING, message, "each job of a pair compares both; the one that begins second does so first"
        )
        return
    if not twin.pair:
        message = f"the job {pair.twin} writes to the source, and was no job of a pair when it last began"
        yield CheckResult(TWIN, FAILED, message, _settings(name, pair))
        return
    theirs, found = Pairing.of_text(twin.pair), []
    for key, is_so, should in (
        ("site", theirs.site, pair.other),
        ("other", theirs.other, pair.site),
        ("winner", theirs.winner, pair.winner),
        ("twin", theirs.twin, name),
        ("ddl_from", theirs.ddl_from, pair.ddl_from or ""),
        ("deletes", theirs.deletes, said_of_deletes(pair.deletes, any(told.delta for told in columns.values()))),
    ):
        if is_so != should:
            found.append(f'its {key} is "{is_so}", and had to be "{should}"')
    for table, told in sorted(columns.items()):
        by, column = theirs.newest_by.get(table), told.newest_by[0]
        if by is not None and by != column:
            found.append(f"it tells the newest row of {table} by {by}, this job by {column}")
        sums = ", ".join(sorted(theirs.delta.get(table, ()))) or "none"
        if by is not None and sums != told.sums:
            found.append(f"of {table} it adds up {sums}, this job {told.sums}")
        site = theirs.wins.get(table, "")
        if by is not None and site != told.wins:
            found.append(f"in {table} {_named_site(site)} there, and {_named_site(told.wins)} here")
    for table in sorted(columns.keys() - theirs.newest_by.keys()):
        found.append(f"it does not write to {table}, which this job reads")
    if found:
        message = f"the settings of {pair.twin}, as it last began, do not go with this job's: {'; '.join(found)}"
        hint = "mend one of the files; where both agree by now, start the other job: each notes its settings when it starts"
        yield CheckResult(TWIN, FAILED, message, hint)
    else:
        yield CheckResult(
            TWIN, OK, f"{pair.twin} decides as this job does; {pair.winner} wins where rows are equally new"
        )


def _named_site(site: str) -> str:
    return f'"{site}" wins' if site else "the newer row wins"


def _settings(name: str, pair: Pair) -> str:
    lines = {"site": pair.other, "other": pair.site, "winner": pair.winner, "twin": name}
    if pair.ddl_from:
        lines["ddl_from"] = pair.ddl_from
    text = ", ".join(f'{key} = "{value}"' for key, value in lines.items())
    return f'in its job file: [pair] {text}; [source] leave_out = ["{origin_of(name)}"]'


# --- tables ---------------------------------------------------------------------------------------------------------------


def _told(
    job: JobView, pair: Pair, here: Tables, made: Tables, columns: Mapping[TableId, Told]
) -> Iterator[CheckResult]:
    """Compare the columns by which the newest row is told, and those that are added up: a value has to be the same at both
    ends, to its last digit."""
    is_well = True
    every = [
        (table, *column, what)
        for table, told in sorted(columns.items())
        for column, what in (
            (told.newest_by, "by which the newest row is told"),
            *((one, "which is added up") for one in told.delta),
        )
    ]
    for table, name, at_target, what in every:
        schema = made.get(table)
        column = next((one for one in schema.columns if one.name == at_target), None) if schema else None
        why = _unlike(here[table].column(name), column) if column is not None else ""
        if why:
            is_well = False
            hint = "give both the same type, NOT NULL, before either job begins"
            yield CheckResult(TABLES, FAILED, f"{name}, {what}, {why}", hint, str(table))
    if is_well and columns:
        names = ", ".join(sorted({told.newest_by[0] for told in columns.values()}))
        yield CheckResult(TABLES, OK, f"{len(columns)} tables are told by {names} which of two rows is newer")


def _unlike(here: Column, there: Column) -> str:
    if there.nullable:
        return "may be NULL at the target"
    one, other = here.type, there.type
    if one is None or other is None:
        return f"is {here.native} here and {there.native} there, of which one is refused"
    if (one.kind, one.precision, one.scale, one.fraction) != (other.kind, other.precision, other.scale, other.fraction):
        return f"is {here.native} here and {there.native} there: a value would not be the same at both"
    return ""


# --- keys -----------------------------------------------------------------------------------------------------------------


def _keys(
    job: JobView, source: SourceConnector, far: SourceConnector, here: Tables, made: Tables
) -> Iterator[CheckResult]:
    """Compare by what both ends take two keys for equal: what is one row here and two there cannot become equal."""
    if not (isinstance(source, ComparingSource) and isinstance(far, ComparingSource)):
        return
    ours = source.loose_keys(here)
    with target_asked():
        theirs = far.loose_keys({schema.id: schema for schema in made.values()})
    for table, schema in sorted(made.items()):
        for name, there in _named(job, here[table]).items():
            if name not in here[table].primary_key or not _are_texts(here[table], name, schema, there):
                continue
            one, other = ours.get((table, name), BYTES), theirs.get((schema.id, there), BYTES)
            if one != other:
                message = (
                    f"{name} of the key is compared by {one} here and by {other} there: two rows here may be one there"
                )
                hint = "give it the same collation at both sites, best one that compares bytes and does not fill up with blanks"
                yield CheckResult(KEYS, FAILED, message, hint, str(table))


def _are_texts(here: TableSchema, name: str, there: TableSchema, column: str) -> bool:
    """Return whether both ends have the column as text, which any other type of a key has in one form only."""
    types = here.column(name).type, next((one.type for one in there.columns if one.name == column), None)
    return all(type is not None and type.kind in (Kind.TEXT, Kind.NATIVE) for type in types)


# --- numbers --------------------------------------------------------------------------------------------------------------


def _numbers(
    job: JobView, pair: Pair, source: SourceConnector, far: SourceConnector, here: Tables, made: Tables, is_seen: bool
) -> Iterator[CheckResult]:
    """Compare the numbers that both ends give to new rows: none may be given by both."""
    if not (isinstance(source, CountingSource) and isinstance(far, CountingSource)):
        return
    ours = {(one.table, one.column): one for one in source.counters(here)}
    with target_asked():
        theirs = {(one.table, one.column): one for one in far.counters({made[table].id: made[table] for table in made})}
    count, is_well = 0, True
    for (table, column), counter in sorted(ours.items()):
        schema, named = made.get(table), _named(job, here[table])
        other = theirs.get((schema.id, named[column])) if schema is not None and column in named else None
        if other is None:
            continue
        count += 1
        if _meet(counter, other):
            is_well = False
            each = f"every {_step(counter)} here, every {_step(other)} there"
            message = f"both sites give the same numbers to new rows of {column}: {each}"
            odd, even = (counter, other) if pair.winner == pair.site else (other, counter)
            sites = pair.winner, pair.other if pair.winner == pair.site else pair.site
            hint = f"at {sites[0]}: {odd.odd}; at {sites[1]}: {even.even}"
            yield CheckResult(NUMBERS, FAILED if is_seen else WARNING, message, hint, str(table))
    if is_well and count:
        yield CheckResult(NUMBERS, OK, f"no number is given to new rows by both sites ({count} columns)")


def _deleted_keys(
    job: JobView, pair: Pair, here: Tables, made: Tables, columns: Mapping[TableId, Told]
) -> Iterator[CheckResult]:
    """Compare the texts of keys, by which the note of a delete names its row for the other site."""
    for table in sorted(columns.keys() & made.keys()) if pair.deletes == "newest" else ():
        there = {column.name: column for column in made[table].columns}
        for name, at_target in _named(job, here[table]).items():
            other = there.get(at_target)
            if name not in here[table].primary_key or other is None:
                continue
            one = here[table].column(name)
            if not _has_one_text(one.type, other.type):
                message = (
                    f"{name} of the key is {one.native} here and {other.native} there: a deleted row could not be named"
                )
                hint = 'give it one type at both sites, or let [pair] deletes = "refuse" stand in both job files'
                yield CheckResult(KEYS, FAILED, message, hint, str(table))


def _has_one_text(one: LogicalType | None, other: LogicalType | None) -> bool:
    """Return whether equal values of both have the same text."""
    if one is None or other is None:
        return False
    if any({one.kind, other.kind} <= kinds for kinds in (INTEGERS, TEXTS)):
        return True
    return (one.kind, one.scale, one.fraction) == (other.kind, other.scale, other.fraction)


def _named(job: JobView, schema: TableSchema) -> dict[str, str]:
    """Return the target's name of each column; {} for a table that has no form there, which other checks say."""
    try:
        target = job.rules.target_table(schema)
    except ConfigError:
        return {}
    return dict(zip(target.source_columns, target.columns, strict=True))


def _step(counter: Counter) -> str:
    return f"{abs(counter.step)} from {counter.start}"


def _meet(one: Counter, other: Counter) -> bool:
    """Return whether two counters may give the same number."""
    return (one.start - other.start) % gcd(one.step, other.step) == 0

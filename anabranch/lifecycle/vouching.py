"""`load --table --from-now` and `--from`: a table whose rows somebody has brought, by a backup or otherwise. Nothing is copied:
it streams from the place of the source's log at which a person says that both ends are equal.

It goes the way of a table that was loaded alone, as if all of its rows had been read at that place. What is looked at here is
whether the trail has everything behind the place, by the definition that the table has now. That rows are equal nobody looks
at: `verify` does.

What does not live here: bringing a definition into the trail (`joining.py`), joining (apply).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from anabranch import log
from anabranch.apply.decided import process
from anabranch.apply.window import WindowResolver
from anabranch.contracts import SeenTables
from anabranch.errors import ConfigError, LogLost, StateError
from anabranch.failpoints import reach
from anabranch.lifecycle.beginning import prepare_target
from anabranch.lifecycle.joining import Joining
from anabranch.lifecycle.skipping import sequence_of
from anabranch.model.ids import TableId
from anabranch.model.load_groups import cascading_parents
from anabranch.model.position import LogMark
from anabranch.model.schema import TableSchema
from anabranch.model.table_life import TableState, vouch
from anabranch.trail import retention
from anabranch.trail.reader import TrailReader
from anabranch.view.alone import alone
from anabranch.view.definitions import logs_cascades
from anabranch.view.identity import followed_identity, trail_uuid
from anabranch.view.opened import source_of, target_of
from anabranch.view.options import log_options, value_rules
from anabranch.view.refusals import refuse_beside_trail, refuse_while_cut_over

if TYPE_CHECKING:
    from anabranch.view.job_view import JobView

LOAD = "anabranch load JOB --table {} brings its rows"
NAMES = "a position of the trail, as anabranch trail show JOB has it, or a place of the source's log"


@dataclass(frozen=True, slots=True)
class Vouched:
    """`place`: of the source's log, behind which every change of the table goes to the target. `after`: the trail's last
    transaction up to there, as far as the trail has come."""

    table: TableId
    target: TableId
    place: str
    after: int


def vouch_for(job: JobView, table: TableId, place: str | None, stop: Callable[[], bool]) -> Vouched | None:
    """Let a table stream from a place at which its target table has the source's rows; None: from the log's end of now. Apply
    does it, now or when it starts. Returns None when stopped before.

    Raises ConfigError, SchemaError, PreflightFailed where the table cannot stream from there.
    """
    refuse_beside_trail(job, "streaming without a load")
    refuse_while_cut_over(job)
    if not job.rules.includes(table):
        raise job.rules.not_replicated(table)
    with alone(job, stop):
        return _Vouching(job, table, stop).at(place)


class _Vouching:
    """One call."""

    def __init__(self, job: JobView, table: TableId, stop: Callable[[], bool]) -> None:
        self.job, self.name, self.table, self.stop = job, job.config.name, table, stop
        self.source, self.target = source_of(job), target_of(job)
        self.joining = Joining(job, self.source, self.target, stop)

    def at(self, place: str | None) -> Vouched | None:
        with closing(self.target.store()) as store:
            prepare_target(self.job, store)
            is_begun = store.jobs.checkpoint(self.name) is not None
            states = store.states.tables(self.name)
        state = states.get(self.table)
        self._refuse(state)
        if is_begun and state is not None:
            self.joining.refuse_hidden([self.table], states)
            children = self.joining.children(self.table, states)
            self.joining.refuse_children(self.table, [one for one in children if not states[one].is_parked])
        if place is None and is_begun:
            self._require_table(self.joining.ready(self.table))
            schema = self.joining.definition(self.table, state, recreate=False, keep=True)
            if schema is None:
                return None
            mark, told = self._mark(place)
        else:
            schema = self.joining.followed(self.table, awaits=is_begun)
            self._require_table(schema)
            mark, told = self._mark(place)
            self._require_reached(mark, told, schema)  # before it is taken out
            if not is_begun:
                self._refuse_apart(schema, mark, states)
            elif self.stop() or not self.joining.await_leaving([self.table]):
                return None
        after = self._hold(mark, told, schema, is_begun)
        return self._save(schema, mark, Vouched(self.table, self._target_of(schema), told, after), is_begun)

    def _save(self, schema: TableSchema, mark: LogMark, found: Vouched, is_begun: bool) -> Vouched:
        with closing(self.target.store()) as store:
            state = store.states.table(self.name, self.table)  # apply may have let it go since
            self._refuse(state)
            if state is not None and state.is_streaming:
                raise StateError("the table streams again", job=self.name, table=str(self.table), hint="try again")
            by = (found.place, process(), datetime.now(UTC).isoformat(timespec="seconds"))
            reach("load.vouched")
            store.states.save_table(self.name, vouch(state, schema, found.target, mark.resume, by, is_begun), state)
        log.get(job=self.name, table=str(self.table)).warning(
            "table_vouched_for", place=found.place, after=found.after, by=by[1]
        )
        return found

    def _target_of(self, schema: TableSchema) -> TableId:
        return self.job.rules.target_table(schema).target

    def _refuse(self, state: TableState | None) -> None:
        """Refuse a table that is on its way already, or of which rows are set aside that nobody could release later."""
        why = hint = ""
        if state is not None and state.is_resuming:
            why, hint = "it is waiting to be resumed", "start apply, which resumes it"
        elif state is not None and state.is_before_stream and not (state.is_unbegun or state.is_in_window_again):
            why = "it is being loaded, or was, and does not stream yet"
            hint = "let that end: anabranch load JOB, or anabranch run JOB"
        elif state is not None and state.facts.set_aside:
            why = f"{state.facts.set_aside:,} of its row changes are set aside"
            hint = f"anabranch parked release JOB {self.table.typed}, or discard, before"
        if why:
            raise ConfigError(f"{self.table} cannot stream from a place: {why}", job=self.name, hint=hint)

    def _require_table(self, schema: TableSchema) -> None:
        table = self.job.rules.target_table(schema)
        with closing(self.target.tables(value_rules(self.job))) as tables:
            if isinstance(tables, SeenTables) and not tables.stands(table):
                raise ConfigError(
                    f"there is no {table.target} at the target: nobody has brought the rows of {self.table}",
                    job=self.name,
                    hint=f"restore the table first; or {LOAD.format(self.table.typed)}",
                )
        self.joining.at_target.require_room(schema, keep=True)

    def _mark(self, place: str | None) -> tuple[LogMark, str]:
        """Return the place with its text."""
        with closing(self.source.log(log_options(self.job, trail_uuid(self.job) or ""))) as reader:
            now, identity = reader.end(), reader.identity()
        if identity != followed_identity(self.job):
            raise StateError("the source is another server", job=self.name, hint="run capture first, which finds out")
        if place is None:
            return self.source.order.place(now.native, now), now.native
        number, _, said = place.partition("@")
        native = self._native(place) if number.isdecimal() else ""
        try:
            mark = self.source.order.place(said or native or place, now)
            with TrailReader(self.job.trail) as trail:
                after = WindowResolver(trail, self.source.order).low(mark.resume)
        except (ValueError, LogLost) as error:
            raise ConfigError(f"--from {place}: {error}", job=self.name, hint=NAMES) from None
        if native and said not in ("", native) and after != int(number):
            raise ConfigError(f"there is no {place}, but {number}@{native}", job=self.name, hint=NAMES)
        return mark, place

    def _native(self, position: str) -> str:
        """Return the place in the source's log of a position, or sequence, of the trail."""
        sequence = sequence_of(self.job, position)
        with TrailReader(self.job.trail) as trail:
            first, end = trail.first() - 1, trail.end().position.sequence
            if not first <= sequence <= end:
                raise ConfigError(f"the trail has no {position}: it has {first} to {end}", job=self.name, hint=NAMES)
            return _native_at(trail, sequence)

    def _hold(self, mark: LogMark, told: str, schema: TableSchema, is_begun: bool) -> int:
        """Keep the trail from the place on, and return it as a sequence. Raises ConfigError where the trail does not have
        everything behind it, by this definition."""
        hold = self.job.names.table(self.table) if is_begun else self.job.names.load
        held = retention.readers(self.job.trail).get(hold)
        with TrailReader(self.job.trail) as trail:
            first = trail.first() - 1
        retention.hold(self.job.trail, hold, min(first, held.sequence) if held else first)
        try:
            after = self._require_reached(mark, told, schema)
        except (ConfigError, LogLost):
            if held is None:
                retention.unregister(self.job.trail, hold)
            else:
                retention.hold(self.job.trail, hold, held.sequence)
            raise
        if is_begun:  # a parked table can be resumed until its state says otherwise; the hold goes when it joins
            retention.hold(self.job.trail, hold, min(after, held.sequence) if held else after)
        return after

    def _require_reached(self, mark: LogMark, told: str, schema: TableSchema) -> int:
        """Return the place as a sequence of the trail."""
        with TrailReader(self.job.trail) as trail:
            after = WindowResolver(trail, self.source.order).low(mark.resume)
            if why := self._why_before(trail, mark, after):
                pass  # told below
            elif any(entry.kind == "source" and entry.sequence > after for entry in trail.history.entries):
                why = "the job follows another server since, whose places are others"
            elif (since := self._since(trail, schema)) > after:
                why = f"the trail has its rows by the definition of now behind transaction {since} only"
        if why:
            hint = f"take a backup of the table behind that, and give its place; or {LOAD.format(self.table.typed)}"
            raise ConfigError(f"{self.table} cannot stream from {told}: {why}", job=self.name, hint=hint)
        return after

    def _why_before(self, trail: TrailReader, mark: LogMark, after: int) -> str:
        """Return why the place may be, or is, from before the trail; "" where it is not."""
        first, order = trail.first() - 1, self.source.order
        if not order.is_set(mark):
            if after > first or order.includes(mark, native := _native_at(trail, first), None):
                return ""
            return f"it is before the trail, which begins behind {first}@{native}"
        if after == first:
            return f"the trail's first transaction, {first + 1}, is not in it: it may be from before the trail"
        try:
            begun = trail.begun()
            lacking = (
                order.lacks(mark, order.mark(begun)) if begun else "what the trail began behind, which it does not know"
            )
        except ValueError as error:
            return str(error)
        return f"it lacks {lacking}, which is from before the trail" if lacking else ""

    def _since(self, trail: TrailReader, schema: TableSchema) -> int:
        """Return the trail's transaction that a place has to have passed to be behind what made this definition. An ALTER TABLE
        that no statement tells is somewhere before the next transaction."""
        is_it = (
            one
            for one in trail.history.entries
            if one.schema and (one.schema.id, one.schema.version) == (self.table, schema.version)
        )
        made = next(is_it)
        if not (made.altered or made.created):
            return made.sequence - 1  # capture brought it in
        return made.sequence + 1 if made.at or not made.statement else made.sequence

    def _refuse_apart(self, schema: TableSchema, mark: LogMark, states: Mapping[TableId, TableState]) -> None:
        """Refuse another place than that of the parents whose foreign keys change rows of the table, unseen in the log: what
        they did between both places would be missing (K1)."""
        if logs_cascades(self.job, self.source):
            return
        for parent in sorted(cascading_parents({schema.id: schema}, schema.id) - {schema.id}):
            there = states.get(parent)
            if there is None or there.low != vouch(None, schema, parent, mark.resume, (), False).low:
                raise ConfigError(
                    f"foreign keys change rows of {self.table} with rows of {parent}, which does not stream from that place",
                    job=self.name,
                    hint=f"anabranch load JOB --table {parent.typed} --from the same place first; or both: anabranch load JOB",
                )


def _native_at(trail: TrailReader, sequence: int) -> str:
    """Return the place of the source's log just behind a transaction, or where the trail begins."""
    return trail.position_at(sequence).native or trail.end().position.native

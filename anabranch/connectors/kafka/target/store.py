"""State of jobs at a Kafka: each job's records in a compacted topic of its own.

What rows need is not kept: nothing is set aside, verified, cut over. What does not live here: the checkpoint's moves with an
epoch (appender.py), records (records.py, changing.py), their forms (state_forms.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from anabranch.brokers.settings import patience
from anabranch.connectors.kafka.connection import administrator, plain
from anabranch.connectors.kafka.errors import translated
from anabranch.connectors.kafka.target import state_forms as forms
from anabranch.connectors.kafka.target.changing import Changes, Changing
from anabranch.connectors.kafka.target.options import USUAL, KafkaTargetOptions
from anabranch.connectors.kafka.target.records import PREFIX, Key, Records, Value, encoded, encoded_value, topic_of
from anabranch.connectors.kafka.target.topics import STATE_BYTES, make_state_topic, remove_topic
from anabranch.errors import Fenced, StateError
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.state import Checkpoint, Skipped
from anabranch.model.table_life import Place, TableState

if TYPE_CHECKING:
    from anabranch.model.cutover import CutoverNote
    from anabranch.model.ddl_changes import DdlChange
    from anabranch.model.verified import Verified
    from anabranch.rows.aside import AsideChange
    from anabranch.rows.conflict import NotedConflict

NO_ROWS = "the target keeps messages and no rows"


class KafkaStore:
    """Delivery: what a call wrote is committed when it returns."""

    def __init__(self, endpoint: Endpoint, options: KafkaTargetOptions = USUAL) -> None:
        self._endpoint, self._options = endpoint, options
        self._read: dict[str, Records] = {}
        self._changing: dict[str, Changing] = {}

    @property
    def jobs(self) -> KafkaStore:
        return self

    @property
    def states(self) -> KafkaStore:
        return self

    @property
    def journal(self) -> KafkaStore:
        return self

    @property
    def asides(self) -> KafkaStore:
        return self

    @property
    def cutovers(self) -> KafkaStore:
        return self

    @property
    def verifications(self) -> KafkaStore:
        return self

    # --- jobs and checkpoints -------------------------------------------------------------------------------------------

    def exists(self) -> bool:
        with translated("look for the state of jobs"):
            found = administrator(self._endpoint).list_topics(timeout=patience(self._endpoint))
        return any(name.startswith(PREFIX) for name in found.topics)

    def prepare(self) -> None:
        """Do nothing: the topic of a job is made when the job is first saved."""

    def job(self, job: str) -> dict[str, str] | None:
        found = self._records(job).get(forms.JOB)
        return None if found is None else dict(found)

    def save_job(self, job: str, facts: Mapping[str, str]) -> None:
        make_state_topic(self._endpoint, self._options, topic_of(job))

        def decide(records: Mapping[Key, Value]) -> Changes:
            known = records.get(forms.JOB)
            if known is not None and known.get("target") != facts.get("target"):
                hint = "one cluster for each target"
                raise StateError("this cluster is another target of the job", job=job, hint=hint)
            return {} if known == dict(facts) else {forms.JOB: dict(facts)}

        self._change(job, decide)

    def checkpoint(self, job: str) -> Checkpoint | None:
        return forms.checkpoint_of(self._records(job))

    def create_checkpoint(self, job: str, position: Position, commit_time: int) -> None:
        first = {forms.CHECKPOINT: forms.checkpoint_value(Checkpoint("", 0, position, commit_time))}
        self._change(job, lambda records: {} if forms.CHECKPOINT in records else first)

    def taken_off(self, job: str) -> list[str]:
        return []

    def drop(self, job: str) -> None:
        """Remove the topic with the job's state. Whoever writes for the job still is fenced first."""
        if not self._fresh(job).is_there:
            return
        changing = self._writer(job)
        changing.begin()
        remove_topic(self._endpoint, topic_of(job))
        self.close()

    # --- tables ---------------------------------------------------------------------------------------------------------

    def tables(self, job: str, whole: bool = True) -> dict[TableId, TableState]:
        records = self._records(job)
        states = [forms.table_of(records, key, whole) for key, _ in forms.of_kind(records, forms.TABLE)]
        return {state.source: state for state in states}

    def table(self, job: str, table: TableId) -> TableState | None:
        records, key = self._records(job), forms.table_key(table)
        return forms.table_of(records, key, True) if key in records else None

    def others(self, job: str) -> frozenset[TableId]:
        """Return nothing: no change of one job can meet another job's, whose topics are its own."""
        return frozenset()

    def save_table(self, job: str, state: TableState, before: TableState | None) -> None:
        self.save_tables(job, [(state, before)])

    def save_tables(self, job: str, states: Sequence[tuple[TableState, TableState | None]]) -> None:
        def decide(records: Mapping[Key, Value]) -> Changes:
            changes: dict[Key, Value | None] = {}
            for state, before in states:
                require_same(job, records, state.source, before)
                changes |= forms.table_values(state)
            return changes

        self._change(job, decide)

    def forget_table(self, job: str, before: TableState) -> None:
        def decide(records: Mapping[Key, Value]) -> Changes:
            require_same(job, records, before.source, before)
            return forms.no_table(before.source)

        self._change(job, decide)

    # --- journal --------------------------------------------------------------------------------------------------------

    def conflicts(self, job: str, table: TableId | None = None, after: int = 0, limit: int = 0) -> list[NotedConflict]:
        return []

    def forget_conflicts(self, job: str, upto: int) -> int:
        return 0

    def ddl_changes(self, job: str, table: TableId | None = None) -> list[DdlChange]:
        return forms.ddl_of(self._records(job), table)

    def skip(self, job: str, one: Skipped) -> None:
        key: Key = (forms.SKIPPED, one.sequence)
        self._change(job, lambda records: {} if key in records else {key: forms.skipped_value(one)})

    def skipped(self, job: str) -> list[Skipped]:
        return forms.skipped_of(self._records(job))

    def unskip(self, job: str, sequence: int) -> bool:
        key: Key = (forms.SKIPPED, sequence)
        was_there: list[bool] = []

        def decide(records: Mapping[Key, Value]) -> Changes:
            was_there.append(key in records)
            return {key: None} if key in records else {}

        self._change(job, decide)
        return was_there[-1]

    def add_trace(self, job: str, entries: Sequence[Mapping[str, Any]], oldest: str) -> bool:
        """Add entries outside of any transaction: nothing is decided by them, and apply is not fenced for them."""
        records = self._records(job)
        if forms.JOB not in records:
            return False
        kept = {str(key[1]) for key, _ in forms.of_kind(records, forms.TRACE)}
        changes: dict[Key, Value | None] = {(forms.TRACE, one): None for one in kept if one < oldest}
        changes |= {(forms.TRACE, str(one["id"])): one for one in entries if str(one["id"]) not in kept}
        if changes:
            with translated("write the trace"):
                producer, failed = plain(self._endpoint, topic_of(job)), list[Any]()

                def heard(error: Any, message: Any) -> None:
                    if error is not None:
                        failed.append(error)

                for key, value in changes.items():
                    producer.produce(topic_of(job), encoded_value(value), encoded(key), 0, heard)
                return producer.flush(patience(self._endpoint)) == 0 and not failed
        return True

    def trace(self, job: str, first: str = "") -> list[dict[str, Any]]:
        return [dict(value) for key, value in forms.of_kind(self._records(job), forms.TRACE) if str(key[1]) >= first]

    # --- what only rows have --------------------------------------------------------------------------------------------

    def set_aside(self, job: str, table: TableId | None = None, discarded: bool = False) -> list[AsideChange]:
        return []

    def count_aside(self, job: str) -> Mapping[TableId, int]:
        return {}

    def forget_aside(self, job: str, table: TableId) -> None: ...

    def asked(self, job: str) -> bool:
        return False

    def wish(self, job: str, numbers: Sequence[int], wish: str, reason: str = "") -> int:
        return 0

    def cutover_notes(self, job: str) -> list[CutoverNote]:
        return []

    def note_cutover(self, job: str, note: CutoverNote) -> None:
        raise StateError(f"{NO_ROWS}: nothing can be cut over to it", job=job)

    def verified(self, job: str) -> list[Verified]:
        return []

    def note_verified(self, job: str, found: Verified, before: int = 0) -> bool:
        raise StateError(f"{NO_ROWS}: nothing can be verified", job=job)

    def forget_verified(self, job: str, table: TableId) -> None: ...

    def close(self) -> None:
        for read in self._read.values():
            read.close()
        for changing in self._changing.values():
            changing.close()
        self._read, self._changing = {}, {}

    def _fresh(self, job: str) -> Records:
        found = self._read.setdefault(job, Records(self._endpoint, job))
        found.refresh()
        return found

    def _records(self, job: str) -> Mapping[Key, Value]:
        return self._fresh(job).there

    def _writer(self, job: str) -> Changing:
        return self._changing.setdefault(job, Changing(self._endpoint, job, {"message.max.bytes": STATE_BYTES}))

    def _change(self, job: str, decide: Any) -> None:
        self._writer(job).change(decide)


def require_same(job: str, records: Mapping[Key, Value], table: TableId, before: TableState | None) -> None:
    key = forms.table_key(table)
    found: Place | None = forms.table_of(records, key, False).place if key in records else None
    if found != (before.place if before else None):
        hint = "another process has begun with it: let one of them end"
        raise Fenced("the table's state was changed meanwhile", job=job, table=str(table), hint=hint)

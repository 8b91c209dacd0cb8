"""Appending changes to topics: an epoch's messages, the checkpoint and the states of tables are one Kafka transaction.

Compare-and-set of the checkpoint is that of every change of a job's state (changing.py): what this process knows of it holds as
long as nobody else has begun with the transactional id, and Kafka commits nothing once somebody has. What does not live here:
what a message is (`rows/messages/`), topics (topics.py).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from anabranch.brokers import codes
from anabranch.connectors.kafka import errors
from anabranch.connectors.kafka.errors import translated_error
from anabranch.connectors.kafka.registry import Registry
from anabranch.connectors.kafka.target import state_forms as forms
from anabranch.connectors.kafka.target.altered_tables import refuse_altered, told_change
from anabranch.connectors.kafka.target.changing import FORGOTTEN, LOOKED_UP, Changing
from anabranch.connectors.kafka.target.formats import format_for, registry_of
from anabranch.connectors.kafka.target.formats import settings_of as format_settings
from anabranch.connectors.kafka.target.names import schema_changes_topic
from anabranch.connectors.kafka.target.options import KafkaTargetOptions
from anabranch.connectors.kafka.target.producing import Producing, settings_of
from anabranch.connectors.kafka.target.records import Key, Value, encoded_value, topic_of
from anabranch.connectors.kafka.target.topics import FoundTopic, found_topics, not_writable, out_of_sync, refuse_changed
from anabranch.contracts import Begun, Enforced, TookTooLong
from anabranch.errors import AnabranchError, Fenced, RowRefused, StateError, TargetUnavailable
from anabranch.model.ddl_changes import DdlChange
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.state import Checkpoint
from anabranch.model.table_life import TableState
from anabranch.rows.altered import AlteredTable
from anabranch.rows.appended import ChangeBatch
from anabranch.rows.aside import AsideChange
from anabranch.rows.conflict import NotedConflict
from anabranch.rows.messages.format import Format
from anabranch.rows.messages.protobuf.numbers import Numbers
from anabranch.rows.net import TargetTable

LOOK_S, LOOK_SHARE = 5.0, 20  # topics are looked at again after so long, or so many times as long as a look took
TOO_LONG = (
    "raise [target.options] transaction_timeout_s (and transaction.max.timeout.ms of the brokers), or leave the transaction "
    "out: anabranch skip add JOB POSITION --execute"
)
Changes = dict[Key, Value | None]


class KafkaAppender:
    """Appends changes as messages, and keeps the job's state with them.

    Delivery: what an epoch appends and its checkpoint are one Kafka transaction; a fenced owner commits nothing. A reader of
    committed messages sees each source transaction whole, and once."""

    takes_emptied = True
    alters_apart = False  # nothing is altered: the messages behind the change are others

    def __init__(self, endpoint: Endpoint, options: KafkaTargetOptions) -> None:
        self._endpoint, self._options = endpoint, options
        self._changing: Changing | None = None
        self._format: Format | None = None
        self._registry: Registry | None = None
        self._producing: Producing | None = None
        self._job = ""
        self._moves: tuple[Checkpoint, Checkpoint] | None = None  # of the open epoch
        self._changes: Changes = {}
        self._before: dict[Key, bytes | None] = {}  # what was known when it was closed
        self._look_again = self._began = 0.0  # by the clock of `monotonic`

    # --- whose turn it is ---------------------------------------------------------------------------------------------

    def claim(self, job: str, owner: str) -> Checkpoint:
        self.close()
        self._job = job
        self._changing = Changing(self._endpoint, job, settings_of(self._options))
        claimed: list[Checkpoint] = []

        def decide(records: Mapping[Key, Value]) -> Mapping[Key, Value | None]:
            found = forms.checkpoint_of(records)
            if found is None:
                raise StateError("the target has no checkpoint of this job", job=job)
            claimed.append(replace(found, owner=owner))
            return {forms.CHECKPOINT: forms.checkpoint_value(claimed[-1])}

        self._changing.change(decide)
        self._know_topics(self._changing)
        self._before = {}
        return claimed[-1]

    def enforced(self) -> Enforced:
        """Return that nothing acts: messages have no keys and no triggers that do."""
        return Enforced(keys=False, triggers=False)

    def begin(self, now: Checkpoint, then: Checkpoint, origin: str = "") -> Begun:
        self.rollback()
        changing = self._claimed()
        changing.doubt()
        if changing.producer is None:
            found, is_same = self._begin_again(changing, now)
        else:
            found, is_same = self._found(now, True), True
            if time.monotonic() > self._look_again:
                self._look_at_topics(forms.topics_of(changing.records.there))
        if _place(found) != _place(now):
            return Begun.APPLIED if _place(found) == _place(then) else Begun.REPLAN
        if not is_same:
            return Begun.REPLAN  # states of tables are others than the epoch was planned with
        assert self._format is not None, "the topics are known"
        assert self._producing is not None, "the topics are known"
        self._producing.begin()
        self._began = time.monotonic()
        try:
            changing.begin().begin_transaction()
        except KafkaException as error:
            raise self._lost(error, "begin an epoch", now) from error
        self._format.begin()
        self._moves, self._changes = (now, then), {}
        return Begun.OPEN

    def append(self, batch: ChangeBatch) -> None:
        self._open()
        assert self._format is not None and self._producing is not None, "an epoch is open"
        self._produce(self._format.messages(batch))

    def end(self, table: TargetTable, at: int) -> None:
        """Note nothing: a topic just has no more messages of the table, whose state says why."""
        self._open()

    def refuse_standing(self, altered: AlteredTable) -> None:
        """Do nothing: `alter` looks."""

    def alter(self, now: Checkpoint, altered: AlteredTable) -> Sequence[str]:
        """Write nothing. Raises TargetError where keys would find other partitions, or the format or its registry has no place
        for the table as it is now; TargetUnavailable where the registry does not say so."""
        self._open()
        assert self._format is not None, "an epoch is open"
        settings = format_settings(self._options, self._job, self._known(), self._registry)
        numbers = refuse_altered(altered, settings, self._format, self._registry)
        if numbers is not None:
            self._changes |= forms.fields_values(altered.table.source, numbers)
        return ()

    def keeps_up_with(self, altered: AlteredTable) -> bool:
        """Return that it does not: a format may know the tables' definitions as they were."""
        return False

    def commit(self) -> None:
        now, then = self._open()
        changing = self._claimed()
        assert self._format is not None and self._producing is not None, "an epoch is open"
        self._produce(self._format.end())
        moved = forms.checkpoint_value(replace(then, owner=now.owner))
        changes: Changes = {forms.CHECKPOINT: moved, **self._changes}
        try:
            changing.write(changes)
            is_readable = changing.commit(changes, self._producing.places)
        except KafkaException as error:
            raise self._lost(error, "commit an epoch", now) from error
        self._moves, self._changes = None, {}
        if not is_readable:
            raise TargetUnavailable(FORGOTTEN, hint=LOOKED_UP)

    def rollback(self) -> None:
        was_open, self._moves, self._changes = self._moves is not None, None, {}
        if was_open and self._changing is not None:
            self._changing.abort()

    def close(self) -> None:
        self.rollback()
        if self._changing is not None:
            self._before = _decided(self._changing.records.there)
            self._changing.close()  # `begin` opens another one: who has claimed goes on
        self._format = self._producing = None

    # --- state --------------------------------------------------------------------------------------------------------

    def save_table(self, job: str, state: TableState) -> None:
        self._open()
        self._changes |= forms.table_values(state)

    def forget_table(self, job: str, table: TableId) -> None:
        self._open()
        records = self._known()
        key = forms.table_key(table)
        if key in records and forms.table_of(records, key, True).is_untouched:
            self._changes |= forms.no_table(table)

    def note_ddl(self, job: str, change: DdlChange) -> None:
        self._open()
        self._changes |= forms.ddl_values(self._known(), change)
        if topic := schema_changes_topic(self._options, self._job):
            records = self._known()
            told = told_change(change, format_settings(self._options, self._job, records), topic, records)
            if told is not None:
                self._produce(told)

    def note(self, job: str, conflict: NotedConflict) -> None:
        raise StateError("messages are compared with nothing: there are no conflicts", job=job)

    def set_aside(self, job: str, change: AsideChange) -> int:
        raise StateError("nothing is set aside of a log of messages", job=job)

    def settle_aside(self, job: str, before: TableState, numbers: object, discarded: bool) -> None:
        raise StateError("nothing is set aside of a log of messages", job=job)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _claimed(self) -> Changing:
        if self._changing is None:
            raise StateError("nothing was claimed yet")
        return self._changing

    def _open(self) -> tuple[Checkpoint, Checkpoint]:
        if self._moves is None:
            raise StateError("no epoch is open")
        return self._moves

    def _known(self) -> Mapping[Key, Value]:
        """Return the records with what this epoch has changed so far."""
        there = {**self._claimed().records.there, **self._changes}
        return {key: value for key, value in there.items() if value is not None}

    def _found(self, now: Checkpoint, is_known: bool) -> Checkpoint:
        """Return where the target is. `is_known`: nobody can have moved it; else it is read, without ending what others do."""
        records = self._claimed().records
        if not is_known:
            records.refresh()
        found = forms.checkpoint_of(records.there)
        if found is None:
            raise StateError("the checkpoint is gone", job=self._job)
        if found.owner != now.owner:
            raise Fenced(f"the checkpoint belongs to another owner since epoch {found.epoch}", job=self._job)
        return found

    def _begin_again(self, changing: Changing, now: Checkpoint) -> tuple[Checkpoint, bool]:
        """Begin with a new producer, which ends what another process writes now, but for the owner it is no longer looked at.
        Return where the target is, and whether nobody has changed anything since the records were read."""
        before = self._before or _decided(changing.records.there)
        self._found(now, False)
        try:
            changing.begin()
            found = self._found(now, True)
            self._know_topics(changing)
        except BaseException:
            changing.give_up()  # else the next epoch would begin without what was not found out
            raise
        self._before = {}
        return found, _decided(changing.records.there) == before

    def _know_topics(self, changing: Changing) -> None:
        """Make ready what makes messages, and what sends them. Raises TargetError for topics that are not what they were."""
        noted = forms.topics_of(changing.records.there)
        found = self._look_at_topics(noted)
        registry = self._registry or registry_of(self._options, self._endpoint)
        self._registry = registry  # which goes on knowing its schemas
        there = changing.records.there
        self._format = format_for(self._options, self._job, there, self._registry, self._note_fields)
        limits = {name: one.largest for name, one in found.items()}
        self._producing = Producing(self._options, noted, limits)

    def _note_fields(self, table: TargetTable, numbers: Numbers) -> None:
        """Note with the open epoch which numbers its messages have; a change of the definition in the same epoch has the last
        word."""
        for key, value in forms.fields_values(table.source, numbers).items():
            self._changes.setdefault(key, value)

    def _look_at_topics(self, noted: Mapping[str, forms.NotedTopic]) -> Mapping[str, FoundTopic]:
        """Return the topics as they are. Raises TargetError for those that are not what they were."""
        began = time.monotonic()
        found = found_topics(self._endpoint, noted)
        refuse_changed(noted, found)
        ended = time.monotonic()
        self._look_again = ended + max(LOOK_S, LOOK_SHARE * (ended - began))
        return found

    def _produce(self, messages: Any) -> None:
        assert self._producing is not None, "an epoch is open"
        producer = self._claimed().producer
        assert producer is not None, "an epoch is open"
        try:
            self._producing.produce(producer, messages)
        except KafkaException as error:
            raise self._lost(error, "write messages", self._open()[0]) from error

    def _lost(self, error: KafkaException, doing: str, now: Checkpoint) -> AnabranchError:
        """Give the epoch up after an error, and return it as ours. Whoever still owns the job begins again. Raises Fenced where
        somebody else does."""
        changing = self._claimed()
        assert self._producing is not None and changing.producer is not None, "an epoch was begun"
        cause = self._producing.cause(changing.producer, error)
        self._moves, self._changes = None, {}
        changing.give_up()
        if isinstance(cause, RowRefused):
            return cause
        if codes.of(error).code() in codes.FENCED:
            self._found(now, False)
        told, limit = codes.of(cause), self._options.transaction_timeout_s
        if told.code() in codes.FENCED and time.monotonic() - self._began >= limit:
            return TookTooLong(f"cannot {doing}: it took longer than {limit} seconds", hint=TOO_LONG)
        return self._explained(told, doing)

    def _explained(self, told: KafkaError, doing: str) -> AnabranchError:
        """Return an error with the topics that it is about, which the client does not name. A transaction that failed while
        more was handed over says no more than that, whatever the cause: the rights are looked at then, too."""
        topics, code = [*forms.topics_of(self._claimed().records.there), topic_of(self._job)], told.code()
        error = translated_error(told, doing)
        refused = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError._STATE)
        if code in refused and (found := not_writable(self._endpoint, topics)):
            error = translated_error(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), doing)
            error.message += f": {', '.join(found)}"
        elif code in codes.AWAY and (missing := out_of_sync(self._endpoint, topics)):
            return TargetUnavailable(f"{error.message}: {'; '.join(missing)}", hint=errors.IN_SYNC_HINT)
        return error


def _decided(records: Mapping[Key, Value]) -> dict[Key, bytes | None]:
    """Return what is committed by decision, in a form that can be compared: all but the trace."""
    return {key: encoded_value(value) for key, value in records.items() if key[0] != forms.TRACE}


def _place(checkpoint: Checkpoint) -> tuple[int, int]:
    return checkpoint.epoch, checkpoint.position.sequence

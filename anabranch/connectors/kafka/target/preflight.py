"""Can this cluster take the job's messages? Every check reads only; what fails says what mends it.

What does not live here: whether the source's log has whole rows (the source's checks).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from anabranch.brokers.settings import brokers, patience, settings
from anabranch.connectors.kafka.connection import administrator, unanswered
from anabranch.connectors.kafka.errors import translated
from anabranch.connectors.kafka.target import state_forms as forms
from anabranch.connectors.kafka.target.beginning import (
    FEW,
    MANY,
    OTHERS,
    SHARED,
    has_more,
    shared_words,
    too_few,
    too_many,
)
from anabranch.connectors.kafka.target.elsewhere import noted_elsewhere
from anabranch.connectors.kafka.target.formats import format_for, registry_of
from anabranch.connectors.kafka.target.names import (
    UNKNOWN,
    UNKNOWN_NOW,
    WantedTopic,
    refused,
    unknown_tables,
    wanted_topics,
)
from anabranch.connectors.kafka.target.options import KafkaTargetOptions
from anabranch.connectors.kafka.target.records import Records, topic_of
from anabranch.connectors.kafka.target.registered import registered
from anabranch.connectors.kafka.target.topics import (
    ANEW,
    AROUND,
    BATCH_BYTES,
    STATE_HINT,
    FoundTopic,
    changed,
    found_topics,
    unfit_state,
    why_unsafe,
    with_messages,
)
from anabranch.connectors.sql.findings import failed, ok, some, warning
from anabranch.contracts import PreflightContext
from anabranch.errors import NOT_ADMITTED, TargetError
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.endpoint import Endpoint
from anabranch.rows.net import TargetTable


class KafkaChecks:
    def __init__(self, endpoint: Endpoint, options: KafkaTargetOptions) -> None:
        self._endpoint, self._options = endpoint, options

    def run(self, context: PreflightContext) -> list[CheckResult]:
        """Run all checks; the first right that is missing is a failed one. Raises TargetUnavailable, and TargetError where the
        cluster does not let us in."""
        found = [*self._cluster(), *self._names(context), *self._values(context)]
        if any(result.verdict == CheckVerdict.FAILED for result in found):
            return found
        try:
            return [*found, *self._topics(context)]
        except TargetError as error:
            if error.code != NOT_ADMITTED:
                raise
            return [*found, failed("rights", error.message, error.hint)]

    def close(self) -> None: ...

    def _cluster(self) -> Iterator[CheckResult]:
        with translated("ask the cluster"):
            told = administrator(self._endpoint).list_topics(timeout=patience(self._endpoint))
        count, wanted = len(told.brokers), self._options.replication or 1
        if wanted > count:
            what = f"the cluster at {brokers(self._endpoint)} has {count} brokers, [target.options] replication is {wanted}"
            yield failed("brokers", what, "at most as many replicas as there are brokers")
        else:
            yield ok("brokers", f"the cluster at {brokers(self._endpoint)} answers: {count} brokers")

    def _names(self, context: PreflightContext) -> Iterator[CheckResult]:
        by_target = {table.target: table for table in context.targets.values()}
        for table, why in refused(self._options, context.job, by_target):
            of = by_target[table] if table else None
            gives = ", or [[rules]] target, gives" if of else ", transactions or the job's name give"
            yield failed("topics", why, f"[target.options] topic{gives} it another name", of)

    def _values(self, context: PreflightContext) -> Iterator[CheckResult]:
        made = format_for(self._options, context.job, {}, registry_of(self._options, self._endpoint))
        for why in made.check(list(context.targets.values())):
            yield failed("messages", why, "leave the column out ([[tables]] columns.drop), or take another format")
        for table in context.targets.values():
            yield from _rows(table, context)

    def _topics(self, context: PreflightContext) -> Iterator[CheckResult]:
        records, options = Records(self._endpoint, context.job), self._options
        records.refresh()
        there = dict(records.there)
        noted = forms.topics_of(there)
        records.close()
        by_target = {table.target: table for table in context.targets.values()}
        wanted = wanted_topics(options, context.job, by_target)
        names = {name: by_target[one.table] if one.table else None for name, one in wanted.items()}
        found, state = (
            found_topics(self._endpoint, {*names, *noted}),
            found_topics(self._endpoint, [topic_of(context.job)]),
        )
        shared = noted_elsewhere(self._endpoint, context.job, names)
        used = with_messages(self._endpoint, (one for name, one in found.items() if name not in noted))
        if why := unknown_tables(options, by_target):  # behind the beginning it may be one that is parked, or gone
            yield warning("topics", why, UNKNOWN_NOW) if noted else failed("topics", why, UNKNOWN)
        bad = [failed("topics", why, ANEW, names.get(name)) for name, why in changed(noted, found)]
        bad += [failed("topics", why, STATE_HINT) for why in unfit_state(state.values())]
        bad += [failed("topics", why, SHARED) for why in shared_words(shared)]
        bad += _unsafe([*state.values(), *(one for _, one in sorted(found.items()))])
        bad += [
            result
            for name, table in names.items()
            for result in (
                *self._topic(wanted[name], table, found.get(name), noted.get(name)),
                *(self._used(name, table) if name in used else ()),
            )
        ]
        yield from bad
        yield from registered(options, self._endpoint, context, there)
        if not any(result.verdict == CheckVerdict.FAILED for result in bad):
            yield ok("topics", f"{len(names)} topics, {len(names.keys() - found.keys())} of them to be made")

    def _used(self, name: str, table: TargetTable | None) -> Iterator[CheckResult]:
        if self._options.topics == "create":
            yield failed("topics", f"topic {name} has messages that are not the job's", OTHERS, table)

    def _topic(
        self, wanted: WantedTopic, table: TargetTable | None, found: FoundTopic | None, noted: forms.NotedTopic | None
    ) -> Iterator[CheckResult]:
        if found is None:
            if noted is None and self._options.topics == "existing":
                yield failed("topics", f"there is no topic {wanted.name}", 'make it, or topics = "create"', table)
            return
        if found.largest is not None and found.largest < BATCH_BYTES + AROUND // 2:
            what = f"topic {found.name} takes {found.largest} bytes at once, fewer than messages travel in together"
            yield failed("topics", what, f"set its max.message.bytes to {BATCH_BYTES + AROUND} or more", table)
        yield from self._partitions(found, wanted, table, noted)
        yield from compacted(found, table) if table is not None else mixed(found)

    def _partitions(
        self, found: FoundTopic, wanted: WantedTopic, table: TargetTable | None, noted: forms.NotedTopic | None
    ) -> Iterator[CheckResult]:
        """Check that keys find the partitions that the job file says, or said when the job began."""
        options = self._options
        written = wanted.partitions if noted is None else noted.partitions
        if noted is None and options.topics == "existing" and found.partitions < written:
            yield failed("topics", too_few(found, wanted), FEW, table)
        elif noted is None and options.topics == "create" and has_more(found, wanted):
            yield failed("topics", too_many(found, wanted), MANY, table)
        elif noted is None and found.partitions > written:
            what = f"topic {found.name} has {found.partitions} partitions, the job will write to the first {written}"
            hint = "as the job file says; say the number of all of them where no key is in the topic yet"
            yield warning("topics", what, hint, table)
        elif noted is not None and found.partitions > written:
            what = f"topic {found.name} has {found.partitions} partitions by now, the job writes to the first {written}"
            hint = "keys stay where they are, so the new ones stay empty; to spread them, begin anew with other topics"
            yield warning("topics", what, hint, table)


def unreached(endpoint: Endpoint, seconds: float) -> CheckResult | None:
    """Return a failed check where no broker answers within `seconds`, or none lets us in."""
    try:
        why = unanswered(endpoint, seconds)
    except TargetError as error:
        return failed("rights", error.message, error.hint)
    if not why:
        return None
    is_plain = settings(endpoint)["security.protocol"].endswith("PLAINTEXT")
    listener = ", and whether the listener at that port speaks TLS (?ssl_mode=)" if is_plain else ""
    what = f"no broker answers within {seconds:g} s at {brokers(endpoint)}: {why}"
    return failed("brokers", what, f"start them, or look at [target] url{listener}")


def compacted(topic: FoundTopic, table: TargetTable) -> Iterator[CheckResult]:
    """Check that a compacted topic gets keys: brokers refuse other messages there."""
    if "compact" not in topic.settings.get("cleanup.policy", "").split(","):
        return
    what = f"topic {topic.name} is compacted, and takes no message without a key"
    if not table.key:
        hint = "set its cleanup.policy to delete, or leave the table out ([[rules]] exclude)"
        yield failed("topics", f"{what}: the table has none", hint, table)
    else:
        hint = (
            "leave such a transaction out when it stops the job (anabranch skip add), or set cleanup.policy to delete"
        )
        yield warning("topics", f"{what}: TRUNCATE would stop the job", hint, table)


def mixed(topic: FoundTopic) -> Iterator[CheckResult]:
    """Check that a topic whose messages of one key are about several things keeps all of them."""
    if "compact" in topic.settings.get("cleanup.policy", "").split(","):
        what = f"topic {topic.name} is compacted, and would keep one message of a key, whatever it is about"
        yield failed("topics", what, "set its cleanup.policy to delete")


def _unsafe(topics: Iterable[FoundTopic]) -> Iterator[CheckResult]:
    """Warn of topics that lose messages, or the job's place, together with a broker."""
    by_reason: dict[str, list[str]] = {}
    for topic in topics:
        if why := why_unsafe(topic):
            by_reason.setdefault(why, []).append(topic.name)
    for why, names in by_reason.items():
        what = f"what is confirmed may be lost with a broker: topics {some(names)} have {why}"
        yield warning(
            "topics", what, "replication = 3, min.insync.replicas = 2, no unclean leader election", names=names
        )


def _rows(table: TargetTable, context: PreflightContext) -> Iterator[CheckResult]:
    """Check that no foreign key changes rows without the log telling of it (K1)."""
    keys = [] if context.logs_cascades else context.tables[table.source].foreign_keys
    if acting := [f"foreign key {key.name}" for key in keys if key.changes_rows]:
        why = f"the source's log does not have the rows that {', '.join(acting)} removes or changes"
        yield failed(
            "changes", why, "leave the table out ([[rules]] exclude), or let the application remove such rows", table
        )

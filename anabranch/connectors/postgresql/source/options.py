"""Options of a PostgreSQL as a source: `[source.options]` of the job file. No driver is imported here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from anabranch.databases import Options, whole_number


@dataclass(frozen=True)
class PostgresSourceOptions(Options):
    NEEDS_LOAD: ClassVar[frozenset[str]] = frozenset(("decoder",))  # it is the slot's for its life

    decoder: Literal["pgoutput", "wal2json", "decoderbufs"] = "pgoutput"
    """The plugin that the source's log is decoded with. `pgoutput` is a part of every server; the others are installed
    there, and show less ([prepare the source](../howto/prepare-a-postgresql-source.md#other-decoders)). It is the
    slot's for its life: a job that changes it loads again."""
    binary: bool = False
    """Values come from `pgoutput` in binary form where the server (14 and later) and the types of all tables allow it, else as
    text; the trail is the same. It is faster for tables with much `bytea`, and not for others
    ([prepare the source](../howto/prepare-a-postgresql-source.md#binary-values))."""
    streaming: bool = False
    """Large transactions come while they are open (14 and later, `pgoutput`): the source does not put them on its disk, and
    their rows are here when they commit. Else the source keeps them until then."""
    heartbeat_interval_s: int = whole_number(60, 0, 86400)
    """While nothing of the job happens at the source and others make its log grow, a message of about 100 bytes is written
    into the log so often, which moves the job's place on and shows that the log is read; 0: never. Where the source keeps the
    last of its log in memory and so does not send it, which may last 15 seconds, one is written at once. Without effect with
    `decoderbufs`, which shows no messages."""
    held_log_warning_mb: int = whole_number(10240, 1)
    """`status` warns when the source keeps more of its log for the job than this; where the server bounds it
    (`max_slot_wal_keep_size`), already at half of that."""
    large_objects: Literal["stop", "numbers"] = "stop"
    """A column that names large objects (`oid`, `lo`), which no log has: refuse it by name before the load and in it, and park
    its table at the first row of the log that names one; or let the numbers arrive without them."""
    failover: bool = True
    """From 17 on the slot is one that standbys keep in step, so that the job goes on where one of them takes over
    ([prepare the source](../howto/prepare-a-postgresql-source.md#when-a-standby-takes-over)). A slot that is there already
    is changed when capture starts. With `synchronized_standby_slots` capture waits for those standbys: `false` if it
    should not."""


USUAL = PostgresSourceOptions()

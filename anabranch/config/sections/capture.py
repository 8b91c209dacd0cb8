"""`[capture]` of the job file."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from anabranch.config.section import Section


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
    standby: bool = False
    """Share the trail with captures on other machines, of which one writes it at a time: this one waits for its turn, and takes
    over when the one that writes is gone ([a standby for capture](../howto/standby-capture.md)). The same as `--standby`. The
    trail has to be a directory that all of them see: `[target] url = "trail+file:///DIR/NAME"`."""
    lease_s: int = Field(default=10, ge=1, le=3600)
    """Take the trail over once nothing was heard for so many seconds of the capture that writes it, with `standby`. That one
    tells four times in that while that it is there. A longer one rides out pauses of the machine and of the file system; a
    shorter one takes over sooner. It is that of the capture that writes which counts."""

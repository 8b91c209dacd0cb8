"""`[cutover]` of the job file."""

from __future__ import annotations

from pydantic import Field

from anabranch.config.section import Section


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
    verified_within_hours: int = Field(default=0, ge=0, le=8760)
    """Hours within which `verify --watch` has to have found each table equal; an older result, or none, keeps a cut-over from
    being begun that does not compare at the fence itself (`--verify`, `--since-watch`). 0: it is a warning."""
    grace: int = Field(default=60, ge=0, le=86400)
    """Seconds behind the flip in which a write at the source is an alarm, with its rows."""

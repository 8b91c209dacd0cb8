"""A pace for processes of tests: what a product at rest looks at now and then, they look at more often, since a test waits for
it. Nothing else is imported here: a capture stays as small as it is."""

from __future__ import annotations

from anabranch.pace import Pace

BRISK = Pace(
    apply_tick=0.05,
    apply_chores=0.2,
    apply_register=1.0,
    capture_heartbeat=0.1,
    capture_requests=0.1,
    capture_tables=1.0,
    capture_end=0.5,
    capture_drop=1.0,
    log_idle=0.1,
    load_pause=2.0,
    run_tick=0.1,
    run_asked=0.2,
    run_again=0.2,
    run_ship=0.5,
    part_beat=0.5,
    hop_look=0.2,
    hop_asked=0.1,
    repair_poll=0.05,
)

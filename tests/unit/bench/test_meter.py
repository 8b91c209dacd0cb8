"""Processor time of a program and of what it starts, also where that has ended."""

from __future__ import annotations

from bench.meter import Sampled
from bench.processes import Program, python, until

BURN = "import time\nwhile time.process_time() < 1.0: pass"
STARTS = """
import subprocess, sys, time
for _ in range(2):
    subprocess.run([sys.executable, "-c", sys.argv[1]])
print("both", file=sys.stderr, flush=True)
time.sleep(60)
"""


def test_what_ended_meanwhile_is_counted_once() -> None:
    with Program([python()[0], "-c", STARTS, BURN], {}) as program, Sampled(program) as sampled:
        until(lambda: program.heard("both"), 180, "both children", check=program.check)
        cost = sampled.cost()
    assert 1.7 < cost.cpu < 3.7 and abs(sum(use.cpu for use in cost.each.values()) - cost.cpu) < 0.001

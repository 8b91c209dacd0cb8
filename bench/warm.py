"""A process that stays up: `load FILE`, `verify FILE`, `verify-by-rows FILE` or `verify-exactly FILE` per line on stdin, what
it took and found as JSON per line on stdout.

Spark's session is made by the first job and kept, so that the others are measured without its start."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from anabranch import log
from anabranch.cli.main import ALLOCATOR
from anabranch.job import Job

MAX_PAUSE = 5.0  # seconds


def main() -> None:
    os.environ.setdefault(*ALLOCATOR)  # as the command does
    log.configure()
    for line in sys.stdin:
        verb, _, file = line.strip().partition(" ")
        job = Job.from_file(file)
        begin = time.monotonic()
        found = _done(job, verb)
        print(json.dumps({"seconds": time.monotonic() - begin, **found}), flush=True)


def _done(job: Job, verb: str) -> dict[str, Any]:
    if verb in ("verify", "verify-by-rows", "verify-exactly"):
        pause = MAX_PAUSE if verb == "verify-exactly" else 0.0
        return job.verify(by_rows=verb == "verify-by-rows", max_pause=pause).to_json()
    assert verb == "load", verb
    job.load()
    return {}


if __name__ == "__main__":
    main()

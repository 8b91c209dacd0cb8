"""A process that stays up: `load FILE`, `verify FILE` or `verify-by-rows FILE` per line on stdin, what it took and found as
JSON per line on stdout.

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
    if verb in ("verify", "verify-by-rows"):
        return job.verify(by_rows=verb != "verify").to_json()
    assert verb == "load", verb
    job.load()
    return {}


if __name__ == "__main__":
    main()

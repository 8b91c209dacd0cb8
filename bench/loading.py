"""The process of W1 that stays up: a job file per line on stdin, what its `load` took per line on stdout.

Spark's session is made by the first job and kept, so that the others are measured without its start."""

from __future__ import annotations

import json
import sys
import time

from anabranch import log
from anabranch.job import Job


def main() -> None:
    log.configure()
    for line in sys.stdin:
        job = Job.from_file(line.strip())
        begin = time.monotonic()
        job.load()
        print(json.dumps({"seconds": time.monotonic() - begin}), flush=True)


if __name__ == "__main__":
    main()

"""Fetch what every run of the tests with servers starts, and make the archives of Spark's and of Kafka's classes: `make test`
does it beside the tests that need neither. What cannot be had is left to the tests that need it, which say so.

What does not live here: what is fetched, and from where (packages.py, class_archive.py, kafka_prepared.py).
"""

from __future__ import annotations

import signal
from contextlib import suppress
from types import FrameType

from anabranch.testing import chromium, class_archive, hdfs, kafka, openssh, packages
from anabranch.testing.cache import ServerUnavailable

LONGEST_S = 600  # a download that stands still is left to the tests that need it, which are limited themselves


def fetch() -> None:
    """Take as long as the downloads do, at most LONGEST_S; what is there already takes none."""
    signal.signal(signal.SIGALRM, _end)
    signal.alarm(LONGEST_S)
    databases = (packages.find_mariadb, packages.find_mysql, kafka.prepare_kafka)
    for find in (*databases, chromium.find_chromium, openssh.find_openssh, hdfs.find_hdfs):
        with suppress(ServerUnavailable):
            find()
    class_archive.environment()


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(1)  # whoever runs a download ends it


if __name__ == "__main__":
    fetch()

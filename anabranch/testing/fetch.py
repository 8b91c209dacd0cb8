"""Fetch what every run of the tests with servers starts, and make the archive of Spark's classes: `make test` does it beside
the tests that need neither. What cannot be had is left to the tests that need it, which say so.

What does not live here: what is fetched, and from where (packages.py, class_archive.py).
"""

from __future__ import annotations

from contextlib import suppress

from anabranch.testing import class_archive, packages
from anabranch.testing.cache import ServerUnavailable


def fetch() -> None:
    """Take as long as the downloads do; what is there already takes none."""
    for find in (packages.find_mariadb, packages.find_mysql):
        with suppress(ServerUnavailable):
            find()
    class_archive.environment()


if __name__ == "__main__":
    fetch()

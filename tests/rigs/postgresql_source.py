"""Settings that a PostgreSQL of the tests is started with, so that it may be a source."""

from __future__ import annotations

SOURCE_OPTIONS = ("--wal-level=logical", "--logical-decoding-work-mem=64kB", "--max-prepared-transactions=10")

"""Python runs this at its start where the folder is in PYTHONPATH: load, apply and verify do what Spark would do in their own
processes, as under torture (anabranch/testing/torture/local.py). For scenarios that are about processes, not about Spark. All
commands have a brisk pace (rigs_brisk.py).

A `where` is Spark SQL: the process that meets one starts Spark for it. Verbs that do nothing of this import none of it, and
neither do the processes that Spark starts.
"""

from __future__ import annotations

import sys

HERE = {"load", "reload", "apply", "verify", "--scan"}


def is_command() -> bool:
    """Return whether this is `python -m anabranch …`; `sys.argv` is not there yet."""
    return sys.orig_argv[1:3] == ["-m", "anabranch"]


def is_foreign() -> bool:
    """Return whether this is a module that is neither a command nor what forks them for a manager."""
    return sys.orig_argv[1:2] == ["-m"] and sys.orig_argv[2:3] not in (["anabranch"], ["anabranch.cli.forks"])


if not is_foreign():
    from rigs_brisk import BRISK

    from anabranch import pace

    pace.use(BRISK)
    if not is_command() or HERE & set(sys.orig_argv[3:6]):
        from rigs_quick import in_this_process

        in_this_process()

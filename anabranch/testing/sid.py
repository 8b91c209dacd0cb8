"""Programs of a newer Debian on this machine, without root: packages of the distribution `sid` unpacked with everything
they need, the C library too, and started by the loader that comes with it.

Nothing of the system is touched: apt gets an index, a list of sources and a list of installed packages of its own.
What does not live here: packages of this machine's own release (`debian.py`).
"""

from __future__ import annotations

import platform
import shutil
from collections.abc import Sequence
from pathlib import Path

from anabranch import log
from anabranch.testing import debian
from anabranch.testing.cache import ServerUnavailable, fetched

MEGABYTES = 70
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_HINT = "it comes from Debian's distribution sid: a Debian with debian-archive-keyring and a network is needed"
# $0 may be a link; the tree may be moved.
_LAUNCHER = """#!/bin/sh
home=$(dirname "$(dirname "$(readlink -f "$0")")")
exec "$home/{loader}" --library-path "{libraries}" "$home/{program}" "$@"
"""


def unpack(name: str, package: str, programs: Sequence[str]) -> Path:
    """The cache's directory `name` with `package` and all it depends on; `bin/` starts its `programs` (paths in it)."""

    def fill(scratch: Path) -> None:
        if not debian.is_debian() or not KEYRING.exists() or platform.system() != "Linux":
            raise ServerUnavailable(f"no {package} for this machine", hint=_HINT)
        log.get().info("unpacking_packages_of_sid", package=package, megabytes=MEGABYTES, into=name)
        debs = scratch / "debs"
        debs.mkdir()
        _download(package, _index(scratch / "apt"), debs)
        debian.extract(debs, scratch)
        shutil.rmtree(scratch / "apt")
        for program in programs:
            _launcher(scratch, program)

    return fetched(name, fill)


def _index(home: Path) -> tuple[str, ...]:
    """A package index of sid alone, beside which nothing is installed; the options that make apt-get use it."""
    for place in ("lists/partial", "cache/archives/partial"):
        (home / place).mkdir(parents=True)
    (home / "status").write_text("")
    (home / "sources.list").write_text(f"deb [signed-by={KEYRING}] {_mirror()} sid main\n")
    places = {
        "Dir::State::lists": f"{home}/lists",
        "Dir::State::status": f"{home}/status",
        "Dir::Cache": f"{home}/cache",
        "Dir::Cache::pkgcache": "",
        "Dir::Cache::srcpkgcache": "",
        "Dir::Etc::sourcelist": f"{home}/sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::Etc::preferences": "-",
        "Dir::Etc::preferencesparts": "-",
        "Acquire::Languages": "none",
        **({"APT::Sandbox::User": "root"} if debian.is_root() else {}),
    }
    options = tuple(part for name, value in places.items() for part in ("-o", f"{name}={value}"))
    debian.checked_apt((*options, "update"), "read the index of Debian sid", _HINT)
    return options


def _mirror() -> str:
    """The one that this machine's apt uses for Debian itself. Asked of its sources, not of its index, which a new machine
    has not."""
    done = debian.apt(("indextargets", "--no-release-info", "--format", "$(REPO_URI)", "Created-By: Packages"))
    found = [
        line.strip().rstrip("/") for line in done.stdout.splitlines() if line.strip().rstrip("/").endswith("/debian")
    ]
    if not found:
        raise ServerUnavailable("apt knows no mirror of Debian", hint=_HINT)
    return found[0]


def _download(package: str, index: tuple[str, ...], into: Path) -> None:
    simulated = debian.checked_apt(
        (*index, "--simulate", "--no-install-recommends", "install", package), f"find {package} in Debian sid", _HINT
    )
    names = [line.split()[1] for line in simulated.stdout.splitlines() if line.startswith("Inst ")]
    debian.checked_apt((*index, "download", *names), f"download {package} of Debian sid", _HINT, cwd=into)


def _launcher(tree: Path, program: str) -> None:
    loader = next(
        iter(sorted(tree.glob("usr/lib*/ld-linux-*.so.*")) or sorted(tree.glob("lib*/ld-linux-*.so.*"))), None
    )
    if loader is None or not (tree / program).exists():
        raise ServerUnavailable(
            f"the packages of Debian sid have no {'loader' if loader is None else program}", hint=_HINT
        )
    libraries = ":".join(f"$home/{place.relative_to(tree)}" for place in debian.shared_object_places(tree))
    file = tree / "bin" / Path(program).name
    file.parent.mkdir(exist_ok=True)
    file.write_text(_LAUNCHER.format(loader=loader.relative_to(tree), libraries=libraries, program=program))
    file.chmod(0o755)

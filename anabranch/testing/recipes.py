"""How each server is set up and run: the vendor's options as data, one recipe per database.

Every account listens on 127.0.0.1 and has a password; passwords travel in files, never on a command line. The data
directory is made beside its place and renamed, so that a half-made one never counts.
"""

from __future__ import annotations

import shutil
import signal
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from anabranch.testing import packages
from anabranch.testing.fresh import Fresh
from anabranch.testing.packages import Software
from anabranch.testing.processes import Daemon, Surroundings, give_away

HOST = "127.0.0.1"

# What a source needs, durable like a production server, modest in memory. A test's own options come after these.
_SOURCE_OPTIONS = (
    "--server-id=1",
    "--log-bin=binlog",
    "--binlog-format=ROW",
    "--sync-binlog=1",
    "--innodb-flush-log-at-trx-commit=1",
    "--innodb-buffer-pool-size=128M",
    "--character-set-server=utf8mb4",
    "--skip-name-resolve",
)
_ROW_OPTIONS = ("--binlog-row-image=FULL", "--binlog-row-metadata=FULL")
_GTID_OPTIONS = ("--gtid-mode=ON", "--enforce-gtid-consistency=ON")
# What each release of MySQL adds. 5.5 has no row images, GTIDs and checksums, 5.5 and 5.6 no row metadata; what today is
# the format of tables has to be asked for there. https://dev.mysql.com/doc/refman/5.6/en/replication-options-gtids.html
_BARRACUDA = ("--innodb-file-per-table=1", "--innodb-file-format=Barracuda", "--innodb-large-prefix=1")
_MYSQL_OPTIONS: dict[str, tuple[str, ...]] = {
    "5.5": (*_SOURCE_OPTIONS, *_BARRACUDA),
    "5.6": (*_SOURCE_OPTIONS, *_BARRACUDA, "--binlog-row-image=FULL", *_GTID_OPTIONS, "--log-slave-updates=1"),
    "8.0": (*_SOURCE_OPTIONS, *_ROW_OPTIONS, *_GTID_OPTIONS, "--mysqlx=OFF"),
    "9": (*_SOURCE_OPTIONS, *_ROW_OPTIONS, *_GTID_OPTIONS, "--mysqlx=OFF", "--performance-schema=OFF"),
}
# From 8.0 on fixed when the data directory is made.
# https://dev.mysql.com/doc/refman/8.0/en/server-system-variables.html#sysvar_lower_case_table_names
_LASTING = "--lower-case-table-names"
# Before 5.7 a data directory is made of these, fed to a server that listens to nobody.
_SYSTEM_TABLES = ("mysql_system_tables.sql", "mysql_system_tables_data.sql")
_POSTGRESQL_OPTIONS = (
    "--listen-addresses=127.0.0.1",
    "--unix-socket-directories=",  # a path of more than 107 bytes would be refused
    "--max-connections=100",
    "--shared-buffers=128MB",
    "--log-line-prefix=%m [%p] ",
)


_DECODERS, _DECODER_SETTING = ("wal2json", "decoderbufs"), "output_plugin_libraries"


@dataclass(frozen=True, slots=True)
class Instance:
    """One private server on disk: `directory` holds everything, `data` is its data directory. `options` come after the
    recipe's own, and override them."""

    directory: Path
    software: Software
    port: int
    password: str = field(repr=False)
    options: tuple[str, ...] = ()

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def exchange(self) -> Path:
        """The only directory LOAD DATA and SELECT INTO OUTFILE may use (`secure_file_priv`)."""
        return self.directory / "exchange"

    @property
    def temporary(self) -> Path:
        """Return a folder for this server's temporary tables: a server that starts empties a folder shared with others."""
        return self.directory / "tmp"

    @property
    def surroundings(self) -> Surroundings:
        return Surroundings(
            directory=self.directory,
            log=self.directory / "server.log",
            environment=self.software.environment(),
            reads=(self.software.home, *self.software.libraries),
        )


@dataclass(frozen=True, slots=True)
class Recipe:
    """`initialise` makes a data directory at the given path, `daemon` the process on `Instance.data`."""

    name: str
    user: str
    find: Callable[[], Software]
    initialise: Callable[[Instance, Path], None]
    daemon: Callable[[Instance], Daemon]
    version_digits: int  # how many leading parts of the version decide whether a data directory can be opened


def kept_fresh(recipe: Recipe, software: Software, options: Sequence[str]) -> Fresh | None:
    """Return where a data directory of this kind is kept to be copied, if it is."""
    return Fresh.of(recipe.name, software, [option for option in options if option.startswith(_LASTING)])


def prepare(recipe: Recipe, instance: Instance, fresh: Fresh | None = None) -> None:
    """Make the directories of `instance`; the data directory only when there is none, from `fresh` where it is kept."""
    for place in (instance.directory, instance.exchange, instance.temporary):
        place.mkdir(mode=0o755, parents=True, exist_ok=True)
    give_away(instance.exchange)
    give_away(instance.temporary)
    if instance.data.exists():
        return
    scratch = instance.directory / "data.new"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(mode=0o700)
    give_away(scratch)
    if fresh is None:
        recipe.initialise(instance, scratch)
    else:
        fresh.fill(scratch, lambda: recipe.initialise(instance, scratch))
    scratch.rename(instance.data)


def read_greeting(host: str, port: int, seconds: float = 2.0) -> str | None:
    """The version a MySQL or MariaDB server says first on a connection; None when nothing serves there
    (https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase_packets_protocol_handshake_v10.html)."""
    try:
        with socket.create_connection((host, port), timeout=seconds) as connection:
            received = connection.recv(256)
    except OSError:
        return None
    if len(received) < 6 or received[4] != 10:
        return None
    version = received[5:].split(b"\0")[0].decode("ascii", "replace")
    return version.removeprefix("5.5.5-")  # MariaDB 10 hides behind a number that old replicas accept


def _secret_file(instance: Instance, text: str) -> Path:
    path = instance.directory / "secret"
    path.touch(mode=0o600)
    path.write_text(text)
    give_away(path)
    return path


def _statements(password: str, *, create: str) -> list[str]:
    """SQL that gives root a password on the socket and on TCP, and all privileges on both."""
    return [
        f"ALTER USER 'root'@'localhost' IDENTIFIED BY '{password}'",
        f"{create} 'root'@'127.0.0.1' IDENTIFIED BY '{password}'",
        "GRANT ALL PRIVILEGES ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION",
    ]


def _initialise_mariadb(instance: Instance, data: Path) -> None:
    statements = [
        "FLUSH PRIVILEGES",  # the bootstrap starts without them, and makes accounts without a password
        "DELETE FROM mysql.global_priv WHERE User = '' OR (User = 'root' AND Host NOT IN ('localhost', '127.0.0.1'))",
        *_statements(instance.password, create="CREATE OR REPLACE USER"),
    ]
    secret = _secret_file(instance, "".join(f"{statement};\n" for statement in statements))
    software = instance.software
    instance.surroundings.run(
        [
            software.program("mariadb-install-db"),
            "--no-defaults",
            f"--basedir={software.home}",
            f"--datadir={data}",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
            "--skip-name-resolve",
            f"--tmpdir={instance.temporary}",
            f"--extra-file={secret}",
        ]
    )
    secret.unlink()


def _initialise_mysql(instance: Instance, data: Path) -> None:
    statements = _statements(instance.password, create="CREATE USER")
    secret = _secret_file(instance, "".join(f"{statement};\n" for statement in statements))
    software = instance.software
    where = ("--no-defaults", f"--basedir={software.home}", f"--datadir={data}")
    lasting = [option for option in instance.options if option.startswith(_LASTING)]
    command: list[str | Path] = [
        software.program("mysqld"),
        *where,
        *lasting,
        "--initialize-insecure",
        f"--init-file={secret}",
    ]
    instance.surroundings.run(command)
    secret.unlink()


def _bootstrap_mysql(instance: Instance, data: Path) -> None:
    """A data directory of MySQL 5.5 and 5.6: what its `mysql_install_db` does, without the Perl that it needs.

    https://dev.mysql.com/doc/refman/5.6/en/mysql-install-db.html"""
    share = instance.software.home / "share"
    scripts = [(share / script).read_text() for script in _SYSTEM_TABLES]
    accounts = [
        "DELETE FROM user WHERE User = '' OR User <> 'root' OR Host NOT IN ('localhost', '127.0.0.1')",
        "DELETE FROM db",
        f"UPDATE user SET Password = PASSWORD('{instance.password}')",
    ]
    text = "\n".join(["USE mysql;", *scripts, *(f"{statement};" for statement in accounts), ""])
    secret = _secret_file(instance, text)
    for schema in ("mysql", "test"):
        (data / schema).mkdir(mode=0o700)
        give_away(data / schema)
    where = ("--no-defaults", f"--basedir={instance.software.home}", f"--datadir={data}")
    program = instance.software.program("mysqld")
    quiet = ("--bootstrap", "--log-warnings=0", "--loose-skip-ndbcluster", "--max-allowed-packet=8M")
    instance.surroundings.run([program, *where, *quiet, f"--tmpdir={instance.temporary}"], reads=secret)
    secret.unlink()


def _mysql_daemon(program: str, defaults: Sequence[str]) -> Callable[[Instance], Daemon]:
    def daemon(instance: Instance) -> Daemon:
        command: list[str | Path] = [
            instance.software.program(program),
            "--no-defaults",
            f"--basedir={instance.software.home}",
            f"--datadir={instance.data}",
            f"--bind-address={HOST}",
            f"--port={instance.port}",
            "--socket=server.sock",  # relative to the data directory: no path is too long for it
            "--pid-file=server.pid",
            f"--secure-file-priv={instance.exchange}",
            f"--tmpdir={instance.temporary}",
            *defaults,
            *instance.options,
        ]
        return Daemon(instance.surroundings, command, lambda pid: read_greeting(HOST, instance.port) is not None)

    return daemon


def _initialise_postgresql(instance: Instance, data: Path) -> None:
    secret = _secret_file(instance, instance.password + "\n")
    instance.surroundings.run(
        [
            instance.software.program("initdb"),
            f"--pgdata={data}",
            "--username=postgres",
            f"--pwfile={secret}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
            *_quick_logins(instance.software),
        ]
    )
    secret.unlink()


def _quick_logins(software: Software) -> tuple[str, ...]:
    """A login costs its client 10 ms of processor time by the 4,096 rounds that make guessing dear; a password of 96 random
    bits is guessed by nobody. Releases before 16 have no such setting, and make them."""
    return ("--set=scram_iterations=1",) if packages.parse_release(software.version) >= (16,) else ()


def _postgresql_daemon(instance: Instance) -> Daemon:
    def is_ready(pid: int) -> bool:
        """Line 1 of postmaster.pid is the process id, line 8 its state (src/include/utils/pidfile.h)."""
        try:
            lines = (instance.data / "postmaster.pid").read_text().splitlines()
        except (FileNotFoundError, PermissionError):
            return False
        return len(lines) > 7 and lines[0] == str(pid) and lines[7].strip() == "ready"

    command: list[str | Path] = [
        instance.software.program("postgres"),
        "-D",
        instance.data,
        f"--port={instance.port}",
        *_POSTGRESQL_OPTIONS,
        *_decoder_options(instance.software),
        *instance.options,
    ]
    return Daemon(instance.surroundings, command, is_ready, signal.SIGINT, signal.SIGQUIT)


def _decoder_options(software: Software) -> tuple[str, ...]:
    """Decoders that are there may be used: releases that ask for their names refuse all others, older ones do not start with
    the setting (https://www.postgresql.org/docs/current/runtime-config-replication.html)."""
    found = [name for name in _DECODERS if (software.home / "lib" / f"{name}.so").exists()]
    if not found or not packages.has_setting(software, _DECODER_SETTING):
        return ()
    return (f"--{_DECODER_SETTING}=pgoutput, test_decoding, {', '.join(found)}",)


def _mysql(release: str) -> Recipe:
    is_old = packages.parse_release(release) < (5, 7)
    return Recipe(
        name="mysql",
        user="root",
        find=lambda: packages.find_mysql(release),
        initialise=_bootstrap_mysql if is_old else _initialise_mysql,
        daemon=_mysql_daemon("mysqld", _MYSQL_OPTIONS[release]),
        version_digits=2,
    )


MARIADB = Recipe(
    name="mariadb",
    user="root",
    find=packages.find_mariadb,
    initialise=_initialise_mariadb,
    daemon=_mysql_daemon("mariadbd", (*_SOURCE_OPTIONS, *_ROW_OPTIONS)),
    version_digits=2,
)
MYSQL = {release: _mysql(release) for release in _MYSQL_OPTIONS}
POSTGRESQL = Recipe(
    name="postgresql",
    user="postgres",
    find=packages.find_postgresql,
    initialise=_initialise_postgresql,
    daemon=_postgresql_daemon,
    version_digits=1,
)
RECIPES = {recipe.name: recipe for recipe in (MARIADB, MYSQL["8.0"], POSTGRESQL)}

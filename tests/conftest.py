"""Servers, databases and jobs for tests: servers start on first use, one of each per run; databases are a test's own.

A server comes from `ANABRANCH_TEST_<DB>_DSN` when that is set, otherwise the run starts its own. A test whose server
cannot be had fails and says what to install; none is skipped.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from anabranch.rows.compiled import compiled
from anabranch.testing import fresh, packages
from anabranch.testing.certificates import make_certificates
from anabranch.testing.databases import Database, connect, create_database, drop_database, unique_name
from anabranch.testing.features import has_all
from anabranch.testing.kafka import start_kafka
from anabranch.testing.places import server_files
from anabranch.testing.servers import (
    Server,
    ServerUnavailable,
    dsn_variable,
    server_from_environment,
    start_mariadb,
    start_mysql,
    start_postgresql,
)
from rigs import forked_commands
from rigs.postgresql_source import SOURCE_OPTIONS
from rigs.scenario import Scenario
from rigs.scenario_postgresql import FromPostgres
from rigs.spark_cluster import SparkCluster, spark_cluster
from servers_report import ServersReport

pytest_plugins = ("in_memory", "hung", "second_run", "long_first", "one_case")
_FINDERS: dict[str, Callable[[], packages.Software]] = {
    "mariadb": lambda: packages.find_mariadb(fetch=False),
    "mysql": lambda: packages.find_mysql(fetch=False),
    "postgresql": packages.find_postgresql,
}
OTHER_POSTGRESQL = {"postgresql11": 11, "postgresql12": 12, "postgresql15": 15, "postgresql17": 17}
OTHER_MYSQL = {"mysql55": (5, 5), "mysql56": (5, 6), "mysql9": (9, 7)}
# What these servers hold need not survive a power failure. Only the PostgreSQL is killed and started again: a kill may cut the
# write of a page in two, so it goes on writing pages in full; MySQL and MariaDB go without their doublewrite.
FAST_POSTGRESQL = ("--fsync=off",)
FAST_MYSQL = (
    "--sync-binlog=0",
    "--innodb-flush-log-at-trx-commit=2",
    "--innodb-flush-method=nosync",
    "--innodb-doublewrite=0",
)
# MariaDB flushes each definition of a table besides: 400 ms for five of them, 180 ms without.
FAST_MARIADB = (*FAST_MYSQL, "--loose-debug-no-sync", "--loose-skip-sync-frm")
HOME = "ANABRANCH_HOME"
_USED = pytest.StashKey[list[str]]()
# How long an example takes, or drawing it, is the machine's affair.
UNTIMED = [hypothesis.HealthCheck.too_slow]
hypothesis.settings.register_profile("untimed", deadline=None, suppress_health_check=UNTIMED)
hypothesis.settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--servers-report", type=Path, help="write what the tests marked `servers` showed to this file")
    parser.addoption("--screenshots", type=Path, help="write pictures of the console's pages into this directory")
    parser.addoption("--spark", action="store_true", help="with Spark also what is marked `quick` (make test-faults)")


def pytest_configure(config: pytest.Config) -> None:
    if (
        signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    ):  # of who runs in the background; what we start would inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("--spark"):
        forked_commands.have_pace_of_product()
    file = config.getoption("--servers-report")
    if file is not None:
        config.pluginmanager.register(ServersReport(file, config.stash.setdefault(_USED, [])))
    if fresh.VARIABLE not in os.environ:  # workers and what they start have it of this process
        directory = tempfile.mkdtemp(prefix="anabranch-tests-fresh-")
        os.environ[fresh.VARIABLE] = directory
        config.add_cleanup(partial(shutil.rmtree, directory, ignore_errors=True))
        config.add_cleanup(partial(os.environ.pop, fresh.VARIABLE))


def pytest_report_header() -> list[str]:
    """The version of every server that tests would use now, and what decodes logs; nothing is started or fetched for it."""
    decoder = (
        "compiled and Python" if compiled("auto") else "Python alone: the compiled one is not installed (make native)"
    )
    return [*(_describe(name) for name in _FINDERS), f"decoders of MySQL's log: {decoder}"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "mysql_family" in metafunc.fixturenames:
        metafunc.parametrize("mysql_family", list(_family_of(metafunc.definition)), indirect=True, scope="session")
    if "postgresql_source" in metafunc.fixturenames:
        others = [pytest.param(name, marks=pytest.mark.servers) for name in OTHER_POSTGRESQL]
        metafunc.parametrize("postgresql_source", ["postgresql18", *others], indirect=True, scope="session")


def _family_of(test: pytest.Function) -> Iterator[Any]:
    yield "mariadb"
    yield pytest.param("mysql", marks=pytest.mark.long) if test.get_closest_marker("one_family") else "mysql"
    if test.get_closest_marker("every_server"):
        yield from (pytest.param(name, marks=pytest.mark.servers) for name in OTHER_MYSQL)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """`every_server` says what a test, or one of its cases, needs a server to have (testing/features.py); `since` the first
    release of PostgreSQL that it runs on."""
    left_out = [item for item in items if not _can_run(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def _can_run(item: pytest.Item) -> bool:
    given = item.callspec.params.values() if hasattr(item, "callspec") else ()
    each = (one if isinstance(one, tuple) else (one,) for one in given)  # of a pair, the servers of both ends
    parameters = [name for names in each for name in names if isinstance(name, str)]
    release = next((OTHER_POSTGRESQL[one] for one in parameters if one in OTHER_POSTGRESQL), None)
    if release is not None:
        return all(release >= m.args[0] for m in item.iter_markers("since"))
    version = next((OTHER_MYSQL[one] for one in parameters if one in OTHER_MYSQL), None)
    return version is None or has_all(version, (need for m in item.iter_markers("every_server") for need in m.args))


def pytest_collection_finish() -> None:
    """Take the collected tests out of what the garbage collector looks through: thousands live to the end."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of pytest-xdist tells its controller."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["servers"] = session.config.stash.get(_USED, [])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    used = node.config.stash.setdefault(_USED, [])
    used += [server for server in getattr(node, "workeroutput", {}).get("servers", []) if server not in used]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The servers that were used: the header cannot know what was fetched later."""
    if used := config.stash.get(_USED, []):
        terminalreporter.write_line(f"servers used: {', '.join(used)}")


@pytest.fixture(autouse=True)
def handlers_of_signals() -> Iterator[None]:
    """What a test's end leaves ignored in this process (torture/ground.py: a Ctrl-C while it clears away), whoever is started
    by the next one would ignore as well."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def home_of_jobs() -> Iterator[None]:
    """A manager in this process sets the variable for what it starts: the next test's job would have its home in a directory
    that is gone, and make it again."""
    before = os.environ.get(HOME)
    yield
    if before is None:
        os.environ.pop(HOME, None)
    else:
        os.environ[HOME] = before


@pytest.fixture(scope="session")
def servers_directory() -> Iterator[Path]:
    """Where this run's servers keep their files: readable by the account they run as, and gone afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="anabranch-tests-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def quick_directory() -> Iterator[Path]:
    """Make the directory for files of servers that tests share or have alone: in memory if that has room."""
    with server_files(int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))) as directory:
        yield directory


@pytest.fixture(scope="session")
def mariadb(quick_directory: Path, pytestconfig: pytest.Config) -> Iterator[Server]:
    """A MariaDB that may be a source."""
    start = partial(start_mariadb, options=FAST_MARIADB)
    yield from _serve("mariadb", start, quick_directory, pytestconfig)


@pytest.fixture(scope="session")
def mysql(quick_directory: Path, pytestconfig: pytest.Config) -> Iterator[Server]:
    """A MySQL 8 that may be a source. Sessions are encrypted, as a MySQL has them by itself, with a certificate whose key is of
    an elliptic curve: with its own one, of RSA, each session costs five milliseconds of processor in place of three."""
    directory = quick_directory / unique_name("certificates")
    directory.mkdir(mode=0o755)
    made = make_certificates(directory, "localhost")
    encrypted = (f"--ssl-ca={made.authority}", f"--ssl-cert={made.certificate}", f"--ssl-key={made.key}")
    yield from _serve("mysql", partial(start_mysql, options=(*FAST_MYSQL, *encrypted)), quick_directory, pytestconfig)


@pytest.fixture(scope="session")
def postgresql(quick_directory: Path, pytestconfig: pytest.Config) -> Iterator[Server]:
    """A PostgreSQL that may be a target."""
    start = partial(start_postgresql, options=FAST_POSTGRESQL)
    yield from _serve("postgresql", start, quick_directory, pytestconfig)


@pytest.fixture(scope="session")
def kafka(quick_directory: Path, pytestconfig: pytest.Config) -> Iterator[Server]:
    """A Kafka of one broker."""
    yield from _serve("kafka", start_kafka, quick_directory, pytestconfig)


@pytest.fixture(scope="session")
def cluster(servers_directory: Path) -> Iterator[SparkCluster]:
    """A Spark cluster: a standalone master and two workers of one core each. Whoever kills a worker starts another one."""
    with spark_cluster(servers_directory / unique_name("spark")) as made:
        yield made


@pytest.fixture(scope="session")
def logical_postgresql(quick_directory: Path, pytestconfig: pytest.Config) -> Iterator[Server]:
    """A PostgreSQL that may be a source; small memory for decoding lets transactions be large early."""
    start = partial(start_postgresql, options=(*SOURCE_OPTIONS, *FAST_POSTGRESQL))
    yield from _serve("logical_postgresql", start, quick_directory, pytestconfig)


@pytest.fixture(scope="session")
def mysql55(servers_directory: Path, pytestconfig: pytest.Config) -> Iterator[Server]:
    """A MySQL 5.5 (make test-servers)."""
    yield from _serve("mysql55", partial(start_mysql, release="5.5"), servers_directory, pytestconfig)


@pytest.fixture(scope="session")
def mysql56(servers_directory: Path, pytestconfig: pytest.Config) -> Iterator[Server]:
    """A MySQL 5.6 (make test-servers)."""
    yield from _serve("mysql56", partial(start_mysql, release="5.6"), servers_directory, pytestconfig)


@pytest.fixture(scope="session")
def mysql9(servers_directory: Path, pytestconfig: pytest.Config) -> Iterator[Server]:
    """A MySQL 9 (make test-servers)."""
    yield from _serve("mysql9", partial(start_mysql, release="9"), servers_directory, pytestconfig)


@pytest.fixture(scope="session")
def postgresql11(servers_directory: Path, pytestconfig: pytest.Config) -> Iterator[Server]:
    """A PostgreSQL 11 that may be a source (make test-servers)."""
    yield from _serve("postgresql11", _postgresql_source("11"), servers_directory, pytestconfig)


@pytest.fixture(scope="session")
def postgresql12(servers_directory: Path, pytestconfig: pytest.Config) -> Iterator[Server]:
    """A PostgreSQL 12 that may be a source (make test-servers)."""
    yield from _serve("postgresql12", _postgresql_source("12"), servers_directory, pytestconfig)


@pytest.fixture(scope="session")
def postgresql15(servers_directory: Path, pytestconfig: pytest.Config) -> Iterator[Server]:
    """A PostgreSQL 15 that may be a source, with the decoders wal2json and decoderbufs (make test-servers)."""
    yield from _serve("postgresql15", _postgresql_source("15"), servers_directory, pytestconfig)


@pytest.fixture(scope="session")
def postgresql17(servers_directory: Path, pytestconfig: pytest.Config) -> Iterator[Server]:
    """A PostgreSQL 17 that may be a source (make test-servers)."""
    yield from _serve("postgresql17", _postgresql_source("17"), servers_directory, pytestconfig)


def _postgresql_source(release: str) -> Callable[[Path], Server]:
    return partial(start_postgresql, release=release, options=("--wal-level=logical", "--max-prepared-transactions=10"))


@pytest.fixture(scope="session")
def postgresql_source(request: pytest.FixtureRequest) -> Server:
    """Each PostgreSQL that may be a source: a test with it runs on 18; in `make test-servers`, unless its mark `since` says
    otherwise, on 11, 12, 15 and 17."""
    name = "logical_postgresql" if request.param == "postgresql18" else request.param
    server: Server = request.getfixturevalue(name)
    return server


@pytest.fixture(scope="session")
def mysql_family(request: pytest.FixtureRequest) -> Server:
    """Each server that speaks MySQL's protocol: a test with it runs on MariaDB and MySQL 8; in `make test-servers`, if it
    is marked `every_server`, on MySQL 5.5, 5.6 and 9."""
    server: Server = request.getfixturevalue(request.param)
    return server


@pytest.fixture(params=["mariadb", "mysql"])
def own_source(request: pytest.FixtureRequest, quick_directory: Path) -> Iterator[Server]:
    """A server of one test alone: it may be started again, its log purged and reset."""
    directory = quick_directory / unique_name("own")
    server = {"mariadb": start_mariadb, "mysql": start_mysql}[request.param](directory)
    yield server
    server.stop(immediate=True)
    shutil.rmtree(directory)


@pytest.fixture
def source_database(request: pytest.FixtureRequest) -> Iterator[Callable[[Server], Database]]:
    """`source_database(server)` makes an empty database there, dropped after the test."""
    made: list[Database] = []

    def make(server: Server) -> Database:
        made.append(create_database(server, request.node.name))
        return made[-1]

    yield make
    for database in made:
        drop_database(database)


@pytest.fixture
def target_database(postgresql: Server, request: pytest.FixtureRequest) -> Iterator[Database]:
    """An empty PostgreSQL database, dropped after the test."""
    database = create_database(postgresql, request.node.name)
    yield database
    drop_database(database)


@pytest.fixture
def scenario(
    source_database: Callable[[Server], Database],
    target_database: Database,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[Callable[..., Scenario]]:
    """`scenario(server, *statements)` makes a job between a new database there and a new one at the PostgreSQL."""
    made: list[Scenario] = []
    is_quick = bool(request.node.get_closest_marker("quick")) and not request.config.getoption("--spark")

    def make(server: Server, *statements: str, **options: Any) -> Scenario:
        database = source_database(server)
        database.execute(*statements)
        kind = FromPostgres if server.name == "postgresql" else Scenario
        made.append(kind(database, target_database, tmp_path / f"job{len(made)}", is_quick=is_quick, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def _describe(name: str) -> str:
    try:
        server = server_from_environment(name)
        if server is None:
            return f"server: {_FINDERS[name]()}"
        return f"server: {server.name} {server.version} ({server.host}:{server.port}, {dsn_variable(name)})"
    except ServerUnavailable as e:
        return f"server: {name}: {e}"


def _serve(name: str, start: Callable[[Path], Server], directory: Path, config: pytest.Config) -> Iterator[Server]:
    server = None
    try:
        server = server_from_environment(name) or start(directory / name)
    except ServerUnavailable as e:
        reason = str(e)
    if server is None:
        pytest.fail(reason, pytrace=False)
    config.stash.setdefault(_USED, []).append(f"{server.name} {server.version}")
    if server.can_restart and server.name == "postgresql":
        _keep_catalogue(server)
    yield server
    if server.can_restart:
        server.stop(immediate=True)


def _keep_catalogue(server: Server) -> None:
    """Connect to the template once: a new database is a copy of its files, and the first session of a database writes what it
    knows of the catalogue into one of them, which costs 7 ms and is then found in each copy."""
    with closing(connect(server, "template1")) as connection:
        connection.execute("SELECT 1")

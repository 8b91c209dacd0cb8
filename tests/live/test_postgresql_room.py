"""Preflight of either end at a PostgreSQL: how many connections there are for the job, and a database that it may not enter."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest

from anabranch.cli.main import exit_code
from anabranch.connectors.postgresql.source import preflight_server as source_server
from anabranch.connectors.postgresql.target import connector as target
from anabranch.connectors.postgresql.target import preflight_server
from anabranch.contracts import PreflightContext
from anabranch.model.checks import CheckResult
from anabranch.model.endpoint import Endpoint
from anabranch.testing.databases import Database, create_database, drop_database, unique_name
from anabranch.testing.in_time import until
from anabranch.testing.servers import Server, start_postgresql
from rigs.endpoints import endpoint_of
from rigs.preflight_postgresql import results_of

PARALLEL = 4  # pieces at once, where the job file does not say


def at_target(endpoint: Endpoint, administrator: Endpoint) -> CheckResult:
    with closing(target(endpoint).checks()) as checks:
        found = checks.run(PreflightContext("job", {}, {}, {}))
    (one,) = (result for result in found if result.check == "target.connections")
    return one


def at_source(endpoint: Endpoint, administrator: Endpoint) -> CheckResult:
    (one,) = (result for result in results_of(endpoint, administrator) if result.check == "source.connections")
    return one


def settled(
    found: Callable[[Endpoint, Endpoint], CheckResult], user: Endpoint, whole: Endpoint, *words: str
) -> CheckResult:
    """The finding once it says this: a session that has just ended is counted for a moment."""
    last: list[CheckResult] = []

    def says() -> bool:
        last[:] = [found(user, whole)]
        return all(word in f"{last[0].verdict} {last[0].message} {last[0].hint}" for word in words)

    until(says, last)
    return last[0]


BOTH = [
    pytest.param(at_target, preflight_server.OUR_CONNECTIONS, id="target"),
    pytest.param(at_source, source_server.OUR_CONNECTIONS, id="source"),
]


@contextmanager
def limited(database: Database) -> Iterator[Endpoint]:
    """A plain user's, who sees nobody else's sessions."""
    role = f"{database.name}_user"
    database.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'p'")
    try:
        yield replace(endpoint_of(database), user=role, password="p")
    finally:
        database.execute(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


@pytest.mark.parametrize(("found", "own"), BOTH)
def test_limits_of_a_role_and_a_database(logical_postgresql: Server, found, own: int) -> None:
    """What can never be enough fails, what is enough for fewer pieces is a warning; superusers have no such limits."""
    database = create_database(logical_postgresql, "room")
    whole, most = endpoint_of(database), own + PARALLEL
    try:
        with limited(database) as user:
            settled(found, user, whole, "ok")
            for of in (f"ROLE {user.user}", f"DATABASE {database.name}"):
                name = of.split()[1]
                for limit, verdict in ((own, "failed"), (own + 1, "warning"), (most - 1, "warning"), (most, "ok")):
                    database.execute(f"ALTER {of} CONNECTION LIMIT {limit}")
                    one = settled(found, user, whole, verdict)
                    assert one.verdict == verdict, one
                    if verdict != "ok":
                        assert f"{name} " in one.message and f"opens up to {most}" in one.message
                        assert f'ALTER {of.split()[0]} "{name}" CONNECTION LIMIT {most};' in one.hint
                        assert f"lower [load] parallel, which is {PARALLEL}" in one.hint
                assert found(whole, whole).verdict == "ok"
                database.execute(f"ALTER {of} CONNECTION LIMIT -1")
    finally:
        drop_database(database)


@pytest.mark.parametrize(("found", "own"), BOTH)
def test_what_others_have_is_not_free(logical_postgresql: Server, found, own: int) -> None:
    """Sessions of other users, which a plain user cannot look into; the job's own count as free."""
    database = create_database(logical_postgresql, "room")
    whole, most = endpoint_of(database), own + PARALLEL
    try:
        with limited(database) as user, ExitStack() as others:
            database.execute(f"ALTER DATABASE {database.name} CONNECTION LIMIT {most + 2}")
            for _ in range(2):
                others.enter_context(closing(database.connect()))
            own_one = replace(database, server=replace_user(database.server, user))
            others.enter_context(closing(own_one.connect(application_name="anabranch-state")))
            settled(found, user, whole, "ok")
            others.enter_context(closing(database.connect()))
            one = settled(found, user, whole, "warning", f"others have 3: {most - 1} are free")
            assert f"CONNECTION LIMIT {3 + most};" in one.hint
    finally:
        drop_database(database)


def replace_user(server: Server, user: Endpoint) -> Server:
    return Server(server.name, server.version, server.host, server.port, user.user, user.password)


def test_a_server_with_few_connections(servers_directory: Path) -> None:
    """What is reserved for administrators is not for the job, unless it is one."""
    options = ("--wal-level=logical", "--max-connections=30")
    with start_postgresql(servers_directory / unique_name("few"), options=options) as server:
        database = Database(server, "postgres")
        database.execute("ALTER SYSTEM SET reserved_connections = 1")
        with limited(database) as user:
            for case in BOTH:
                found, own = case.values
                for usable, verdict in ((own, "failed"), (own + 1, "warning"), (own + PARALLEL, "ok")):
                    database.execute(f"ALTER SYSTEM SET superuser_reserved_connections = {29 - usable}")
                    server.stop()
                    server.start()
                    wanted = f"ALTER SYSTEM SET max_connections = {own + PARALLEL + 30 - usable}; restart the"
                    few = settled(found, user, endpoint_of(database), verdict, *[wanted] * (verdict != "ok"))
                    assert few.verdict == verdict, few
                    if verdict != "ok":
                        assert f"the server has {usable} for ordinary users" in few.message
                        assert wanted in few.hint


@pytest.mark.parametrize("shut", ["source", "target"])
def test_a_database_that_the_user_may_not_enter_is_a_finding_with_its_grant(
    logical_postgresql: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str], shut: str
) -> None:
    """Issue: it was an error. Also where both are shut; other errors stay errors."""
    ends = {name: create_database(logical_postgresql, name) for name in ("source", "target")}
    ends["source"].execute("CREATE TABLE item (id int PRIMARY KEY)")
    closed = ends[shut]
    try:
        with limited(closed) as user:
            closed.execute(f"REVOKE CONNECT ON DATABASE {closed.name} FROM PUBLIC")
            places = {name: endpoint_of(database) for name, database in ends.items()} | {shut: user}
            file = job_of(tmp_path, places)
            assert ended(["preflight", str(file), "--json"]) == 3
            (one,) = json.loads(capsys.readouterr().out)["checks"]
            grant = f'GRANT CONNECT ON DATABASE "{closed.name}" TO "{user.user}"'
            assert (one["check"], one["verdict"], one["hint"]) == (f"{shut}.rights", "failed", grant)
            assert ended(["run", str(file), "--until-caught-up"]) == 3
            assert grant in capsys.readouterr().err
            closed.execute(one["hint"])
            ended(["preflight", str(file), "--json"])
            assert grant not in json.dumps(json.loads(capsys.readouterr().out)["checks"])
            file = job_of(tmp_path, places | {shut: replace(user, database="nowhere")})
            assert ended(["preflight", str(file)]) in (5, 6)
    finally:
        for database in ends.values():
            drop_database(database)


def ended(arguments: list[str]) -> int:
    try:
        return exit_code(arguments)
    except SystemExit as end:
        return int(end.code or 0)


def job_of(directory: Path, ends: dict[str, Endpoint]) -> Path:
    def url(end: Endpoint) -> str:
        return f"postgresql://{quote(end.user)}:{quote(end.password)}@{end.host}:{end.port}/{end.database}"

    file = directory / "shut.toml"
    tables = "".join(f'[{name}]\nurl = "{url(end)}"\n' for name, end in ends.items())
    file.write_text(f'name = "shut"\n{tables}[[rules]]\ninclude = ["public.*"]\n')
    return file

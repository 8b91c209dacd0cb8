"""MySQL and MariaDB: every way in (TLS, sockets, IPv6, ways to log in), for questions and for the log; and what is refused."""

from __future__ import annotations

import getpass
import shutil
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from anabranch.cli.main import exit_code
from anabranch.config.url import parse_url
from anabranch.connectors.mysql.connection import ask, connect
from anabranch.connectors.mysql.source.dump import Dump
from anabranch.connectors.mysql.source.log_end import log_end
from anabranch.connectors.mysql.target import session
from anabranch.errors import ConfigError, SourceError, SourceUnavailable, TargetUnavailable
from anabranch.model.endpoint import EndLimits, Endpoint
from anabranch.testing import packages
from anabranch.testing.certificates import Certificates, make_certificates
from anabranch.testing.databases import Database, unique_name
from anabranch.testing.databases import connect as connect_as_root
from anabranch.testing.servers import Server, start_mariadb, start_mysql

PASSWORD = "pa ss'wörd"
PLUGINS = ("auth_ed25519.so", "auth_pam_v1.so")
REPLICATES = {"mysql": "REPLICATION SLAVE, REPLICATION CLIENT", "mariadb": "REPLICATION SLAVE, BINLOG MONITOR"}
START = {"mariadb": start_mariadb, "mysql": start_mysql}


@pytest.fixture(scope="module")
def certificates(servers_directory: Path) -> Certificates:
    directory = servers_directory / unique_name("certificates")
    directory.mkdir()
    return make_certificates(directory, "localhost")


@pytest.fixture(scope="module", params=["mariadb", "mysql"])
def open_server(
    request: pytest.FixtureRequest, servers_directory: Path, certificates: Certificates
) -> Iterator[Server]:
    """Listens on IPv4 and IPv6, with a certificate for `localhost`."""
    options = ["--bind-address=*", *_tls_options(certificates)]
    if request.param == "mysql":
        options.append("--plugin-load-add=auth_socket.so")
    else:
        plugins = servers_directory / unique_name("plugins")
        plugins.mkdir()
        for plugin in PLUGINS:
            shutil.copy(packages.find_mariadb_plugin(plugin), plugins)
        options += [f"--plugin-dir={plugins}", *(f"--plugin-load-add={plugin}" for plugin in PLUGINS)]
    with START[request.param](servers_directory / unique_name(f"open-{request.param}"), options=options) as server:
        execute(
            server, "CREATE USER tls@'%' IDENTIFIED BY 'pw' REQUIRE SSL", "CREATE USER plain@'%' IDENTIFIED BY 'pw'"
        )
        execute(server, *(f"GRANT {REPLICATES[server.name]} ON *.* TO {user}@'%'" for user in ("tls", "plain")))
        yield server


def _tls_options(made: Certificates) -> list[str]:
    return [f"--ssl-ca={made.authority}", f"--ssl-cert={made.certificate}", f"--ssl-key={made.key}"]


def execute(server: Server, *statements: str) -> None:
    with closing(connect_as_root(server)) as connection, closing(connection.cursor()) as cursor:
        for statement in statements:
            cursor.execute(statement)


def url(
    server: Server, user: str = "tls", host: str = "127.0.0.1", password: str = "pw", **options: object
) -> Endpoint:
    query = "&".join(f"{name}={value}" for name, value in options.items())
    text = f"{server.name}://{user}:${{PASSWORD}}@{host}:{server.port}/?{query}"
    endpoint, problems = parse_url(text, {"PASSWORD": password}, needs_database=False, role="source")
    assert endpoint is not None, problems
    return endpoint


def cipher(endpoint: Endpoint) -> str:
    """Of a session that may ask; "" without TLS."""
    with closing(connect(endpoint)) as connection:
        return str(ask(connection, "SHOW SESSION STATUS LIKE 'Ssl_cipher'")[0][1])


def receives_the_log(endpoint: Endpoint) -> bool:
    with closing(connect(endpoint)) as connection:
        place = log_end(connection)
    with closing(Dump(endpoint, 77123, replace(place, offset=4))) as dump:
        until = time.monotonic() + 120
        while time.monotonic() < until:
            if dump.receive(1.0):
                return True
    return False


def refused(endpoint: Endpoint) -> SourceError:
    with pytest.raises(SourceError) as error:
        connect(endpoint)
    assert not isinstance(error.value, SourceUnavailable), "trying again would not help"
    assert endpoint.place in error.value.message
    assert error.value.hint and endpoint.password not in str(error.value)
    return error.value


def test_tls_with_and_without_verification(open_server: Server, certificates: Certificates) -> None:
    ca = certificates.authority
    for host, options in (
        ("127.0.0.1", {}),
        ("127.0.0.1", {"ssl_mode": "required"}),
        ("127.0.0.1", {"ssl_ca": ca}),
        ("127.0.0.1", {"ssl_ca": ca, "ssl_mode": "verify_ca"}),
        ("127.0.0.1", {"ssl_ca": ca, "ssl_mode": "required"}),
        ("localhost", {"ssl_ca": ca, "ssl_mode": "verify_identity"}),
        ("[::1]", {"ssl_ca": ca}),
    ):
        endpoint = url(open_server, host=host, **options)
        assert cipher(endpoint), (host, options)
        assert receives_the_log(endpoint), (host, options)
    assert not cipher(url(open_server, "plain", ssl_mode="disabled"))


def test_tls_that_does_not_come_about_is_said_in_one_message(
    open_server: Server, certificates: Certificates, mariadb: Server
) -> None:
    ca = certificates.authority
    wrong = refused(url(open_server, ssl_ca=certificates.stranger))
    assert "certificate verify failed" in wrong.message and "not signed by the authority in ssl_ca" in wrong.hint
    required = refused(url(open_server, ssl_ca=certificates.stranger, ssl_mode="required"))
    assert "certificate verify failed" in required.message
    another = refused(url(open_server, ssl_ca=ca, ssl_mode="verify_identity"))
    assert "127.0.0.1" in another.message and "ssl_mode=verify_ca" in another.hint
    unencrypted = refused(url(open_server, ssl_mode="disabled"))
    assert "1045" in unencrypted.message  # REQUIRE SSL: the server tells nobody why
    has_tls = dict(Database(mariadb, "").query("SHOW GLOBAL VARIABLES LIKE 'have_ssl'"))["have_ssl"] == "YES"
    assert not has_tls
    without = refused(replace(url(mariadb, ssl_mode="required"), user=mariadb.user, password=mariadb.password))
    assert "doesn't support" in without.message and "switch TLS on at the server" in without.hint


def test_a_postgresql_that_waits_for_us_is_told_as_a_server_of_another_kind(postgresql: Server) -> None:
    text = f"mysql://root:${{PASSWORD}}@127.0.0.1:{postgresql.port}/"
    endpoint, problems = parse_url(text, {"PASSWORD": PASSWORD}, needs_database=False, role="source")
    assert endpoint is not None, problems
    there = replace(endpoint, limits=EndLimits(connect=2.0))
    with pytest.raises(SourceUnavailable, match="no greeting came") as error:
        connect(there)
    assert "a PostgreSQL perhaps" in error.value.hint
    with pytest.raises(TargetUnavailable, match="no greeting came") as refused:
        session.connect(there, "test")
    assert "a PostgreSQL perhaps" in refused.value.hint


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ssl_mode": "preferred", "ssl_ca": "ca.pem"}, "ssl_mode=preferred in the URL has no use for ssl_ca"),
        (
            {"ssl_mode": "disabled", "ssl_cert": "c", "ssl_key": "k"},
            "ssl_mode=disabled .* no use for ssl_cert, ssl_key",
        ),
        ({"ssl_mode": "required", "ssl_key": "k"}, "ssl_key and no ssl_cert"),
        ({"ssl_key": "k"}, "ssl_key and no ssl_cert"),
    ],
)
def test_files_that_would_not_be_used_are_refused(options: dict[str, str], message: str) -> None:
    query = tuple(options.items())
    with pytest.raises(ConfigError, match=message) as error:
        connect(Endpoint("mysql", "localhost", 9, "u", "p", options=query))
    assert error.value.hint


def test_unix_sockets_and_ipv6(open_server: Server) -> None:
    assert open_server.datadir is not None
    socket = open_server.datadir / "server.sock"
    for endpoint in (
        url(open_server, "plain", "[::1]"),
        url(open_server, "plain", "[::1]", ssl_mode="disabled"),
        url(open_server, "plain", unix_socket=socket),
    ):
        assert receives_the_log(endpoint)
        with closing(connect(endpoint)) as connection:
            ((user,),) = ask(connection, "SELECT USER()")
        assert user == ("plain@localhost" if endpoint.option("unix_socket") else "plain@::1")
    assert str(url(open_server, "plain", "[::1]")) == f"{open_server.name}://plain@[::1]:{open_server.port}/"
    with pytest.raises(SourceUnavailable, match=r"nobody\.sock: "):
        connect(url(open_server, "plain", unix_socket=socket.with_name("nobody.sock")))


LOGINS = {
    "mysql": {
        "native": f"IDENTIFIED WITH mysql_native_password BY '{PASSWORD.replace(chr(39), chr(39) * 2)}'",
        "caching": f"IDENTIFIED WITH caching_sha2_password BY '{PASSWORD.replace(chr(39), chr(39) * 2)}'",
        "sha256": f"IDENTIFIED WITH sha256_password BY '{PASSWORD.replace(chr(39), chr(39) * 2)}'",
    },
    "mariadb": {
        "native": f"IDENTIFIED VIA mysql_native_password USING PASSWORD('{PASSWORD.replace(chr(39), chr(39) * 2)}')",
        "ed25519": f"IDENTIFIED VIA ed25519 USING PASSWORD('{PASSWORD.replace(chr(39), chr(39) * 2)}')",
    },
}


def test_ways_to_log_in(open_server: Server) -> None:
    """The first login of caching_sha2_password is in full: its cache is empty again after FLUSH PRIVILEGES."""
    assert open_server.datadir is not None
    socket = open_server.datadir / "server.sock"
    for user, identified in LOGINS[open_server.name].items():
        execute(
            open_server,
            f"CREATE USER {user}@'%' {identified}",
            f"GRANT {REPLICATES[open_server.name]} ON *.* TO {user}@'%'",
        )
        for options in ({"ssl_mode": "disabled"}, {"ssl_mode": "required"}, {"unix_socket": socket}):
            execute(open_server, "FLUSH PRIVILEGES")
            assert receives_the_log(url(open_server, user, password=PASSWORD, **options)), (user, options)
            assert "1045" in refused(url(open_server, user, password="wrong", **options)).message


ON_MARIADB = pytest.mark.parametrize("open_server", ["mariadb"], indirect=True, scope="module")


def test_login_by_the_accounts_own_name_on_the_socket(open_server: Server) -> None:
    """https://mariadb.com/kb/en/authentication-plugin-unix-socket/ · https://dev.mysql.com/doc/refman/8.0/en/socket-pluggable-authentication.html"""
    assert open_server.datadir is not None
    me = getpass.getuser()
    how = "WITH auth_socket" if open_server.name == "mysql" else "VIA unix_socket"
    verb = "ALTER" if me == "root" else "CREATE"  # root is an account already
    execute(open_server, f"{verb} USER '{me}'@'localhost' IDENTIFIED {how}")
    connect(url(open_server, me, password="", unix_socket=open_server.datadir / "server.sock")).close()


@ON_MARIADB
def test_passwords_are_not_told_in_clear_text(open_server: Server) -> None:
    """MySQL's plugins that ask so do not come with it."""
    execute(open_server, "CREATE USER told@'%' IDENTIFIED VIA pam USING 'anything'")
    for options in ({}, {"ssl_mode": "disabled"}):
        error = refused(url(open_server, "told", password="secret", **options))
        assert "told in clear text" in error.message and "ed25519" in error.hint


@pytest.mark.servers
def test_the_tls_of_old_servers_is_refused(servers_directory: Path) -> None:
    """As MySQL 5.6 came, it speaks TLS 1.0 at best, which today's libraries do not."""
    directory = servers_directory / unique_name("old-certificates")
    directory.mkdir()
    certificates = make_certificates(directory, "localhost", is_old=True)
    with start_mysql(
        servers_directory / unique_name("old-tls"), release="5.6", options=_tls_options(certificates)
    ) as server:
        root = url(server, server.user, password=server.password)
        for options in ((), (("ssl_mode", "required"),), (("ssl_ca", str(certificates.authority)),)):
            assert "too old to be safe" in refused(replace(root, options=options)).hint
        assert not cipher(replace(root, options=(("ssl_mode", "disabled"),)))


@pytest.mark.servers
def test_the_password_of_mysql_4_is_refused(mysql55: Server) -> None:
    """https://dev.mysql.com/doc/refman/5.5/en/old-native-pluggable-authentication.html"""
    execute(
        mysql55,
        "GRANT USAGE ON *.* TO ancient@'%'",
        "SET SESSION old_passwords = 1",
        "SET PASSWORD FOR ancient@'%' = OLD_PASSWORD('pw')",
    )
    assert "MySQL 4.0" in refused(url(mysql55, "ancient")).message


def test_a_job_over_ipv6_with_verified_ends(
    open_server: Server, certificates: Certificates, target_database: Database, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    target = target_database.server
    file = tmp_path / "job.toml"
    execute(open_server, "CREATE DATABASE IF NOT EXISTS shop", "CREATE TABLE IF NOT EXISTS shop.t (id int primary key)")
    execute(open_server, *(f"GRANT {right} ON shop.* TO tls@'%'" for right in ("SELECT", "REFERENCES")))
    file.write_text(
        f'name = "job"\n[source]\nurl = "{open_server.name}://tls:pw@[::1]:{open_server.port}?ssl_ca={certificates.authority}"\n'
        f'[target]\nurl = "postgresql://{target.user}:{target.password}@{target.host}:{target.port}/{target_database.name}'
        f'?ssl_mode=preferred"\n[[rules]]\ninclude = ["shop.*"]\n'
    )
    assert exit_code(["preflight", str(file)]) == 0
    assert "0 failed" in capsys.readouterr().out

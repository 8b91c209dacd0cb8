"""PostgreSQL: every way in (TLS, sockets, IPv6), and what is refused."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from psycopg import sql

from anabranch import connectors
from anabranch.config.url import parse_url
from anabranch.connectors.postgresql.connection import connect
from anabranch.connectors.postgresql.copy_out import copied
from anabranch.connectors.postgresql.source.connection import open_session
from anabranch.errors import SourceError, SourceUnavailable, TargetError, TargetUnavailable
from anabranch.model.endpoint import Endpoint
from anabranch.testing.certificates import Certificates, make_certificates
from anabranch.testing.databases import unique_name
from anabranch.testing.faults import Proxy
from anabranch.testing.processes import give_away
from anabranch.testing.servers import Server, start_postgresql

LISTEN = "--listen-addresses=127.0.0.1,::1"


@pytest.fixture
def socket_directory() -> Iterator[Path]:
    """A short path: PostgreSQL takes no more than 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="pg-", dir="/tmp") as name:
        give_away(Path(name))
        yield Path(name)


def url(server: Server, host: str = "127.0.0.1", **options: object) -> Endpoint:
    query = "&".join(f"{name}={value}" for name, value in options.items())
    text = f"postgresql://{server.user}:${{PASSWORD}}@{host}:{server.port}/postgres?{query}"
    endpoint, problems = parse_url(text, {"PASSWORD": server.password}, needs_database=True, role="target")
    assert endpoint is not None, problems
    return endpoint


def is_encrypted(endpoint: Endpoint) -> bool:
    with closing(connect(endpoint, "test")) as connection:
        found = connection.execute("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").fetchone()
        assert found is not None
        return bool(found[0])


def refused(endpoint: Endpoint) -> TargetError:
    with pytest.raises(TargetError) as error:
        connect(endpoint, "test")
    assert not isinstance(error.value, TargetUnavailable), "trying again would not help"
    assert str(endpoint) in error.value.message and endpoint.password not in str(error.value)
    return error.value


def test_postgresql_sockets_and_ipv6(servers_directory: Path, socket_directory: Path) -> None:
    options = [LISTEN, f"--unix-socket-directories={socket_directory}"]
    with start_postgresql(servers_directory / unique_name("sockets"), options=options) as server:
        assert not is_encrypted(url(server, "[::1]"))
        by_socket = url(server, "", unix_socket=socket_directory)
        assert not is_encrypted(by_socket)
        assert str(by_socket) == f"postgresql://postgres@{socket_directory}/postgres"
        without = refused(url(server, "[::1]", ssl_mode="required"))
        assert "switch TLS on at the target" in without.hint


@pytest.mark.parametrize("mode", ["disabled", "preferred", "required"])
def test_a_mysql_is_told_from_a_postgresql_that_has_no_tls(mysql: Server, mode: str) -> None:
    """It was tried again for ever, or files of certificates were to be looked at."""
    there = replace(url(mysql, ssl_mode=mode), password=mysql.password)
    assert "a MySQL or MariaDB perhaps" in refused(there).hint
    with pytest.raises(SourceError, match="cannot connect") as error:
        open_session(there)
    assert not isinstance(error.value, SourceUnavailable) and "a MySQL or MariaDB perhaps" in error.value.hint


@pytest.fixture(scope="module")
def encrypted(servers_directory: Path) -> Iterator[tuple[Server, Certificates]]:
    directory = servers_directory / unique_name("target-certificates")
    directory.mkdir()
    made = make_certificates(directory, "localhost")
    options = [LISTEN, "--ssl=on", f"--ssl-cert-file={made.certificate}", f"--ssl-key-file={made.key}"]
    with start_postgresql(servers_directory / unique_name("encrypted"), with_tls=True, options=options) as server:
        yield server, made


@pytest.mark.servers
def test_postgresql_tls(encrypted: tuple[Server, Certificates]) -> None:
    server, made = encrypted
    ca = made.authority
    assert is_encrypted(url(server))
    assert not is_encrypted(url(server, ssl_mode="disabled"))
    assert is_encrypted(url(server, "localhost", ssl_ca=ca))
    assert is_encrypted(url(server, "localhost", ssl_ca=ca, ssl_mode="verify_identity"))
    assert is_encrypted(url(server, "[::1]", ssl_ca=ca, ssl_mode="verify_ca"))
    assert "not signed by the authority" in refused(url(server, "localhost", ssl_ca=made.stranger)).hint
    assert "another host name" in refused(url(server, "127.0.0.1", ssl_ca=ca)).hint
    assert "ssl_ca" in refused(url(server, ssl_ca=ca.with_name("nothing.pem"))).hint
    with closing(connect(url(server), "test", autocommit=True)) as connection:
        assert list(copied(connection, sql.SQL("COPY (SELECT 7) TO STDOUT").format())) == [b"7\n"]


@pytest.mark.servers
def test_pitfall_44_a_tls_line_that_is_cut_is_a_line_that_is_cut(encrypted: tuple[Server, Certificates]) -> None:
    """What the library says then is about SSL, and nobody's mistake."""
    server, _ = encrypted
    with Proxy(server.host, server.port) as line:
        there = replace(url(server, ssl_mode="required"), port=line.port)
        with closing(connectors.target(there).store()) as store:
            for _ in range(2):
                assert store.exists() in (False, True)
                line.cut()
                with pytest.raises(TargetUnavailable):
                    store.exists()

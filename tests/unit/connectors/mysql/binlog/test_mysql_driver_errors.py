"""Driver errors as errors of our tree."""

from __future__ import annotations

import ssl

import pymysql
import pytest

from anabranch.connectors.mysql.connection import connect
from anabranch.connectors.mysql.errors import of_number, translate
from anabranch.errors import ConfigError, LogLost, SchemaError, SourceError, SourceUnavailable
from anabranch.model.endpoint import Endpoint


def test_errors_keep_their_class_and_say_what_to_do() -> None:
    assert type(translate(pymysql.err.OperationalError(2013, "Lost connection"))) is SourceUnavailable
    assert type(translate(pymysql.err.OperationalError(1045, "Access denied"))) is SourceError
    assert type(translate(ConnectionResetError("reset"))) is SourceUnavailable
    assert type(translate(ssl.SSLError("bad"))) is SourceError
    assert type(translate(pymysql.err.InterfaceError(0, ""))) is SourceUnavailable
    assert type(of_number(1236, "Could not find first log file name in binary log index file")) is LogLost
    same = of_number(1236, "A replica with the same server_uuid/server_id as this replica has connected")
    assert type(same) is SourceError and "server_id" in same.hint
    changed = of_number(1412, "Table definition has changed, please retry transaction")
    assert type(changed) is SourceUnavailable and "read again" in changed.hint
    for number in (1054, 1146, 1176):
        gone = of_number(number, "Table 'shop.t' doesn't exist")
        assert type(gone) is SchemaError and "dropped, renamed or altered" in gone.hint
    assert translate(pymysql.err.ProgrammingError(1142, "SELECT command denied")).hint


@pytest.mark.parametrize(
    "options, problem",
    [
        ((("sslmode", "required"),), "unknown option sslmode"),
        ((("ssl_mode", "sometimes"),), "unknown ssl_mode"),
        ((("ssl_ca", "/nonexistent.pem"),), "cannot be used"),
    ],
)
def test_options_of_the_url_are_checked(options: tuple[tuple[str, str], ...], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        connect(Endpoint("mysql", "127.0.0.1", 1, "u", "secret", "", options))


def test_nobody_listening_is_unavailable_and_no_secret_is_told() -> None:
    with pytest.raises(SourceUnavailable) as lost:
        connect(Endpoint("mysql", "127.0.0.1", 1, "u", "sècret"))
    assert "sècret" not in str(lost.value) and "sècret" not in repr(lost.value)

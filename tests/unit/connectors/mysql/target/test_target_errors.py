"""Errors of a target that speaks MySQL's protocol: what each asks for, and that no value of a row gets into a message."""

from __future__ import annotations

import ssl

import pymysql
import pytest

from anabranch.connectors.mysql.errors import translate as source_error
from anabranch.connectors.mysql.target.errors import (
    BY_TEXT,
    MEANINGS,
    Meaning,
    connecting,
    describe,
    meaning,
    translate,
    translated,
)
from anabranch.contracts import Conflict
from anabranch.errors import (
    NOT_ADMITTED,
    ConfigError,
    SourceError,
    SourceUnavailable,
    TargetBusy,
    TargetError,
    TargetFull,
    TargetUnavailable,
)
from anabranch.model.ids import TableId

TABLE = TableId("shop", "orders")
QUOTES = (
    (1062, "Duplicate entry 'se'cret' for key 'orders.PRIMARY'", "Duplicate entry … for key 'orders.PRIMARY' [1062]"),
    (1292, "Incorrect datetime value: 'secret' for column 'at' at row 1",
     "Incorrect datetime value: … for column 'at' at row 1 [1292]"),
    (1292, "Truncated incorrect DOUBLE value: 'secret'", "Truncated incorrect DOUBLE value: … [1292]"),
    (1366, "Incorrect string value: '\\xF0' for column `shop`.`orders`.`word` at row 1",
     "Incorrect string value: … for column `shop`.`orders`.`word` at row 1 [1366]"),
    (1064, "You have an error near 'secret', 'b') at line 1", "You have an error near …) at line 1 [1064]"),
    (1557, "Upholding foreign key constraints for table 't', entry 'secret', key 1 would lead to a duplicate entry",
     "Upholding foreign key constraints for table 't', entry …, key 1 would lead to a duplicate entry [1557]"),
    (1690, "BIGINT UNSIGNED value is out of range in '(1 - 2)'", "BIGINT UNSIGNED value is out of range in … [1690]"),
    (1644, "secret", "refused by a trigger or routine [1644]"),
    (1264, "Out of range value for column 'id' at row 1", "Out of range value for column 'id' at row 1 [1264]"),
)  # fmt: skip


@pytest.mark.parametrize(("number", "text", "shown"), QUOTES)
def test_row_values_stay_out_of_messages(number: int, text: str, shown: str) -> None:
    assert describe(number, text) == shown
    assert "secret" not in str(translate(pymysql.err.Error(number, text), "doing", TABLE))


@pytest.mark.parametrize(
    ("number", "text", "kind"),
    [
        (1213, "Deadlock found", TargetBusy),
        (1205, "Lock wait timeout exceeded", TargetBusy),
        (2013, "Lost connection to MySQL server during query", TargetUnavailable),
        (0, "", TargetUnavailable),  # of a connection that is closed
        (1114, "The table 't' is full", TargetFull),
        (1030, "Got error 28 - 'No space left on device' from storage engine InnoDB", TargetFull),
        (1030, "Got error 168 from storage engine", TargetUnavailable),
        (1290, "The MySQL server is running with the --read-only option", TargetUnavailable),
        (1290, "The MySQL server is running with the --secure-file-priv option", TargetError),
        (1180, "Got error 149 - 'Lock deadlock; Retry transaction' during COMMIT", TargetBusy),
        (3948, "Loading local data is disabled", TargetError),
        (1062, "Duplicate entry '1' for key 'PRIMARY'", Conflict),
        (9999, "nobody knows", TargetError),
    ],
)
def test_each_error_asks_for_what_it_stands_for(number: int, text: str, kind: type[Exception]) -> None:
    found = translate(pymysql.err.OperationalError(number, text), "doing it", TABLE, {"id": "1"})
    assert type(found) is kind and "doing it" in str(found)
    assert not isinstance(found, Conflict) or found.key == {"id": "1"}


def test_without_a_table_a_conflict_is_an_error_of_the_target() -> None:
    with pytest.raises(TargetError, match="saving"), translated("saving"):
        raise pymysql.err.IntegrityError(1062, "Duplicate entry 'x' for key 'PRIMARY'")


def test_what_both_ends_share_speaks_of_the_target() -> None:
    with pytest.raises(TargetError, match="cannot connect: no") as found, connecting("cannot connect"):
        raise SourceError("no", hint="do this")
    assert found.value.hint == "do this"
    with pytest.raises(ConfigError), connecting("cannot connect"):
        raise ConfigError("wrong")
    lost = pymysql.err.OperationalError(2003, "Can't connect")
    lost.original_exception = ssl.SSLError(1, "[SSL: X] certificate verify failed: expired (_ssl.c:1)")
    assert "renew it" in str(translate(lost, "cannot connect"))


def test_who_may_not_enter_a_database_gets_the_grant() -> None:
    found = translate(pymysql.err.Error(1044, "Access denied for user 'app'@'10.%' to database 'sh`op'"), "doing")
    assert isinstance(found, TargetError) and found.code == NOT_ADMITTED
    assert found.hint == "GRANT ALL ON `sh``op`.* TO 'app'@'10.%'"


def test_every_number_that_words_decide_has_a_meaning_without_them() -> None:
    assert BY_TEXT.keys() <= MEANINGS.keys()
    assert all(words == words.lower() for rows in BY_TEXT.values() for words, _ in rows)
    assert meaning(424_242, "").meaning is Meaning.REFUSED


def test_an_answer_that_the_server_has_ended_in_the_middle_is_a_lost_connection_at_either_end() -> None:
    """As PyMySQL says it of a server that has waited for net_write_timeout while nobody read."""
    error = pymysql.err.InternalError("Packet sequence number wrong - got 1 expected 2")
    assert type(translate(error, "doing it", TABLE)) is TargetUnavailable
    assert type(source_error(error)) is SourceUnavailable

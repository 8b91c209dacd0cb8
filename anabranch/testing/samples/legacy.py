"""The one that has grown: whatever its definitions allow is in it."""

from __future__ import annotations

import random

from anabranch.testing.samples import Sample, Statements, insert, literal

ORDERS, CUSTOMERS, SESSIONS, LINES = 150, 60, 80, 100
NO_DATE, NO_TIME = "0000-00-00", "0000-00-00 00:00:00"
TEXTS = ("", "Müller", "50 € …", "tab\there", "it's", "back\\slash", "line\nline", "ÿþ", "  spaces  ", "NULL")
STATES = ("", "new", "done", "geprüft")
OPTIONS = ("", "a", "b", "a,b", "a,with space", "with space")


def fill(scale: int) -> Statements:
    chance = random.Random(3)
    yield from insert("`order`", (_order(chance, n + 1) for n in range(ORDERS * scale)))
    yield from insert("`tbl Kunden-Stamm`", (_customer(chance, n) for n in range(CUSTOMERS * scale)))
    yield from insert("`log`", (_line(chance) for _ in range(LINES * scale)))
    yield from insert(
        "`Session` (`ID`, `data`, `hits`, `flags`, `year`, `price`, `rest`, `age`)",
        (_session(chance, n) for n in range(SESSIONS * scale)),
    )
    yield from insert("`session`", ((n, n // 2 if n else None) for n in range(SESSIONS * scale)))


def _order(chance: random.Random, number: int) -> tuple[object, ...]:
    when = chance.choice((NO_TIME, "1999-12-31 23:59:59", "2004-02-29 12:00:00"))
    day = chance.choice((NO_DATE, None, "2001-09-09"))
    text = chance.choice((None, *TEXTS))
    return (
        number,
        chance.choice(TEXTS),
        f"k{number % 7}",
        text,
        when,
        day,
        chance.choice(STATES),
        chance.choice(OPTIONS),
    )


def _customer(chance: random.Random, number: int) -> tuple[object, ...]:
    height = chance.choice((None, 0.1, 180.555, -3.25, 9999.999))
    stamps = "2005-05-05 05:05:05", chance.choice((NO_TIME, "2005-01-01 00:00:00"))
    return (
        number,
        height,
        chance.randint(-128, 127),
        chance.choice(TEXTS),
        chance.choice((None, "a@example.org")),
        *stamps,
    )


def _line(chance: random.Random) -> tuple[object, ...]:
    """Return one of a few lines, so that many rows are equal."""
    return (
        f"2003-03-03 03:03:0{chance.randint(0, 3)}",
        chance.choice((None, "root")),
        "login",
        chance.choice((None, 2**32 - 1)),
    )


def _session(chance: random.Random, number: int) -> tuple[object, ...]:
    numbers = chance.choice((0, 2**63, 2**64 - 1)), chance.randrange(1 << 12), chance.choice((None, 0, 1901, 2155))
    rest = chance.choice((None, "-0.000000000001", "123456789012345678.123456789012"))
    data = chance.choice((None, b"", bytes(range(256))))
    return (
        f"{number:032x}",
        data,
        *numbers,
        chance.choice((0.0, 9.99, 123.45)),
        rest,
        chance.choice((None, "-838:59:59", "12:00:00")),
    )


def transaction(chance: random.Random) -> Statements:
    yield from chance.choices((_orders, _customers, _logs, _sessions, _shifts), (6, 3, 4, 4, 1))[0](chance)


def _orders(chance: random.Random) -> Statements:
    _, *values = _order(chance, 0)
    names = "`group`, `key`, `select`, `when`, `from`, `desc`, `option`"
    yield from insert(f"`order` ({names})", [values])
    yield f"UPDATE `order` SET `desc` = 'geprüft', `from` = '{NO_DATE}' WHERE `id` = {chance.randint(1, ORDERS)}"
    yield f"DELETE FROM `order` WHERE `id` = {chance.randint(1, ORDERS)} AND `desc` = ''"


def _customers(chance: random.Random) -> Statements:
    """Replace a row of a table without transactions: one statement is all."""
    number, *values = _customer(chance, chance.randrange(CUSTOMERS * 2))
    yield f"REPLACE INTO `tbl Kunden-Stamm` VALUES ({number}, {', '.join(map(literal, values))})"


def _logs(chance: random.Random) -> Statements:
    yield from insert("`log`", [_line(chance), _line(chance)])
    yield f"UPDATE `log` SET `what` = 'logout' WHERE `at` = '2003-03-03 03:03:0{chance.randint(0, 3)}' LIMIT 1"
    yield "DELETE FROM `log` WHERE `what` = 'logout' LIMIT 1"


def _sessions(chance: random.Random) -> Statements:
    who = f"{chance.randrange(SESSIONS):032x}"
    yield f"UPDATE `Session` SET `flags` = `flags` ^ 4095, `age` = NULL, `year` = 2005 WHERE `ID` = '{who}'"
    yield f"DELETE FROM `Session` WHERE `ID` = '{chance.randrange(SESSIONS):032x}'"
    yield from insert("`Session` (`ID`, `hits`)", [(f"{chance.getrandbits(128):032x}", chance.getrandbits(64))])


def _shifts(chance: random.Random) -> Statements:
    yield f"UPDATE `session` SET `ID` = `ID` + {chance.randint(1, 3)} ORDER BY `ID` DESC"


SAMPLE = Sample("legacy", fill, transaction, {"views": ("view",), "triggers": ("log insert",)})

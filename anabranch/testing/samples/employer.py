"""The employer: people are hired, promoted, paid more, moved, and leave with all their history."""

from __future__ import annotations

import random
from datetime import date, timedelta

from anabranch.testing.samples import Sample, Statements, insert

DEPARTMENTS = ("Customer Service", "Development", "Finance", "Human Resources", "Production", "Research", "Sales")
TITLES = ("Engineer", "Senior Engineer", "Staff", "Senior Staff", "Manager")
NAMES = ("Georgi", "Bezalel", "Parto", "Kyoichi", "Anneke", "Tzvetan", "Saniya", "Sumant")
EMPLOYEES, FIRST, FOREVER = 120, 10_001, date(9999, 1, 1)


def fill(scale: int) -> Statements:
    chance = random.Random(2)
    numbers = range(FIRST, FIRST + EMPLOYEES * scale)
    yield from insert("departments", ((f"d{n:03}", name) for n, name in enumerate(DEPARTMENTS)))
    yield from insert("employees", (_employee(chance, n) for n in numbers))
    yield from insert("dept_emp", ((n, _department(chance), _day(chance), FOREVER) for n in numbers))
    yield from insert("dept_manager", ((FIRST + n, f"d{n:03}", _day(chance), FOREVER) for n in range(len(DEPARTMENTS))))
    yield from insert(
        "titles", ((n, TITLES[n % 5], date(1990 + n % 9, 1, 1), None if n % 2 else FOREVER) for n in numbers)
    )
    yield from insert("salaries", (row for n in numbers for row in _salaries(chance, n)))


def _employee(chance: random.Random, number: int) -> tuple[object, ...]:
    born = date(1952, 2, 1) + timedelta(days=chance.randint(0, 5000))
    return number, born, chance.choice(NAMES), f"Name {number}", chance.choice("MF"), _day(chance)


def _department(chance: random.Random) -> str:
    return f"d{chance.randrange(len(DEPARTMENTS)):03}"


def _day(chance: random.Random) -> date:
    return date(1985, 1, 1) + timedelta(days=chance.randint(0, 5000))


def _salaries(chance: random.Random, number: int) -> list[tuple[object, ...]]:
    days = [date(1990 + year, 6, 26) for year in range(chance.randint(2, 10))]
    ends = [*days[1:], FOREVER]
    return [(number, chance.randint(38_000, 150_000), begin, end) for begin, end in zip(days, ends, strict=True)]


def transaction(chance: random.Random) -> Statements:
    yield from chance.choices((_hired, _paid_more, _promoted, _moved, _left, _renumbered), (4, 9, 5, 3, 2, 1))[0](
        chance
    )


def _somebody(chance: random.Random) -> int:
    return FIRST + chance.randrange(EMPLOYEES)


def _hired(chance: random.Random) -> Statements:
    number = FIRST + EMPLOYEES + chance.randrange(100_000)
    yield from insert("employees", [_employee(chance, number)])
    yield from insert("dept_emp", [(number, _department(chance), _day(chance), FOREVER)])
    yield from insert("titles", [(number, chance.choice(TITLES), _day(chance), None)])
    yield from insert("salaries", _salaries(chance, number))


def _paid_more(chance: random.Random) -> Statements:
    """The last salary ends, which is no part of its key, and a new one begins."""
    who, day = _somebody(chance), date(2000, 1, 1) + timedelta(days=chance.randrange(3000))
    yield f"UPDATE salaries SET to_date = GREATEST(from_date, '{day}') WHERE emp_no = {who} AND to_date = '{FOREVER}'"
    yield (
        f"INSERT INTO salaries SELECT emp_no, {chance.randint(40_000, 160_000)}, '{day}', '{FOREVER}' FROM employees"
        f" WHERE emp_no = {who} ON DUPLICATE KEY UPDATE salary = salary + 1000, to_date = '{FOREVER}'"
    )


def _promoted(chance: random.Random) -> Statements:
    """A part of the key changes."""
    who = _somebody(chance)
    yield f"UPDATE titles SET title = CONCAT('Senior ', title) WHERE emp_no = {who} AND LENGTH(title) < 40"
    yield f"UPDATE salaries SET salary = salary * 1.1 WHERE emp_no = {who} ORDER BY from_date DESC LIMIT 1"


def _moved(chance: random.Random) -> Statements:
    who = _somebody(chance)
    yield f"UPDATE IGNORE dept_emp SET dept_no = '{_department(chance)}' WHERE emp_no = {who}"
    yield f"UPDATE employees SET last_name = REVERSE(last_name) WHERE emp_no = {who}"


def _left(chance: random.Random) -> Statements:
    """Four tables lose rows that the log does not name."""
    yield f"DELETE FROM employees WHERE emp_no = {_somebody(chance)}"


def _renumbered(chance: random.Random) -> Statements:
    """Refused by the foreign keys, where there is history: nothing of it may arrive."""
    yield f"UPDATE departments SET dept_name = CONCAT(dept_name, '+') WHERE dept_no = '{_department(chance)}'"
    yield f"UPDATE employees SET emp_no = emp_no + 500000 WHERE emp_no = {_somebody(chance)}"


SAMPLE = Sample("employer", fill, transaction, {"views": ("current_dept_emp",)})

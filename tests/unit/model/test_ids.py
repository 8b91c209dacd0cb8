"""Names of tables as commands have them: what a message tells people to type names the table that it is about."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import anabranch
from anabranch.model.ids import TableId

ROOT = Path(anabranch.__file__).parent
NAMES = (
    "orders",
    "Order Line",
    'sel"ect',
    "o'brien",
    "dot.ted",
    "dol$HOME",
    "b`t`",
    "a\\b",
    "se;mi",
    "ümlaut",
    "star*",
    "#1",
)
COMMAND = re.compile(r"(\banabranch ([a-z-]+ )+|\bchmod 600 | -o )$")
FILE = re.compile(r"(^|[._])(job|path|file|output)$")
BEFORE = ("--table ", "--tables ", "parked show JOB ", "parked release JOB ", "parked resume JOB ")


@pytest.mark.parametrize("name", NAMES)
def test_a_shell_hands_on_the_table_that_was_meant(name: str) -> None:
    table = TableId("My shop", name)
    said = subprocess.run(["sh", "-c", f"printf %s {table.typed}"], capture_output=True, text=True, check=True)
    assert TableId.parse(said.stdout) == table


def test_usual_names_are_typed_as_they_are() -> None:
    assert TableId("shop", "orders").typed == "shop.orders"


def test_commands_in_messages_name_tables_as_a_shell_takes_them() -> None:
    assert not list(_plain())


def test_commands_in_messages_name_files_as_a_shell_takes_them() -> None:
    """A job file in a directory with a space was two words of the command that a hint told to type."""
    assert not list(_spaced())


def _spaced() -> Iterator[str]:
    """Yield each place where a command in an f-string has a file that is not written for a shell."""
    for file in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.JoinedStr):
                for text, value in zip(node.values, node.values[1:], strict=False):
                    is_command = isinstance(text, ast.Constant) and COMMAND.search(str(text.value))
                    if is_command and isinstance(value, ast.FormattedValue) and FILE.search(ast.unparse(value.value)):
                        yield f"{file.relative_to(ROOT)}:{node.lineno}"


def _plain() -> Iterator[str]:
    """Yield each place where a command in an f-string has a table that is not written for a shell."""
    for file in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.JoinedStr):
                for text, value in zip(node.values, node.values[1:], strict=False):
                    is_command = isinstance(text, ast.Constant) and str(text.value).endswith(BEFORE)
                    if is_command and isinstance(value, ast.FormattedValue) and not _is_typed(value):
                        yield f"{file.relative_to(ROOT)}:{node.lineno}"


def _is_typed(value: ast.FormattedValue) -> bool:
    """Return whether it is written for a shell, or is what somebody has typed."""
    said = ast.unparse(value.value)
    return said.endswith(".typed") or said.startswith("shlex.quote(") or value.conversion == ord("r")

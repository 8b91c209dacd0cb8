"""Make the page of proofs: every rule and every known trap of replication, and the tests that show it.

The source is tests/proofs.toml. Tests say by their names what they are about, and by their folder what they need.
What does not live here: whether the file is complete (tests/unit/test_tests_index.py).
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
INDEX = REPOSITORY / "tests" / "proofs.toml"
PLACES = (REPOSITORY / "tests", REPOSITORY / "anabranch" / "testing")
TAG = re.compile(r"(rule|pitfall)_(\d+(?:_(?:and_)?\d+)*)(?=_)")

# Folder -> what a test in it speaks to. The first that is part of a path counts.
KINDS = {
    "tests/scenarios": "command line",
    "tests/rigs": "command line",
    "tests/faults": "faults",
    "tests/spark": "Spark",
    "tests/live": "live",
    "tests/torture": "torture",
    "tests/unit": "no server",
    "conformance": "every connector",
}


@dataclass(frozen=True)
class Row:
    """One row of tests/proofs.toml: a rule ("rule") or a trap ("pitfall"), the tests that show it, and a remark."""

    kind: str
    numbers: tuple[int, ...]
    title: str
    shown_by: tuple[str, ...]
    remark: str

    @property
    def entries(self) -> list[tuple[Path, str]]:
        """Return files with the name of a test, or a pattern of names."""
        return [(file_of(file), name) for file, _, name in (entry.partition("::") for entry in self.shown_by)]


def rows() -> list[Row]:
    """Return the rows of both kinds, in the order of the file."""
    index = tomllib.loads(INDEX.read_text())
    return [_row(kind, **row) for kind in ("rule", "pitfall") for row in index[kind]]


def _row(kind: str, numbers: list[int], title: str, shown_by: tuple[str, ...] = (), remark: str = "") -> Row:
    return Row(kind, tuple(numbers), title, tuple(shown_by), remark)


@cache
def functions(path: Path) -> tuple[str, ...]:
    """Return the names of a file's functions, in its order."""
    return tuple(node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef))


@cache
def file_of(name: str) -> Path:
    """Return the one file of this name among the tests and the conformance suites."""
    (path,) = (path for place in PLACES for path in place.rglob(Path(name).name) if path.match(f"**/{name}"))
    return path


def tagged(is_unit: bool) -> Iterator[tuple[str, int, Path, str]]:
    """Yield tests and steps that are named after a rule or a pitfall: those of unit/, or all others."""
    for place in PLACES:
        for path in sorted(place.rglob("*.py")):
            if ("unit" in path.parts) is is_unit:
                for name in functions(path):
                    for kind, numbers in TAG.findall(name):
                        yield from ((kind, int(number), path, name) for number in re.findall(r"\d+", numbers))


def proofs(generated: str) -> Iterator[str]:
    yield "# Proofs"
    yield ""
    yield generated
    yield "Which test shows which rule of [correctness](../explanation/correctness.md), and which known trap"
    yield "of replication is shown to be avoided; or why there is no test yet. Those that take minutes are run by `make"
    yield "test-faults`, not by every run. *live*: parts of the product with real"
    yield "servers. *command line*: whole jobs in processes of their own, with real servers. *faults*: the same with processes"
    yield "killed and disks full. *Spark*: Spark tasks with real servers. *every connector*: a suite that each connector has to"
    yield "pass, with its server. *no server*: recorded logs, or the database in memory."
    yield ""
    for kind, title in (("rule", "Rules"), ("pitfall", "Pitfalls")):
        yield f"## {title}"
        yield ""
        yield f"| {kind} | shown by | remark |"
        yield "|---|---|---|"
        yield from (_line(row) for row in rows() if row.kind == kind)
        yield ""


def _line(row: Row) -> str:
    letter = "K" if row.kind == "rule" else ""
    numbers = ", ".join(f"{letter}{number}" for number in row.numbers)
    return f"| {numbers} {row.title} | {'<br>'.join(_shown(row)) or '-'} | {row.remark} |"


def _shown(row: Row) -> Iterator[str]:
    """Yield the tests of one kind after the other, by file."""
    found: dict[str, dict[str, list[str]]] = {kind: {} for kind in KINDS.values()}
    named = [(path, name) for path, pattern in row.entries for name in functions(path) if fnmatchcase(name, pattern)]
    units = [(path, name) for kind, number, path, name in tagged(is_unit=True) if (kind, number) in _keys(row)]
    for path, name in dict.fromkeys([*named, *units]):
        kind = next(kind for folder, kind in KINDS.items() if folder in path.as_posix())
        found[kind].setdefault(path.name, []).append(name)
    for kind, files in found.items():
        if files:
            yield f"*{kind}*: " + "; ".join(
                f"{file}: {', '.join(f'`{n}`' for n in names)}" for file, names in files.items()
            )


def _keys(row: Row) -> set[tuple[str, int]]:
    return {(row.kind, number) for number in row.numbers}

"""Hold the code against CONTRIBUTING.md, "Style": length and names of files, and how docstrings begin."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from rigs.source_text import statements

REPOSITORY = Path(__file__).parents[2]
LINES = 600
FOLDERS = ("anabranch", "bench", "docs", "native/src")
FORBIDDEN = {"utils", "helpers", "common", "misc", "core", "base", "types", "constants"}

# Rooms whose docstrings are in plain English, beside the files of no room: the list grows until it has all (and with it
# D401 in pyproject.toml).
PLAIN = (
    "api",
    "apply",
    "brokers",
    "capture",
    "cli",
    "config",
    "connectors/mariadb",
    "connectors/memory",
    "connectors/mysql",
    "connectors/postgresql",
    "console",
    "contracts",
    "demo",
    "job",
    "lifecycle",
    "manager",
    "load",
    "model",
    "preflight",
    "recipe",
    "rows",
    "rules",
    "spark",
    "state",
    "stores",
    "trail",
    "transport",
    "verify",
    "view",
)
# A sentence that begins so has its subject or its verb somewhere else. D401 has only functions, and not these.
FRAGMENT = re.compile(
    r"(Of|Those|Whose|Also|What|As|Which|Who|How|Whether|Where|When|By|For|From|In|With|At|To|It|They|That|And|Or)\b"
)
QUESTION = re.compile(r"(Is|Are|Does|Did|Has|Was|Were|May|Can|Would|Might)\b|(Do|Have)\b[^.]*\?")
# Numbers of requirements that nobody outside can look up. Rules of docs/explanation/correctness.md (K1 to K34) can be.
OUTSIDE = re.compile(r"\b(AT|GG|DM|EX|IS)-\d+")


def files() -> list[Path]:
    found = [path for folder in FOLDERS for kind in ("*.py", "*.rs") for path in (REPOSITORY / folder).rglob(kind)]
    built = REPOSITORY / "native" / "target"
    return [path for path in found if built not in path.parents]


def test_no_file_is_longer_than_a_reader_can_bear() -> None:
    lengths = {str(path.relative_to(REPOSITORY)): len(path.read_text().splitlines()) for path in files()}
    assert len(lengths) > 400
    assert {path: length for path, length in lengths.items() if length > LINES} == {}


def test_no_file_has_a_name_that_says_nothing() -> None:
    assert [str(path) for path in files() if path.stem in FORBIDDEN] == []


def docstrings(path: Path) -> Iterator[tuple[str, bool, str]]:
    """Yield place and text of every docstring in a file, and whether it is a function's: with nodes all trees would stay."""
    for node in statements(path.read_text()):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                is_function = isinstance(node, ast.FunctionDef)
                yield f"{path.relative_to(REPOSITORY)}:{getattr(node, 'lineno', 1)}", is_function, text


def test_docstrings_begin_with_what_is_done() -> None:
    package = REPOSITORY / "anabranch"
    paths = [*package.glob("*.py"), *(path for room in PLAIN for path in (package / room).rglob("*.py"))]
    found = [one for path in sorted(paths) for one in docstrings(path)]
    assert len(found) > 2500
    wrong = [
        f"{place}: {text.splitlines()[0]}"
        for place, is_function, text in found
        if FRAGMENT.match(text) or (is_function and QUESTION.match(text))
    ]
    assert not wrong, "\n".join(wrong)


def test_no_file_names_requirements_that_a_reader_cannot_look_up() -> None:
    kinds = (".py", ".rs", ".md", ".sql", ".toml")
    places = [REPOSITORY / folder for folder in ("anabranch", "bench", "docs", "native/src", "tests")]
    every = [path for place in places for path in place.rglob("*") if path.suffix in kinds and path.is_file()]
    wrong = [str(path.relative_to(REPOSITORY)) for path in every if OUTSIDE.search(path.read_text())]
    assert len(every) > 900
    assert wrong == []


def test_files_that_docstrings_and_pages_send_readers_to_are_there() -> None:
    """`lifecycle/loading.py` in a docstring is a direction: a file that was moved takes its directions with it."""
    rooms = ("anabranch", "bench", "docs", "tests")
    there = {f"/{path.relative_to(REPOSITORY)}" for room in rooms for path in (REPOSITORY / room).rglob("*.py")}
    pages = [
        path for path in (REPOSITORY / "docs").rglob("*.md") if path.name != "decisions.md"
    ]  # those tell of their day
    readers = [*(REPOSITORY / "anabranch").rglob("*.py"), REPOSITORY / "CONTRIBUTING.md", *pages]
    named = [
        (f"{path.relative_to(REPOSITORY)}: {name}", name)
        for path in readers
        for name in re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.py)`", path.read_text())
    ]
    assert len(named) > 100
    assert [place for place, name in named if not any(path.endswith(f"/{name}") for path in there)] == []

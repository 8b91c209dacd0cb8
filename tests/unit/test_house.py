"""How long files are, and what they may not be called (CONTRIBUTING.md, "Style")."""

from __future__ import annotations

from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
LINES = 600
FOLDERS = ("anabranch", "bench", "docs", "native/src")
FORBIDDEN = {"utils", "helpers", "common", "misc", "core", "base", "types", "constants"}


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

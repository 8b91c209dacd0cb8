"""The rules of a job file as a text of their own: taken out of one file, put into another one, as they are written.

The sections of SECTIONS decide which tables are taken and what becomes of them; ends, settings of databases and how a job works
are a file's own. Text is cut at statements, so comments go along, and what comes out is proven against what TOML reads.
What does not live here: whether the rules fit a job (`reading.py`), files (`lifecycle/moving_rules.py`).
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from anabranch.config.lines import Statement, statements
from anabranch.config.options import FORMER
from anabranch.config.toml_text import comment_of, text_of
from anabranch.errors import ConfigError

SECTIONS = ("rules", "tables", "types", "ddl")
FORMAT = 1  # of the file that rules travel in
_OF_FILE = ("format", "origin", "choices")  # what that has beside the sections
_HINT = "write rules, tables, types and ddl as sections of their own ([types], [[rules]]), not inside one another"


@dataclass(frozen=True, slots=True)
class _Piece:
    """A statement with the comments that belong to it. `names`: empty for what stands before or behind all statements."""

    names: tuple[str, ...]
    is_header: bool
    is_top: bool  # before the first header
    text: str

    def is_in(self, sections: Collection[str]) -> bool:
        return self.names[:1] != () and self.names[0] in sections and self.names[:2] not in FORMER

    @property
    def is_former(self) -> bool:
        return self.names[:2] in FORMER


def rules_text(text: str, sections: Collection[str] = SECTIONS) -> str:
    """Return the sections of a job file, or of a file of rules, as they are written; keys before the first header are first."""
    mine = [piece for piece in _pieces(text) if piece.is_in(sections)]
    top, below = ("".join(p.text for p in mine if p.is_top is is_top).strip() for is_top in (True, False))
    return "".join(f"{part}\n" for part in (f"{top}\n" if top and below else top, below) if part)


def exported(text: str, origin: Mapping[str, Any], choices: Mapping[str, Any], written: str) -> str:
    """Return a file of rules. `text`: the job file. `origin`: whose rules they are. `choices`: what its targets' options make
    of kinds of values, to be compared, not to be imported. `written`: the first line says it. Raises ConfigError."""
    head = [
        f"# Rules of a job, {comment_of(written)}. anabranch rules import FILE JOB puts them into another job's file."
    ]
    head += [f"format = {FORMAT}", f"origin = {text_of(origin)}", f"choices = {text_of(choices)}"]
    made = "\n".join(head) + "\n\n" + rules_text(text.replace("\r\n", "\n"))
    _prove(made, parted(tomllib.loads(text), SECTIONS)[0], None, SECTIONS)
    return made


def read(text: str, file: str) -> dict[str, Any]:
    """Return what a file of rules says. Raises ConfigError for a file that is none, or of a later release."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file} is not TOML: {error}") from None
    if data.get("format") != FORMAT:
        is_later = type(data.get("format")) is int and data["format"] > FORMAT
        why = f"format {data['format']}, which this release does not know" if is_later else "no file of rules"
        raise ConfigError(f"{file} is {why}", hint="anabranch rules export JOB -o FILE writes one")
    if others := sorted(data.keys() - {*_OF_FILE, *SECTIONS}):
        raise ConfigError(f"{file} has more than rules: {', '.join(others)}", hint=f"it may have {', '.join(SECTIONS)}")
    return data


def imported(text: str, rules: str, sections: Collection[str] = SECTIONS) -> str:
    """Return a job file's text with the sections of `rules`, a file of rules, in place of its own. All else stays as it is
    written. Raises ConfigError where the text cannot be put together so."""
    newline = "\r\n" if "\r\n" in text else "\n"
    pieces = list(_pieces(text.replace("\r\n", "\n")))
    came = [piece for piece in _pieces(rules.replace("\r\n", "\n")) if piece.is_in(sections)]
    place = next((n for n, p in enumerate(pieces) if p.is_in(sections) and not p.is_top), len(pieces))
    above = [p for n, p in enumerate(pieces) if n < place and not _goes(p, sections)]
    below = [p for n, p in enumerate(pieces) if n >= place and not _goes(p, sections)]
    top = "".join(piece.text for piece in above if piece.is_top) + "".join(p.text for p in came if p.is_top)
    middle = "".join(piece.text for piece in above if not piece.is_top)
    stays = "".join(p.text for p in pieces if _goes(p, sections) and not p.is_in(sections))
    new = _with_former([p for p in came if not p.is_top], stays)
    made = _joined(top, middle, new, "".join(piece.text for piece in below))
    wanted = parted(tomllib.loads(rules), sections)[0]
    _prove(made, wanted, parted(tomllib.loads(text), sections)[1], sections)
    return made.replace("\n", newline)


def parted(data: Mapping[str, Any], sections: Collection[str] = SECTIONS) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what a file says in these sections, and all else it says. Options of an end that stand in `[types]`, as they once
    did, are of the latter."""
    mine, others = dict[str, Any](), dict[str, Any]()
    for name, value in data.items():
        former = {key for section, key in FORMER if section == name}
        if name not in sections:
            others[name] = value
        elif former and isinstance(value, dict):
            halves = ({k: v for k, v in value.items() if (k in former) is is_former} for is_former in (False, True))
            for found, half in zip((mine, others), halves, strict=True):
                found |= {name: half} if half else {}
        elif value:
            mine[name] = value
    return mine, others


def _goes(piece: _Piece, sections: Collection[str]) -> bool:
    return piece.is_in(sections) or (piece.is_former and not piece.is_top and piece.names[0] in sections)


def _with_former(came: Sequence[_Piece], stays: str) -> str:
    """Return the new sections with options of ends that stay in `[types]`."""
    text = "".join(piece.text + stays * _is_types(piece) for piece in came)
    return text if not stays or any(map(_is_types, came)) else f"[types]\n{stays}\n{text}"


def _is_types(piece: _Piece) -> bool:
    return piece.is_header and piece.names == ("types",)


def _joined(*parts: str) -> str:
    """Put texts together with an empty line between them."""
    return "\n".join(f"{part.strip(chr(10))}\n" for part in parts if part.strip())


def _prove(text: str, wanted: dict[str, Any], others: dict[str, Any] | None, sections: Collection[str]) -> None:
    """Raise ConfigError unless the text says just this. `others`: None for a file of rules."""
    try:
        found = parted(tomllib.loads(text), sections)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"the rules cannot be moved as they are written: {error}", hint=_HINT) from None
    if found[0] != wanted or (others is not None and found[1] != others):
        raise ConfigError("the rules cannot be moved as they are written", hint=_HINT)


def _pieces(text: str) -> Iterator[_Piece]:
    """Cut a text, whose lines end with a line feed, into statements, and what stands before the first and behind the last."""
    lines = [f"{line}\n" for line in text.removesuffix("\n").split("\n")]
    found = statements(text)
    top = next((number for number, one in enumerate(found) if one.is_header), len(found))
    cuts = [*_starts(found, lines), _own_end(lines, found[-1].last, len(lines), len(lines)) if found else 0]
    yield _Piece((), False, True, "".join(lines[: cuts[0]]))
    for number, (one, (start, end)) in enumerate(zip(found, pairwise(cuts), strict=True)):
        yield _Piece(one.names, one.is_header, number < top, "".join(lines[start:end]))
    yield _Piece((), False, len(found) == top, "".join(lines[cuts[-1] :]))


def _starts(found: Sequence[Statement], lines: Sequence[str]) -> Iterator[int]:
    """Yield the line, from 0, where each statement begins, with its comments: those between it and the first empty line behind
    the one before it."""
    for before, one in pairwise((None, *found)):
        if before is not None and one is not None:
            yield _own_end(lines, before.last, one.first - 1, before.last)
        elif one is not None:
            start = one.first - 1
            while start and lines[start - 1].lstrip().startswith("#"):
                start -= 1
            yield start


def _own_end(lines: Sequence[str], last: int, end: int, otherwise: int) -> int:
    """Return the line, from 0, behind what belongs to a statement that ends in line `last` (from 1): behind the first empty
    line up to `end`, or `otherwise`."""
    blank = next((number for number in range(last, end) if not lines[number].strip()), None)
    return otherwise if blank is None else blank + 1

"""Types of a column that take all values of another one, each as it was, down to the text of it: nothing is rounded, cut,
filled up or compared otherwise. https://dev.mysql.com/doc/refman/8.0/en/data-types.html

What does not live here: what statements say (`altered_columns.py`).
"""

from __future__ import annotations

import re
import unicodedata

from anabranch.connectors.mysql.source.statement_tokens import tokens
from anabranch.model.datatype import Kind
from anabranch.model.schema import Column

# Each in rising order.
_FAMILIES = (
    ("tinyint", "smallint", "mediumint", "int", "bigint"),
    ("tinytext", "text", "mediumtext", "longtext"),
    ("tinyblob", "blob", "mediumblob", "longblob"),
)
_LENGTHS = ("varchar", "varbinary", "char")  # a binary is filled up with zeros
# Collations of no language: a letter with a mark is its base letter, or another one than all others. Those of languages may
# take '\u00fc' for 'y' or 'ue', '\u00e5' for 'aa', and plain letters for one another: i, j and y, u, v and w.
_OF_NO_LANGUAGE = re.compile(
    r"(utf[0-9a-z]+|ucs2)_(general|unicode|unicode_520|0900|uca1400)(_nopad)?(_a[is])?_c[is]", re.ASCII
)
_TO_SOME_ONE = str.maketrans("jyvw", "iiuu")
# Letters that some collations take for others which no decomposition tells: \u00df for ss, one kana for the other.
_OFTEN_EQUAL = ("LATIN", "HIRAGANA", "KATAKANA")


def widens(former: str, native: str) -> bool:
    """Return whether a type (both as the catalogue prints them) takes what the former one does, and something more."""
    (before, old, said), (name, new, words) = _parts(former), _parts(native)
    if said != words:
        return False
    for family in _FAMILIES:
        if before in family and name in family:
            return family.index(name) > family.index(before)
    if before != name or len(old) != len(new):
        return False
    if name in _LENGTHS:
        return new > old
    if name == "decimal" and len(new) == 2:
        return new != old and new[1] >= old[1] and new[0] - new[1] >= old[0] - old[1]
    return False


def appends_labels(former: Column, column: Column) -> bool:
    """Return whether an ENUM or SET has the labels of before, each at its place, and more behind them, and all rows keep
    theirs."""
    was, now = former.type, column.type
    if was is None or now is None or was.kind is not now.kind or was.kind not in (Kind.ENUM, Kind.SET):
        return False
    is_longer = len(now.values) > len(was.values) and now.values[: len(was.values)] == was.values
    return is_longer and keeps_labels(was.values, former.collation, was.kind is Kind.SET)


def keeps_labels(labels: tuple[str, ...], collation: str, is_set: bool) -> bool:
    """Return whether rows keep their labels where the server copies the table for more of them. It reads each by its text then,
    so that a row with the later of two labels which the collation takes for equal gets the former one: nobody is told. An
    empty member of a SET is lost beside others."""
    if is_set and "" in labels:
        return False
    if collation.lower() == "binary" or collation.lower().endswith("_bin"):
        return True
    of_language = not _OF_NO_LANGUAGE.fullmatch(collation.lower())
    folded = [_folded(label, of_language) for label in labels]
    return None not in folded and len(set(folded)) == len(folded)


def _folded(label: str, of_language: bool) -> str | None:
    """Return a text that differs where every collation tells a label from others, None where that is not certain."""
    if of_language and any(map(_is_marked, label)):
        return None
    letters = "".join(c for c in unicodedata.normalize("NFKD", label) if unicodedata.category(c) != "Mn")
    for letter in letters:
        is_plain = letter.isascii() or not unicodedata.name(letter, "").startswith(_OFTEN_EQUAL)
        if not is_plain or ord(letter) > 0xFFFF or unicodedata.category(letter).startswith("C"):
            return None  # beyond the BMP all characters are one to some collations; control characters are none
    return letters.casefold().translate(_TO_SOME_ONE) if of_language else letters.casefold()


def _is_marked(letter: str) -> bool:
    """Return whether this is a Latin letter with a mark, or a mark that may belong to one."""
    if unicodedata.category(letter) == "Mn":
        return True
    parts = unicodedata.normalize("NFKD", letter)
    return len(parts) > 1 and unicodedata.name(parts[0], "").startswith("LATIN")


def _parts(native: str) -> tuple[str, tuple[int, ...], frozenset[str]]:
    """Return name, sizes and what stands behind them."""
    name, *rest = tokens(native)
    sizes = tuple(int(token.text) for token in rest if token.depth and token.kind == "word" and token.text.isdecimal())
    return (
        name.text.lower(),
        sizes,
        frozenset(token.text.lower() for token in rest if not token.depth and token.kind == "word"),
    )

"""Types of a column that take all values of another one, each as it was, down to the text of it: nothing is rounded, cut,
filled up or compared otherwise. https://dev.mysql.com/doc/refman/8.0/en/data-types.html

What does not live here: what statements say (`altered_columns.py`), labels of an ENUM (the target's affair).
"""

from __future__ import annotations

from anabranch.connectors.mysql.source.statement_tokens import tokens

# Each in rising order.
_FAMILIES = (
    ("tinyint", "smallint", "mediumint", "int", "bigint"),
    ("tinytext", "text", "mediumtext", "longtext"),
    ("tinyblob", "blob", "mediumblob", "longblob"),
)
_LENGTHS = ("varchar", "varbinary", "char")  # a binary is filled up with zeros


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


def _parts(native: str) -> tuple[str, tuple[int, ...], frozenset[str]]:
    """Return name, sizes and what stands behind them."""
    name, *rest = tokens(native)
    sizes = tuple(int(token.text) for token in rest if token.depth and token.kind == "word" and token.text.isdecimal())
    return (
        name.text.lower(),
        sizes,
        frozenset(token.text.lower() for token in rest if not token.depth and token.kind == "word"),
    )

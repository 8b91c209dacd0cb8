"""Kinds of columns whose type is widened while a history streams: the wider one, which has the values of both.

What does not live here: the narrow ones (values.py), when the type changes (altering.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from anabranch.testing.torture.values import KINDS as NARROW
from anabranch.testing.torture.values import Kind, quoted, same

_LONG = "x" * 75


def _integer(narrow: str, wide: str) -> Kind:
    one, other = NARROW[narrow], NARROW[wide]
    return replace(one, native=other.native, at_target=other.at_target, texts={**one.texts, **other.texts})


def _made() -> list[Kind]:
    text, decimal, octets = NARROW["exact text"], NARROW["decimal"], NARROW["bytes"]
    return [
        _integer("tinyint", "smallint"),
        _integer("smallint", "int"),
        _integer("int", "bigint"),
        _integer("mediumint", "bigint"),
        _integer("tinyint unsigned", "mediumint unsigned"),
        _integer("smallint unsigned", "int unsigned"),
        replace(
            text,
            native=text.native.replace("(40)", "(90)"),
            at_target="character varying(90)",
            texts={**text.texts, **quoted(_LONG)},
        ),
        replace(
            decimal,
            native="decimal(14,2)",
            at_target="numeric(14,2)",
            texts={**decimal.texts, **same("999999999999.99", "-999999999999.99")},
        ),
        replace(octets, native="varbinary(90)", texts={**octets.texts, f"x'{'6b' * 80}'": "\\x" + "6b" * 80}),
    ]


# The wider kind by the name of the narrow one; nothing has it for a key.
KINDS: Mapping[str, Kind] = {kind.name: replace(kind, name=f"{kind.name}, widened", nth=None) for kind in _made()}

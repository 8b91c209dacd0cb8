"""Collations of made tables: what a server has for a source's collation, and for texts that compare byte by byte.

`known` is what the server has: collation -> its character set (information_schema.COLLATIONS). What does not live here: which
columns are at risk (preflight), CREATE TABLE (ddl.py).
https://dev.mysql.com/doc/refman/8.0/en/charset-unicode-sets.html · https://mariadb.com/kb/en/supported-character-sets-and-collations/
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from anabranch.connectors.mysql.charsets import CHARSETS
from anabranch.model.datatype import Fidelity

# Deterministic, by the bytes; the first ones do not fill up with blanks either. MySQL has it since 8.0.17, MariaDB since 10.2.
BY_BYTES = ("utf8mb4_0900_bin", "utf8mb4_nopad_bin", "utf8mb4_bin")
PADDED = frozenset(BY_BYTES[2:])  # 'a' = 'a ' in these
# A collation's end -> ends that stand in for it, the nearest first. What is equal for the one is mostly equal for the other;
# the first ones do not fill up with blanks, as UCA 9.0.0 does not.
STAND_INS: dict[str, tuple[str, ...]] = {
    "0900_ai_ci": ("uca1400_nopad_ai_ci", "unicode_520_nopad_ci", "uca1400_ai_ci", "unicode_520_ci", "unicode_ci"),
    "0900_as_ci": ("uca1400_nopad_as_ci", "unicode_520_nopad_ci", "uca1400_as_ci", "unicode_520_ci", "unicode_ci"),
    "0900_as_cs": ("uca1400_nopad_as_cs", "nopad_bin", "bin"),
    "0900_bin": ("nopad_bin", "bin"),
    "nopad_bin": ("0900_bin", "bin"),
    "uca1400_ai_ci": ("unicode_520_ci", "unicode_ci"),
    "uca1400_nopad_ai_ci": ("0900_ai_ci", "unicode_520_ci", "unicode_ci"),
    "uca1400_as_ci": ("unicode_520_ci", "unicode_ci"),
    "uca1400_nopad_as_ci": ("0900_as_ci", "unicode_520_ci", "unicode_ci"),
    "uca1400_as_cs": ("bin",),
    "uca1400_nopad_as_cs": ("0900_as_cs", "bin"),
    "general_nopad_ci": ("general_ci",),
    "unicode_nopad_ci": ("unicode_ci",),
    "unicode_520_nopad_ci": ("unicode_520_ci",),
    "general_mysql500_ci": ("general_ci",),
}


@dataclass(frozen=True, slots=True)
class Collating:
    """The character set and collation of a column there. `reason` says what is not the same; "" for nothing."""

    charset: str
    collation: str
    fidelity: Fidelity = Fidelity.EXACT
    reason: str = ""

    @property
    def sql(self) -> str:
        """Return what follows a text type in a column's definition."""
        return f"CHARACTER SET {self.charset} COLLATE {self.collation}"


def by_bytes(known: Collection[str]) -> str:
    """Return the collation for texts of a source that compares them byte by byte."""
    return next((one for one in BY_BYTES if one in known), BY_BYTES[-1])


def pads(collation: str) -> bool:
    """Return whether blanks at the end do not count in a collation."""
    return not ("_0900_" in collation or "_nopad_" in collation or collation in ("", "binary"))


def is_deterministic(collation: str) -> bool:
    """Return whether only texts of the same bytes are equal in it, but for blanks at the end (`pads`)."""
    return collation.endswith("_bin") or collation in ("", "binary")


def collating(charset: str, collation: str, known: Collection[str]) -> Collating:
    """Return what a server has for a source's character set and collation; bytes are compared where it has nothing near."""
    for name in _spelled(collation, known):
        return Collating(_charset_of(charset, name), name)
    own, _, end = collation.partition("_")
    for near in _stand_ins(end):
        for name in _spelled(f"{own}_{near}", known):
            reason = f"the target has no {collation}; {name} may treat other texts as equal"
            return Collating(_charset_of(charset, name), name, Fidelity.LOSSY, reason)
    name = by_bytes(known)
    text = f"the target has no {collation}; {name} compares bytes: texts that were equal at the source may differ"
    return Collating("utf8mb4", name, Fidelity.LOSSY, text)


def _stand_ins(end: str) -> tuple[str, ...]:
    """Return the ends that stand in for one; a language that the target does not have is that of none (`da_0900_ai_ci`)."""
    return STAND_INS.get(end) or next((near for one, near in STAND_INS.items() if end.endswith(f"_{one}")), ())


def _spelled(collation: str, known: Collection[str]) -> Iterator[str]:
    """Return the spellings of a collation that the server knows: utf8 and utf8mb3 are one character set."""
    for old, new in (("", ""), ("utf8_", "utf8mb3_"), ("utf8mb3_", "utf8_")):
        name = new + collation.removeprefix(old) if collation.startswith(old) else ""
        if name in known:
            yield name
            return
        # MariaDB names those of UCA 14.0.0 without their character set: https://mariadb.com/kb/en/unicode/
        if "_uca1400_" in name and name.partition("_")[2] in known:
            yield name
            return


def _charset_of(charset: str, collation: str) -> str:
    own = collation.partition("_")[0]
    return own if own in CHARSETS or own == "binary" else charset

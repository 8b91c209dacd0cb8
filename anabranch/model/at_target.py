"""The form of a column's values at a target: the text that it takes, and what makes two texts of one value alike.

A target's type map says it once per column, and the column's logical type carries it (model/datatype.py). What does not
live here: making the texts (rows/lines.py), comparing (verify/canonical.py), names of types of any database.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class TextForm(StrEnum):
    """The text that a target reads as a value. A form has a sense for some kinds; for all others it is OF_KIND."""

    OF_KIND = "of kind"  # as model/datatype.py has it
    LOWER_CASE = "lower case"  # of texts: as the target prints it, whatever the source's letters
    BARE_DIGITS = "bare digits"  # of bytes and vectors: hexadecimal digits with nothing before them
    BRACKETS = "brackets"  # of vectors: [a,b,…]
    JSON_ARRAY = "json array"  # of arrays that a PostgreSQL prints (rows/json_arrays.py)
    JSON_OBJECT = "json object"  # of its composites (rows/json_composites.py)


class CanonicalForm(StrEnum):
    """The part of a value that is compared, where both ends may write it in more than one way."""

    OF_KIND = "of kind"  # verify/canonical.py knows which; of most kinds the text as it is
    AS_IT_IS = "as it is"
    FLOAT32 = "float32"  # a number by its value as a float of this size
    FLOAT64 = "float64"
    FLOAT32_WITHOUT_SIGN = "float32 without sign of zero"
    FLOAT64_WITHOUT_SIGN = "float64 without sign of zero"
    FLOATS32 = "floats32"  # a text with such numbers in it
    FLOATS64 = "floats64"
    ELEMENTS = "elements"  # of a vector, each as FLOAT32, whatever stands around them
    JSON_VALUES = "json values"  # numbers by value, keys without order, the last of equal keys, no -0
    JSON_TEXT = "json text"  # only the space between tokens is free
    NUMBER = "number"  # of any digits, by its value: 1, 1.0 and 1e0 are one, -0 is 0
    ADDRESS = "address"  # an IP address, shortened or not
    UUID = "uuid"  # its digits


@dataclass(frozen=True, slots=True)
class AtTarget:
    """The type map's word on a column's values. `sorts_as_text`: the target does not order them as the source does.
    `keeps_whole`: whole numbers of the source are whole numbers there. `zero_dates`: an infinite date, which the job writes
    for dates that are none, is such a date again.
    """

    text: TextForm = TextForm.OF_KIND
    canonical: CanonicalForm = CanonicalForm.OF_KIND
    sorts_as_text: bool = False
    keeps_whole: bool = True
    zero_dates: bool = False


OF_KIND = AtTarget()  # all as the kind has it

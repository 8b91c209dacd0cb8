"""Existing column types that hold every value of a type that we would create."""

from __future__ import annotations

from collections.abc import Sequence

# Other existing column types that hold every value of a type that we would create.
ALSO_FITS: dict[str, tuple[str, ...]] = {
    "smallint": ("integer", "bigint", "numeric"),
    "integer": ("bigint", "numeric"),
    "bigint": ("numeric",),
    "numeric": (),
    "real": ("double precision",),
    "double precision": (),
    "character varying": ("text",),
    "text": ("character varying",),
    "bytea": (),
    "bit": (),
    "date": (),
    "timestamp without time zone": (),
    "timestamp with time zone": (),
    "interval": (),
    "jsonb": (),
    "json": ("text",),
    "boolean": (),
    "uuid": ("text",),
    "inet": ("text",),
    "time without time zone": (),
    "bit varying": (),
    "citext": (),
    "geometry": (),
    "real[]": ("double precision[]",),
    "vector": (),
}
# short names that the type map writes -> format_type's
LONG_NAMES = {
    "varchar": "character varying",
    "timestamp": "timestamp without time zone",
    "timestamptz": "timestamp with time zone",
    "time": "time without time zone",
    "varbit": "bit varying",
}


def takes(existing: str, wanted: str) -> bool:
    """Return whether an existing column type holds every value of the type we would create. Unknown pairs do not."""
    have, have_size = split_type(existing)
    want, want_size = split_type(wanted)
    if have == want:
        return not have_size or _holds(want, have_size, want_size)
    return have in ALSO_FITS.get(want, ()) and not have_size


def spellings(standing: str) -> Sequence[str]:
    """Return the choices of a job (choices.py) with which values may go into an existing type: by its short name."""
    name, _ = split_type(standing)
    short = next((short for short, long in LONG_NAMES.items() if long == name), name)
    return (short,)


def split_type(native: str) -> tuple[str, tuple[int, ...]]:
    """Split `timestamp(6) without time zone` into (`timestamp without time zone`, (6,))."""
    head, bracket, rest = native.partition("(")
    numbers, _, tail = rest.partition(")")
    name = f"{head.strip()} {tail.strip()}".strip() if bracket else native
    words = numbers.split(",") if bracket else []
    sizes = tuple(int(n) for n in words if n.strip().isdigit())
    if len(sizes) < len(words):
        return native, ()  # geometry(Point,4326) holds points of that system only
    return LONG_NAMES.get(name, name), sizes


def _holds(name: str, have: tuple[int, ...], want: tuple[int, ...]) -> bool:
    if name in ("bit", "vector"):
        return have == want
    if name != "numeric":
        return bool(want) and have[0] >= want[0]
    precision, scale = (*have, 0)[:2]
    wanted_precision, wanted_scale = (*want, 0)[:2]
    return bool(want) and scale == wanted_scale and precision >= wanted_precision

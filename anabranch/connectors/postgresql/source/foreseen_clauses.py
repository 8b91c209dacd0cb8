"""An ALTER TABLE that nobody has run, read into what it does to columns, with types as format_type() would spell them.

https://www.postgresql.org/docs/current/sql-altertable.html · https://www.postgresql.org/docs/current/datatype.html
What does not live here: what the table is behind it (foreseen.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from anabranch.connectors.postgresql.source.noted_defaults import CALLED
from anabranch.connectors.postgresql.source.typemap import logical_type
from anabranch.model.datatype import LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema

_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)|(?P<name>"(?:[^"]|"")+")|(?P<string>'(?:[^']|'')*')|(?P<word>[^\W\d][\w$]*)
      |(?P<number>\d+(?:\.\d+)?)|(?P<mark>::|.)""",
    re.VERBOSE | re.DOTALL,
)
_ALIASES = {
    "int": "integer", "int4": "integer", "int2": "smallint", "int8": "bigint", "varchar": "character varying",
    "char": "character", "decimal": "numeric", "bool": "boolean", "float4": "real", "float8": "double precision",
    "float": "double precision", "timestamp": "timestamp without time zone", "timestamptz": "timestamp with time zone",
    "time": "time without time zone", "timetz": "time with time zone", "varbit": "bit varying",
}  # fmt: skip
_NAMES = frozenset(_ALIASES.values()) | frozenset(
    (
        "text",
        "bytea",
        "date",
        "uuid",
        "json",
        "jsonb",
        "inet",
        "cidr",
        "macaddr",
        "money",
        "xml",
        "interval",
        "bit",
        "name",
    )
)
_ONE = ("character", "bit")  # of one sign where no length is said
_COUNTS = ("serial", "bigserial", "smallserial", "serial4", "serial8", "serial2")
_ENDS_TYPE = frozenset(("DEFAULT", "NOT", "NULL", "CHECK", "CONSTRAINT", "USING", "STORAGE", "COMPRESSION", "COLLATE",
                        "UNIQUE", "PRIMARY", "REFERENCES", "GENERATED"))  # fmt: skip
_PARKS = frozenset(("UNIQUE", "PRIMARY", "REFERENCES", "GENERATED"))
# Clauses that leave columns, their values and the primary key as they are, or none of which the log tells.
_OTHERS = re.compile(
    r"ADD (?:CONSTRAINT \S+ )?(?:CHECK|UNIQUE|FOREIGN|EXCLUDE)\b|VALIDATE |SET \(|RESET \(|CLUSTER ON|SET WITHOUT|OWNER TO"
    r"|(?:ENABLE|DISABLE) |ALTER (?:COLUMN )?\S+ (?:SET (?:STATISTICS|STORAGE|COMPRESSION|\()|RESET \()"
)


class Unread(Exception):
    """The statement, or something of it, is not read; the text says what."""


class Refused(Exception):
    """The statement parks its table; the text says why."""


@dataclass(frozen=True, slots=True)
class Token:
    """`text`: as it is written, a word in capitals; `name`: what it names, "" where it names nothing."""

    kind: str
    text: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Adds:
    name: str
    native: str
    type: LogicalType
    not_null: bool
    default: tuple[Token, ...] | None


@dataclass(frozen=True, slots=True)
class Drops:
    name: str


@dataclass(frozen=True, slots=True)
class Renames:
    name: str
    to: str


@dataclass(frozen=True, slots=True)
class Retypes:
    """`is_computed`: by an expression (USING)."""

    name: str
    native: str
    type: LogicalType
    is_computed: bool


@dataclass(frozen=True, slots=True)
class Nulls:
    name: str
    nullable: bool


@dataclass(frozen=True, slots=True)
class Defaults:
    name: str
    default: tuple[Token, ...] | None


Clause = Adds | Drops | Renames | Retypes | Nulls | Defaults


class _Tokens:
    """Tokens with a place: reading goes on from there."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.left = list(tokens)

    def takes(self, *words: str) -> bool:
        """Go behind these words, if they come next."""
        found = [token.text for token in self.left[: len(words)]] == list(words)
        if found:
            del self.left[: len(words)]
        return found

    def name(self) -> str:
        if not self.left or not self.left[0].name:
            raise Unread("a name is missing")
        return self.left.pop(0).name

    def expression(self) -> tuple[Token, ...]:
        """Return what stands up to the next word that begins another clause of a column's definition."""
        found, depth = list[Token](), 0
        while self.left and (
            depth or self.left[0].text not in _ENDS_TYPE or (not found and self.left[0].text == "NULL")
        ):
            token = self.left.pop(0)
            depth += {"(": 1, ")": -1}.get(token.text, 0)
            found.append(token)
        return tuple(found)


def table_of(sql: str) -> TableId | None:
    """Return the table that an ALTER TABLE names, its schema "" where it names none; None for any other statement."""
    try:
        return _begun(sql)[0]
    except Unread:
        return None


def shown(sql: str) -> str:
    """Return the statement without texts."""
    parts = ("'…'" if one.lastgroup == "string" else one[0] for one in _TOKEN.finditer(sql))
    return "".join(parts).strip()


def clauses(sql: str, then: TableSchema) -> list[Clause]:
    """Return what the statement does to columns. Raises Unread, Refused."""
    found = list[Clause]()
    for tokens in _apart(_begun(sql)[1].left):
        text = " ".join(token.text for token in tokens)
        if not _OTHERS.match(text):
            found += _clause(_Tokens(tokens), then)
    return found


def _begun(sql: str) -> tuple[TableId, _Tokens]:
    tokens = _Tokens(list(_cut(sql)))
    if tokens.left and tokens.left[-1].text == ";":
        tokens.left.pop()
    if any(token.text in (";", "$", "\\") for token in tokens.left) or not tokens.takes("ALTER", "TABLE"):
        raise Unread("this is not one ALTER TABLE")
    tokens.takes("IF", "EXISTS")
    tokens.takes("ONLY")
    name = tokens.name()
    table = TableId(name, tokens.name()) if tokens.takes(".") else TableId("", name)
    tokens.takes("*")
    return table, tokens


def _cut(sql: str) -> Iterator[Token]:
    for found in _TOKEN.finditer(sql):
        kind, text = str(found.lastgroup), found[0]
        if kind == "name":
            yield Token(kind, text, text[1:-1].replace('""', '"'))
        elif kind == "word":
            yield Token(kind, text.upper(), text.lower())
        elif kind != "space":
            yield Token(kind, text)


def _apart(tokens: Sequence[Token]) -> list[list[Token]]:
    """Return the clauses between commas that stand in no parentheses."""
    found, depth = [list[Token]()], 0
    for token in tokens:
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if token.text == "," and not depth:
            found.append([])
        else:
            found[-1].append(token)
    return found


def _clause(tokens: _Tokens, then: TableSchema) -> Iterator[Clause]:
    names = {column.name for column in then.columns}
    whole = " ".join(token.text for token in tokens.left)
    if tokens.takes("ADD"):
        tokens.takes("COLUMN")
        may_be_there = tokens.takes("IF", "NOT", "EXISTS")
        name = tokens.name()
        if may_be_there and name in names:
            return
        yield _added(name, tokens, then)
    elif tokens.takes("DROP"):
        tokens.takes("COLUMN")
        may_be_gone = tokens.takes("IF", "EXISTS")
        name = tokens.name()
        if name == "constraint" and tokens.left and tokens.left[0].name not in ("restrict", "cascade"):
            raise Unread("it drops a constraint, which may be the primary key")
        if not (may_be_gone and name not in names):
            yield Drops(name)
        tokens.left = [token for token in tokens.left if token.text not in ("RESTRICT", "CASCADE")]
    elif tokens.takes("RENAME"):
        tokens.takes("COLUMN")
        name = tokens.name()
        if not tokens.takes("TO"):
            raise Unread(f"what {whole} does is not read")
        yield Renames(name, tokens.name())
    elif tokens.takes("ALTER"):
        tokens.takes("COLUMN")
        yield _of_column(tokens.name(), tokens, then)
    if tokens.left:
        raise Unread(f"what {whole} does is not read")


def _of_column(name: str, tokens: _Tokens, then: TableSchema) -> Clause:
    if tokens.takes("SET", "NOT", "NULL"):
        return Nulls(name, False)
    if tokens.takes("DROP", "NOT", "NULL"):
        return Nulls(name, True)
    if tokens.takes("DROP", "DEFAULT"):
        return Defaults(name, None)
    if tokens.takes("SET", "DEFAULT"):
        return Defaults(name, tokens.expression())
    if tokens.takes("SET", "DATA", "TYPE") or tokens.takes("TYPE"):
        native, type = _type(tokens, then)
        is_computed = tokens.takes("USING")
        if is_computed:
            tokens.left.clear()
        return Retypes(name, native, type, is_computed)
    raise Unread(f"what is done to {name} is not read")


def _added(name: str, tokens: _Tokens, then: TableSchema) -> Adds:
    native, type = _type(tokens, then)
    not_null, default = False, None
    while tokens.left:
        if tokens.takes("NOT", "NULL"):
            not_null = True
        elif tokens.takes("DEFAULT"):
            default = tokens.expression()
        elif tokens.takes("CONSTRAINT"):
            tokens.name()
        elif tokens.takes("CHECK"):
            tokens.expression()
        elif tokens.takes("STORAGE") or tokens.takes("COMPRESSION"):
            tokens.name()
        elif tokens.left[0].text in _PARKS:
            raise Refused(f"{name} is unique, computed, counts, or refers to another table")
        elif not tokens.takes("NULL"):
            raise Unread(f"the definition of {name} is not read")
    return Adds(name, native, type, not_null, default)


def _type(tokens: _Tokens, then: TableSchema) -> tuple[str, LogicalType]:
    """Return a type as format_type() spells it. One that is not the server's own has to be that of a column of the table."""
    said = list[Token]()
    while tokens.left and tokens.left[0].text not in _ENDS_TYPE:
        said.append(tokens.left.pop(0))
    if tokens.takes("COLLATE"):
        raise Unread("a collation is not read")
    sizes = "".join(token.text for token in said if token.kind in ("number", "mark") and token.text not in "[].")
    words = " ".join(token.name for token in said if token.name)
    is_array = [token.text for token in said[-2:]] == ["[", "]"]
    if words in _COUNTS:
        raise Refused("a column that counts")
    name = _ALIASES.get(words, words)
    if name not in _NAMES:
        return _as_another(
            ".".join(token.text if token.kind == "name" else token.name for token in said if token.name), then
        )
    if name in _ONE and not sizes:
        sizes = "(1)"
    if name == "numeric" and sizes and "," not in sizes:
        sizes = sizes.replace(")", ",0)")
    head, _, tail = name.partition(" ")
    native = f"{head}{sizes} {tail}" if head in ("timestamp", "time") else f"{name}{sizes}"
    native += "[]" if is_array else ""
    return native, logical_type(native, delimiter="," if is_array else "")


def _as_another(name: str, then: TableSchema) -> tuple[str, LogicalType]:
    for column in then.columns:
        if column.type is not None and (column.native == name or column.native.endswith(f".{name}")):
            return column.native, column.type
    raise Unread(f"the type {name} is not read")


_NO_NUMBERS = {"nan": "NaN", "infinity": "Infinity", "-infinity": "-Infinity"}


def default_words(default: Sequence[Token], native: str) -> str | None:
    """Return a default as the catalogue would show it, as far as it is a constant or one of few functions; None for NULL."""
    text = "".join(token.text.lower() if token.kind == "word" else token.text for token in default)
    if text == "null":
        return None
    name = re.sub(r"\([\d,]+\)", "", native)
    if len(default) == 1 and default[0].kind == "string":
        if name in ("smallint", "integer", "bigint", "numeric", "real", "double precision", "boolean"):
            inner = default[0].text[1:-1]
            if (shown := _NO_NUMBERS.get(inner.lower())) is not None:
                return f"'{shown}'::{name}"
            return {"t": "true", "f": "false"}.get(inner, inner) if name == "boolean" else inner
        return f"{default[0].text}::{CALLED.get(name, name)}"
    is_moment = re.fullmatch(r"(?:current_timestamp|localtimestamp)(?:\([0-6]\))?|current_date", text)
    return text.upper() if is_moment else text

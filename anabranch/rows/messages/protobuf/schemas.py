"""Schemas of Protobuf, made of those of Kafka Connect: a file with one message, in which all others are.

https://protobuf.dev/reference/protobuf/proto3-spec/. A field has its column's name as far as Protobuf has such names, and the
column's own as `json_name`, so that JSON made of a message has the columns' names, and a schema tells which field is which
column. What does not live here: the text of a schema (text.py), values (encoding.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from anabranch.rows.messages.avro.schemas import DECIMAL, Schema, field_name, full_name, members
from anabranch.rows.messages.protobuf.numbers import Numbers

KINDS = {
    "int8": "int32",
    "int16": "int32",
    "int32": "int32",
    "int64": "int64",
    "uint64": "uint64",  # ours: Connect has no such type
    "float": "float",
    "double": "double",
    "boolean": "bool",
    "string": "string",
    "bytes": "bytes",
}
VARIABLE_DECIMAL = "io.debezium.data.VariableScaleDecimal"
COMMON_DECIMAL = "confluent.type.Decimal"  # value, precision, scale: registries bring the file
DECIMAL_FILE = "confluent/type/decimal.proto"
UNSIGNED = "uint64"  # `from`: what its JSON is, a string or the bytes of a decimal
OPTIONAL, REPEATED = "optional", "repeated"
ITEM, VALUE = "item", "value"  # fields of an array, and of an element that may be null
_ODD_JSON = re.compile(r"^\[.*\]$|\x00", re.DOTALL)


@dataclass(frozen=True)
class Field:
    """A field. `type`: a word of KINDS, COMMON_DECIMAL, or the name of a message of the same file. `stands_for`: the column, or
    the member of an envelope. `source`: the schema of which it was made."""

    name: str
    number: int
    type: str
    label: str
    stands_for: str
    source: Schema

    @property
    def note(self) -> str:
        """Return what the type means, "" where it says so itself."""
        return str(self.source.get("name", "")) if self.type in KINDS.values() else ""


@dataclass
class Message:
    name: str
    numbers: Numbers
    fields: list[Field] = field(default_factory=list)


@dataclass
class File:
    """A file: the first message is the one that is written, the others are inside it."""

    package: str
    messages: list[Message]

    @property
    def root(self) -> Message:
        return self.messages[0]

    @property
    def has_decimals(self) -> bool:
        return any(one.type == COMMON_DECIMAL for message in self.messages for one in message.fields)


def file_of(schema: Schema, known: Mapping[str, Numbers]) -> File:
    """Return the file of a struct. `known`: numbers of the fields of its messages, by the messages' names."""
    space, _, name = full_name(schema["name"]).rpartition(".")
    package = ".".join(part or "_" for part in space.split(".")) if space else ""
    return _Making(known).file(package, name, schema)


class _Making:
    """Makes a file. Messages inside have names that no field of the first one has."""

    def __init__(self, known: Mapping[str, Numbers]) -> None:
        self._known = known
        self._made: list[Message] = []
        self._taken: set[str] = set()

    def file(self, package: str, name: str, schema: Schema) -> File:
        self._taken = {field_name(one["field"]) for one in members(schema)} | {name}
        self._struct(name, schema)
        return File(package, self._made)

    def _struct(self, name: str, schema: Schema) -> str:
        """Return the name of the message of a struct, which is made where it is not there yet."""
        if not any(one.name == name for one in self._made):
            fields = members(schema)
            numbers = self._known.get(name, Numbers()).of(one["field"] for one in fields)
            made = Message(name, numbers)
            self._made.append(made)
            names = field_names(numbers)
            made.fields += [self._field(names[one["field"]], numbers.fields[one["field"]], one) for one in fields]
        return name

    def _field(self, name: str, number: int, schema: Schema) -> Field:
        kind = self._type(schema)
        is_optional = schema.get("optional") and kind in KINDS.values()  # whether a message is there is always told
        return Field(name, number, kind, OPTIONAL if is_optional else "", schema["field"], schema)

    def _type(self, schema: Schema) -> str:
        told = schema.get("name", "")
        if told in (DECIMAL, VARIABLE_DECIMAL):
            return COMMON_DECIMAL
        if schema["type"] == "array":
            return self._array(schema)
        if schema["type"] == "struct":
            own = field_name(told.rpartition(".")[2])
            return self._struct(self._free(own[:1].upper() + own[1:]), schema)
        return KINDS[schema["type"]]

    def _array(self, schema: Schema) -> str:
        """Return a message for arrays, since neither an array nor what `repeated` has can be null in Protobuf."""
        items = schema["items"]
        kind = KINDS[items["type"]]
        may_be_null = bool(items.get("optional"))
        name = self._free(f"{'Nullable' if may_be_null else ''}{kind.capitalize()}Array")
        if any(one.name == name for one in self._made):
            return name
        inner = kind
        if may_be_null:
            inner = self._free(f"Nullable{kind.capitalize()}")
            value = Field(VALUE, 1, kind, OPTIONAL, VALUE, {"type": items["type"]})
            self._made.append(Message(inner, Numbers({VALUE: 1}, 1), [value]))
        item = Field(ITEM, 1, inner, REPEATED, ITEM, {"type": items["type"]})
        self._made.append(Message(name, Numbers({ITEM: 1}, 1), [item]))
        return name

    def _free(self, name: str) -> str:
        while name in self._taken:
            name += "_"
        return name


def field_names(numbers: Numbers) -> dict[str, str]:
    """Return the names of fields by what they stand for. A name that Protobuf does not have is written with underscores and
    the field's number behind it, so that it is never that of a column which comes later. Names that differ in capitals and
    underscores alone are one to Protobuf: the field with the lowest number has its own, the others have their numbers, too."""
    taken, found = set[str](), dict[str, str]()

    def is_taken(name: str, of: str) -> bool:
        """Return whether a field or a choice (`_NAME`) would have a name that is another field's, or that one's in JSON."""
        columns = numbers.fields
        return _key(name) in taken or f"_{name}" in columns or (name != of and name in columns)

    for told, number in sorted(numbers.fields.items(), key=lambda one: (field_name(one[0]) != one[0], one[1])):
        name = field_name(told)
        if name != told or is_taken(name, told):
            name = f"{name}_{number}"
        while is_taken(name, told):
            name += "x"
        taken.add(_key(name))
        found[told] = name
    return found


def _key(name: str) -> str:
    return name.replace("_", "").lower()


def usual_json_name(name: str) -> str:
    """Return the name that a field has in JSON where its schema gives it none."""
    head, *rest = re.split(r"_+", name)
    return head + "".join(part[:1].upper() + part[1:] for part in rest)


def without_names(columns: Iterable[str]) -> list[str]:
    """Return those columns whose names no field can bring along."""
    return [one for one in columns if _ODD_JSON.search(one)]


def own_json_name(one: Field) -> str:
    """Return the name in JSON that a schema gives a field, "" where it is the usual one."""
    return "" if usual_json_name(one.name) == one.stands_for else one.stands_for

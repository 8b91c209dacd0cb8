"""Schemas of Avro, made of those of Kafka Connect the way the AvroConverter of schema registries makes them.

https://avro.apache.org/docs/1.12.0/specification/; `connect.name`, `connect.version` and `connect.parameters` let Connect's
readers find their own schema again. What does not live here: values (encoding.py), what a table's schema is (debezium/).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from anabranch.rows.messages.json_text import compact

Schema = Mapping[str, Any]  # of Kafka Connect, as its JSON has it

PRIMITIVES = {
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "string": "string",
    "bytes": "bytes",
}
DECIMAL = "org.apache.kafka.connect.data.Decimal"
USUAL_PRECISION = 64  # of a decimal whose digits nobody has declared: as Connect has it
_NARROW = ("int8", "int16")
_ODD = re.compile(r"[^A-Za-z0-9_]")


def avro_text(schema: Schema) -> str:
    """Return the schema as a registry takes it."""
    return compact(_avro(schema, set()))


def field_name(name: str) -> str:
    """Return the name of a column as Avro has it: letters of ASCII, digits and underscores, no digit in front."""
    found = _ODD.sub("_", name)
    return f"_{found}" if found[:1].isdigit() else found


def full_name(name: str) -> str:
    """Return the name of a record: each of its parts as `field_name` has it."""
    return ".".join(field_name(part) for part in name.split("."))


def same_names(columns: Iterable[str]) -> list[str]:
    """Return those columns that Avro would have by one name."""
    names = list(columns)
    counts = Counter(map(field_name, names))
    return [name for name in names if counts[field_name(name)] > 1]


def _avro(schema: Schema, known: set[str]) -> Any:
    """Return a schema without regard to null. `known`: records that are described already, and are named from then on."""
    if schema["type"] == "struct":
        return _record(schema, known)
    if schema["type"] == "array":
        return {"type": "array", "items": _nullable(schema["items"], known), **_connect(schema)}
    more = _connect(schema)
    if schema["type"] in _NARROW:
        more = {"connect.type": schema["type"], **more}
    if schema.get("name") == DECIMAL:
        more = {**_digits(schema), **more, "logicalType": "decimal"}
    name = PRIMITIVES[schema["type"]]
    return {"type": name, **more} if more else name


def _record(schema: Schema, known: set[str]) -> Any:
    name = full_name(schema["name"])
    if name in known:
        return name
    known.add(name)
    space, _, own = name.rpartition(".")
    fields = [_field(one, known) for one in schema["fields"]]
    return {
        "type": "record",
        "name": own,
        **({"namespace": space} if space else {}),
        "fields": fields,
        **_connect(schema),
    }


def _field(schema: Schema, known: set[str]) -> dict[str, Any]:
    told = schema["field"]
    found: dict[str, Any] = {"name": field_name(told), "type": _nullable(schema, known)}
    if schema.get("optional"):
        found["default"] = schema.get("default")
    return found if found["name"] == told else {**found, "doc": told}


def _nullable(schema: Schema, known: set[str]) -> Any:
    """Return a union with null where a value may be null: the branch of the default comes first."""
    kind = _avro(schema, known)
    if not schema.get("optional"):
        return kind
    return ["null", kind] if null_comes_first(schema) else [kind, "null"]


def null_comes_first(schema: Schema) -> bool:
    return schema.get("default") is None


def _connect(schema: Schema) -> dict[str, Any]:
    """Return what says which schema of Connect it was."""
    found: dict[str, Any] = {"connect.version": schema["version"]} if "version" in schema else {}
    if "parameters" in schema:
        found["connect.parameters"] = dict(schema["parameters"])
    return found | ({"connect.name": schema["name"]} if "name" in schema else {})


def _digits(schema: Schema) -> dict[str, int]:
    """Return scale and precision: Avro has none with more digits behind the point than there are."""
    told = schema["parameters"]
    scale = int(told["scale"])
    return {"scale": scale, "precision": max(scale, int(told.get("connect.decimal.precision", USUAL_PRECISION)))}


def members(schema: Schema) -> Sequence[Schema]:
    """Return the fields of a struct."""
    found: Sequence[Schema] = schema["fields"]
    return found

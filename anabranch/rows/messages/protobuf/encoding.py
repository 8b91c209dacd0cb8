"""Values in Protobuf's binary form, made of the JSON that Kafka Connect's JsonConverter has for them.

Messages are built and written by Google's library, out of a descriptor that is made at run time: no compiler is needed. A value
that does not fit its schema is refused, never cut. What does not live here: what a schema is (schemas.py).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from anabranch.rows.messages.avro.encoding import DoesNotFit
from anabranch.rows.messages.avro.schemas import DECIMAL, Schema
from anabranch.rows.messages.protobuf.schemas import (
    COMMON_DECIMAL,
    DECIMAL_FILE,
    ITEM,
    OPTIONAL,
    REPEATED,
    UNSIGNED,
    VALUE,
    VARIABLE_DECIMAL,
    Field,
    File,
    Message,
)

Write = Callable[[Any], bytes]  # a value of JSON
Fix = Callable[[Any], Any]
_TYPES = {name: getattr(FieldDescriptorProto, f"TYPE_{name.upper()}") for name in
          ("int32", "int64", "uint64", "float", "double", "bool", "string", "bytes")}  # fmt: skip
_REFUSALS = (TypeError, ValueError, AttributeError)


def writer(file: File) -> Write:
    """Return what writes a value of a file's first message. It raises DoesNotFit."""
    pool = DescriptorPool()
    if file.has_decimals:
        pool.Add(_decimal_file())
    pool.Add(descriptor(file))
    root = file.root
    make = GetMessageClass(pool.FindMessageTypeByName(f"{file.package}.{root.name}".lstrip(".")))
    fix = _fix_of(root, {one.name: one for one in file.messages})

    def write(value: Any) -> bytes:
        told = fix(value)
        try:
            written: bytes = make(**told).SerializeToString()
        except _REFUSALS as error:
            raise DoesNotFit(_where(make, told) or str(error)) from None
        return written

    return write


def _where(make: Any, value: Mapping[str, Any]) -> str:
    """Return which part of a value does not fit, and why: the library says the latter alone."""
    for name, one in value.items():
        try:
            make(**{name: one})
        except _REFUSALS as error:
            field = make.DESCRIPTOR.fields_by_name[name]
            inner = _where(GetMessageClass(field.message_type), one) if isinstance(one, dict) else ""
            return f"{field.json_name}: {inner or error}"
    return ""


# --- descriptors ------------------------------------------------------------------------------------------------------


def descriptor(file: File) -> Any:
    """Return a file as Protobuf's library has it."""
    root, *inner = file.messages
    made = FileDescriptorProto(name=f"{file.package}.{root.name}.proto".lstrip("."), package=file.package)
    made.syntax = "proto3"
    if file.has_decimals:
        made.dependency.append(DECIMAL_FILE)
    front = f".{file.package}.{root.name}" if file.package else f".{root.name}"
    message = _message(root, front)
    message.nested_type.extend(_message(one, front) for one in inner)
    made.message_type.append(message)
    return made


def _message(one: Message, front: str) -> Any:
    made = DescriptorProto(name=one.name)
    names = {each.name for each in one.fields}
    for each in one.fields:
        made.field.append(_field(each, front))
        if each.label == OPTIONAL:  # one choice of a single field, as Protobuf has it
            choice = f"_{each.name}"
            while choice in names:
                choice = f"X{choice}"
            made.field[-1].proto3_optional, made.field[-1].oneof_index = True, len(made.oneof_decl)
            made.oneof_decl.add(name=choice)
    return made


def _field(one: Field, front: str) -> Any:
    made = FieldDescriptorProto(name=one.name, number=one.number, json_name=one.stands_for)
    made.label = FieldDescriptorProto.LABEL_REPEATED if one.label == REPEATED else FieldDescriptorProto.LABEL_OPTIONAL
    if one.type in _TYPES:
        made.type = _TYPES[one.type]
    else:
        made.type = FieldDescriptorProto.TYPE_MESSAGE
        made.type_name = f".{one.type}" if one.type == COMMON_DECIMAL else f"{front}.{one.type}"
    return made


def _decimal_file() -> Any:
    """Return the file of decimals that registries of Confluent's interface bring along."""
    package, _, name = COMMON_DECIMAL.rpartition(".")
    made = FileDescriptorProto(name=DECIMAL_FILE, package=package, syntax="proto3")
    message = made.message_type.add(name=name)
    for number, (field, type) in enumerate((("value", "BYTES"), ("precision", "UINT32"), ("scale", "INT32")), 1):
        message.field.add(name=field, number=number, label=1, type=getattr(FieldDescriptorProto, f"TYPE_{type}"))
    return made


# --- values -----------------------------------------------------------------------------------------------------------


def _fix_of(message: Message, messages: Mapping[str, Message]) -> Fix:
    """Return what makes the library's arguments of an object of JSON."""
    parts = [(one.stands_for, one.name, _fix(one, messages)) for one in message.fields]
    if all(make is None and told == name for told, name, make in parts):
        return _as_it_is

    def fix(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise DoesNotFit(f"no object for {message.name}")
        found = {}
        for told, name, make in parts:
            if (one := value.get(told)) is not None:
                try:
                    found[name] = one if make is None else make(one)
                except (TypeError, ValueError, KeyError) as error:  # DoesNotFit among them
                    raise DoesNotFit(f"{told}: {error}") from None
        return found

    return fix


def _as_it_is(value: Any) -> Any:
    """Return an object whose members are the fields: the library leaves out those that are None, and refuses others."""
    return value


def _fix(one: Field, messages: Mapping[str, Message]) -> Fix | None:
    """Return what makes an argument of a value, None where it is one already."""
    if one.type == COMMON_DECIMAL:
        return _decimal(one.source)
    if one.source["type"] == "struct":
        return _fix_of(messages[one.type], messages)
    if one.source["type"] == "array":
        return _array(one.source["items"])
    if one.source["type"] == UNSIGNED:
        return _whole_bytes if one.source["from"] == "bytes" else int
    return _SIMPLE.get(one.type)


def _array(items: Schema) -> Fix:
    make = _SIMPLE.get(str(items["type"]), lambda value: value)

    def fix(value: Any) -> dict[str, Any]:
        if not isinstance(value, list):
            raise DoesNotFit("an array with bounds of its own, for which there is no message")
        if any(isinstance(one, list) for one in value):
            raise DoesNotFit("an array of several dimensions, for which there is no message")
        if not items.get("optional"):
            return {ITEM: [make(one) for one in value]}
        return {ITEM: [{} if one is None else {VALUE: make(one)} for one in value]}

    return fix


def _decimal(schema: Schema) -> Fix:
    if schema["name"] == VARIABLE_DECIMAL:
        return lambda one: {"value": _bytes(one["value"]), "scale": one["scale"]}
    assert schema["name"] == DECIMAL, "there are two kinds"
    told = schema["parameters"]
    same = {"precision": int(told.get("connect.decimal.precision", 0)), "scale": int(told["scale"])}
    return lambda one: {"value": _bytes(one), **same}


def _bytes(value: Any) -> bytes:
    if not isinstance(value, str):
        raise DoesNotFit("no bytes")
    return base64.b64decode(value, validate=True)


def _float(value: Any) -> float:
    if isinstance(value, (bool, list, dict)):
        raise DoesNotFit("no number")
    return float(value)  # "NaN", "Infinity" and "-Infinity" among them


def _whole_bytes(value: Any) -> int:
    """Return a number that comes as the bytes of a decimal without decimals."""
    return int.from_bytes(_bytes(value), "big", signed=True)


_SIMPLE: Mapping[str, Fix] = {"bytes": _bytes, "float": _float, "double": _float}

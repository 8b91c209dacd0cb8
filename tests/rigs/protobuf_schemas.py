"""Schemas of Protobuf as others read them: protoc says what a text means, and rules say which text may follow another.

The rules are those of Confluent's registry (https://docs.confluent.io/platform/current/schema-registry/fundamentals/
serdes-develop/serdes-protobuf.html): fields come and go, one that stays keeps the bytes of its values.
"""

from __future__ import annotations

import re
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_tools import protoc

DECIMAL = (
    'syntax = "proto3"; package confluent.type;'
    "message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }"
)
_T = FieldDescriptorProto
_ALIKE = [
    {_T.TYPE_INT32, _T.TYPE_INT64, _T.TYPE_UINT32, _T.TYPE_UINT64, _T.TYPE_BOOL},
    {_T.TYPE_STRING, _T.TYPE_BYTES},
]


@lru_cache(maxsize=256)
def compiled(text: str) -> FileDescriptorSet:
    """Return what protoc makes of a text, with the files that it imports in front. Raises ValueError for what it refuses."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "confluent/type").mkdir(parents=True)
        (root / "confluent/type/decimal.proto").write_text(DECIMAL)
        (root / "schema.proto").write_text(text)
        options = [f"-I{root}", "--include_imports", f"--descriptor_set_out={root / 'out'}"]
        if protoc.main(["protoc", *options, "schema.proto"]):
            raise ValueError(f"protoc refuses a schema:\n{text}")
        return FileDescriptorSet.FromString((root / "out").read_bytes())


@lru_cache(maxsize=256)
def message_class(text: str) -> Any:
    """Return the class of a text's first message."""
    pool, files = DescriptorPool(), compiled(text).file
    for one in files:
        pool.Add(one)
    last = files[-1]
    return GetMessageClass(pool.FindMessageTypeByName(f"{last.package}.{last.message_type[0].name}"))


def reprinted(text: str) -> str:
    """Return a text as a registry may print it: without comments, with other blanks."""
    return re.sub(r"\s+", " ", re.sub(r"//[^\n]*", "", text)).strip()


def follows(former: str, text: str) -> bool:
    """Return whether a schema may follow another one, by either direction: the rules know none."""
    before, after = (compiled(one).file[-1] for one in (former, text))
    return before.package == after.package and _all_fit(before, after)


def _all_fit(before: FileDescriptorProto, after: FileDescriptorProto) -> bool:
    now = {one.name: one for one in after.message_type}
    return all(one.name in now and _fits(one, now[one.name]) for one in before.message_type)


def _fits(before: DescriptorProto, after: DescriptorProto) -> bool:
    nested, fields = {one.name: one for one in after.nested_type}, {one.number: one for one in after.field}
    return all(one.name in nested and _fits(one, nested[one.name]) for one in before.nested_type) and all(
        _stays(one, fields[one.number]) for one in before.field if one.number in fields
    )


def _stays(before: FieldDescriptorProto, after: FieldDescriptorProto) -> bool:
    is_alike = before.type == after.type or any({before.type, after.type} <= one for one in _ALIKE)
    return is_alike and before.type_name == after.type_name and before.label == after.label

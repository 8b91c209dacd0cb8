"""Every contract between engines and connectors, by role: Protocols, and the values they hand over. A docstring specifies.

An engine reaches these through `connectors.get(scheme)`; a connector implements them and knows no engine. A source's are in
`source`, `log`, `catalog` and `snapshot`; a target's in `target`, `store`, `writer`, `loader` and `reader`; those of both in
`values` and `checks`.
"""

from anabranch.contracts.catalog import Dialect, SourceCatalog
from anabranch.contracts.checks import Checks, PreflightContext
from anabranch.contracts.loader import LoadedChunk, Loader, NewLoad, RawLoader
from anabranch.contracts.log import LogOrder, LogReader, Select, UncommittedOrder, UncommittedReader, ValueGuard
from anabranch.contracts.reader import HashingReader, TargetReader
from anabranch.contracts.snapshot import HashingSnapshot, RawReader, SharingReader, SnapshotReader, WaryReader
from anabranch.contracts.source import SourceConnector
from anabranch.contracts.store import AsideStore, TargetStore
from anabranch.contracts.target import TargetConnector, TypeMap
from anabranch.contracts.values import Bounds, LogOptions, ValueRules
from anabranch.contracts.writer import AsideWriter, Conflict, PipelinedWriter, Stager, Writer

__all__ = [
    "AsideStore",
    "AsideWriter",
    "Bounds",
    "Checks",
    "Conflict",
    "Dialect",
    "HashingReader",
    "HashingSnapshot",
    "LoadedChunk",
    "Loader",
    "LogOptions",
    "LogOrder",
    "LogReader",
    "NewLoad",
    "PipelinedWriter",
    "PreflightContext",
    "RawLoader",
    "RawReader",
    "Select",
    "SharingReader",
    "SnapshotReader",
    "SourceCatalog",
    "SourceConnector",
    "Stager",
    "TargetConnector",
    "TargetReader",
    "TargetStore",
    "TypeMap",
    "UncommittedOrder",
    "UncommittedReader",
    "ValueGuard",
    "ValueRules",
    "WaryReader",
    "Writer",
]

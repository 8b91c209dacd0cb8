"""Every contract between engines and connectors, by role: Protocols, and the values they hand over. A docstring specifies.

An engine reaches these through `connectors.source` and `connectors.target`; a connector implements them and knows no engine.
A source's are in `source`, `log`, `source_catalog` and `snapshot`; a target's in `target`, `store`, `journal`, `tables`,
`loader`, `writer`, `appender` and `reader`; those of both in `values`, `checks` and, for a cut-over, `fence`; a drill's in
`shadow`, those of two active sites in `pair`. None has
more than eight methods: an ability that not every database has is a protocol of its own, and one object may have several.
"""

from anabranch.contracts.appender import Appender, AppendTarget
from anabranch.contracts.checks import Checks, PreflightContext
from anabranch.contracts.fence import (
    ComparingSource,
    Counter,
    CounterSet,
    CountingSource,
    CountingTables,
    CutoverStore,
    FencedSource,
    PassingTarget,
    SourceFence,
)
from anabranch.contracts.journal import AsideStore, Journal
from anabranch.contracts.loader import LoadedChunk, Loader, NewLoad, RawLoader
from anabranch.contracts.log import LogOrder, LogReader, Select, UncommittedOrder, UncommittedReader, ValueGuard
from anabranch.contracts.pair import OlderRow, PairCatalog, PairWriter, RowAgain
from anabranch.contracts.reader import (
    ComputedReader,
    HashingReader,
    KeptReader,
    PlacedReader,
    RangedReader,
    SharedReader,
    TargetReader,
)
from anabranch.contracts.shadow import Outlook, Shadow, ShadowedSource, Unlike, UnlikeRow
from anabranch.contracts.snapshot import (
    ComputingReader,
    HashingSnapshot,
    KeepingReader,
    RawReader,
    SharingReader,
    SnapshotReader,
    WaryReader,
)
from anabranch.contracts.source import (
    SourceConnector,
    SourceLengths,
    SourceRemains,
    SourceSetUp,
    SpelledTypes,
    drift_of,
    longest_of,
    remains_of,
    steps_of,
)
from anabranch.contracts.source_catalog import AlteringDialect, Dialect, LogFacts, OpenTransactions, SourceCatalog
from anabranch.contracts.store import JobStore, TableStates, TargetStore
from anabranch.contracts.tables import LabelTables, StandingTables, TargetCatalog, TargetTables
from anabranch.contracts.target import RowTarget, StandingTypes, TargetConnector, TypeMap
from anabranch.contracts.values import Bounds, LogOptions
from anabranch.contracts.verified import VerifiedStore
from anabranch.contracts.writer import (
    AltersTables,
    Begun,
    Cascader,
    Conflict,
    EmptiesApart,
    Emptying,
    Enforced,
    EpochState,
    LabelWriter,
    Needed,
    PipelinedWriter,
    RowWriter,
    StagedWriter,
    Stager,
    Writer,
)
from anabranch.model.value_rules import ValueRules

__all__ = [
    "AlteringDialect",
    "AltersTables",
    "AppendTarget",
    "Appender",
    "AsideStore",
    "Begun",
    "Bounds",
    "Cascader",
    "Checks",
    "ComparingSource",
    "ComputedReader",
    "ComputingReader",
    "Conflict",
    "Counter",
    "CounterSet",
    "CountingSource",
    "CountingTables",
    "CutoverStore",
    "Dialect",
    "EmptiesApart",
    "Emptying",
    "Enforced",
    "EpochState",
    "FencedSource",
    "HashingReader",
    "HashingSnapshot",
    "JobStore",
    "Journal",
    "KeepingReader",
    "KeptReader",
    "LabelTables",
    "LabelWriter",
    "LoadedChunk",
    "Loader",
    "LogFacts",
    "LogOptions",
    "LogOrder",
    "LogReader",
    "Needed",
    "NewLoad",
    "OlderRow",
    "OpenTransactions",
    "Outlook",
    "PairCatalog",
    "PairWriter",
    "PassingTarget",
    "PipelinedWriter",
    "PlacedReader",
    "PreflightContext",
    "RangedReader",
    "RawLoader",
    "RawReader",
    "RowAgain",
    "RowTarget",
    "RowWriter",
    "Select",
    "Shadow",
    "ShadowedSource",
    "SharedReader",
    "SharingReader",
    "SnapshotReader",
    "SourceCatalog",
    "SourceConnector",
    "SourceFence",
    "SourceLengths",
    "SourceRemains",
    "SourceSetUp",
    "SpelledTypes",
    "StagedWriter",
    "Stager",
    "StandingTables",
    "StandingTypes",
    "TableStates",
    "TargetCatalog",
    "TargetConnector",
    "TargetReader",
    "TargetStore",
    "TargetTables",
    "TypeMap",
    "UncommittedOrder",
    "UncommittedReader",
    "Unlike",
    "UnlikeRow",
    "ValueGuard",
    "ValueRules",
    "VerifiedStore",
    "WaryReader",
    "Writer",
    "drift_of",
    "longest_of",
    "remains_of",
    "steps_of",
]

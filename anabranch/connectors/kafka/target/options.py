"""Options of a Kafka as a target: `[target.options]` of the job file. No driver is imported here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Interval, MinLen

from anabranch.databases import Options, whole_number
from anabranch.model.ids import TableId

MOST = 10000  # partitions of one topic


@dataclass(frozen=True)
class KafkaTargetOptions(Options):
    NEEDS_LOAD: ClassVar[frozenset[str]] = frozenset(
        (
            "mode",
            "topic",
            "partitions",
            "table_partitions",
            "format",
            "schema",
            "decimal",
            "transactions",
            "schema_changes",
        )
    )

    format: Literal["plain", "debezium", "avro", "protobuf", "exbase"] = "plain"
    """Choose what a message contains: [the formats](kafka-messages.md)."""
    registry: str = ""
    """With `avro` and `protobuf`: the schema registry, `https://user:${REGISTRY_PASSWORD}@host:8081`; the variable is taken
    from the environment of the job's processes. `ssl_ca` of the URL of the cluster counts for it, too."""
    schema: bool = False
    """With `debezium`: values and keys say what they are made of, as Kafka Connect's JSON converter has it."""
    tombstones: bool | None = None
    """Let a message without a value follow each delete, by which a compacted topic forgets the row; without it all formats but
    `exbase` do so where each table has a topic."""
    decimal: Literal["string", "precise"] = "string"
    """With `debezium`, `avro` and `protobuf`: decimals as text, or as the bytes of Kafka Connect's `Decimal`, in Protobuf
    `confluent.type.Decimal`."""
    mode: Literal["table", "single"] = "table"
    """A topic for each table; or one for the whole job, of one partition, with all messages in the order in which transactions
    were committed."""
    topic: str = "{schema}.{table}"
    """The topic of a table, or, with `mode = "single"`, of all of them; `{job}`, `{schema}` and `{table}` are put in, the two
    last as the rules name the table at the target."""
    transactions: str = ""
    """With `debezium` and `exbase`: the topic, of one partition, that is told of each transaction when all of its messages are
    there, with `debezium` also in front of them; `{job}` is put in. With `mode = "single"` it may be the topic of the tables.
    Without it nobody is told."""
    schema_changes: bool = False
    """With `debezium`: a topic named as the job, of one partition, is told of each change of a table's definition that the job
    follows, as Debezium tells it ([what](kafka-messages.md#changes-of-definitions)). With `mode = "single"` it may be the topic
    of the tables."""
    topics: Literal["create", "existing"] = "create"
    """Make the topics, which must not have messages of others, or write behind what topics have that somebody has made."""
    partitions: int = whole_number(1, 1, MOST)
    """The number of partitions that a topic is made with, or, of one that is there, the first so many that the job writes to. A
    key is in one of them for ever."""
    table_partitions: Annotated[dict[str, Annotated[int, Interval(ge=1, le=MOST)]], MinLen(1)] | None = None
    """Tables whose topics have another number of partitions than `partitions` says, each as the rules name it at the target:
    `{ "shop.orders" = 12 }`."""
    initial_load: bool = False
    """Write every row that is there when the job begins, in front of the changes of its table
    ([how](../howto/kafka.md#rows-that-are-there)). It counts when the job begins."""
    replication: int | None = whole_number(None, 1, 32767)
    """The number of replicas that topics are made with, that of the job's state among them; without it as the cluster has
    it."""
    largest_message: int = whole_number(20971520, 1024, 999995904)
    """The bytes that a message may have, key and headers with it, before it is compressed. A topic that the job makes takes as
    many; a larger row stops the job, which names it."""
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "lz4"
    """How messages travel and are kept."""
    linger_ms: int = whole_number(20, 0, 9000)
    """Milliseconds that a message waits for others to travel with, where nobody waits for its transaction."""
    transaction_timeout_s: int = whole_number(300, 10, 86400)
    """Seconds that one transaction may take, at most `transaction.max.timeout.ms` of the brokers. Where a job dies and nobody
    starts it again, readers of committed messages wait as long for what comes behind it."""

    @property
    def has_first_rows(self) -> bool:
        return self.initial_load

    def partitions_of(self, table: TableId) -> int:
        """Return the number of partitions of a table's topic; `table`: as named at the target."""
        return (self.table_partitions or {}).get(str(table), self.partitions)

    @property
    def has_tombstones(self) -> bool:
        usual = self.format != "exbase" and not self.is_single
        return usual if self.tombstones is None else self.tombstones

    @property
    def is_registered(self) -> bool:
        """True if schemas are in a registry."""
        return self.format in ("avro", "protobuf")

    @property
    def is_single(self) -> bool:
        return self.mode == "single"


USUAL = KafkaTargetOptions()

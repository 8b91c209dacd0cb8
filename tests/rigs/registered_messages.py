"""Messages whose schemas are in a registry, read by the client's own deserializers, each in one form for all formats."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from anabranch.model.endpoint import Endpoint
from anabranch.testing.servers import Server
from rigs.protobuf_schemas import message_class
from rigs.scenario import Scenario
from rigs.scenario_kafka import committed, to_kafka
from rigs.schema_registry import PASSWORD, USER, SchemaRegistry

FORMATS = ("avro", "protobuf")
COMMON_DECIMAL = "confluent.type.Decimal"


@dataclass(frozen=True)
class Registered:
    """A format whose schemas are in a registry, at a Kafka."""

    format: str
    kafka: Server
    registry: SchemaRegistry

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint("kafka", self.kafka.host, self.kafka.port, "", "")

    def write_job(self, made: Scenario, more: str = "") -> None:
        """Write the job file of a scenario with messages of this format."""
        options = f'topic = "{{job}}.{{table}}"\nformat = "{self.format}"\nregistry = "{self.registry.url}"\n{more}'
        to_kafka(made, self.kafka, options=options)

    def read(self, topic: str) -> list[tuple[Any, Any]]:
        """Return keys and values of what is committed in the one partition, as objects of JSON would be."""
        client = SchemaRegistryClient(
            {"url": f"http://127.0.0.1:{self.registry.port}", "basic.auth.user.info": f"{USER}:{PASSWORD}"}
        )
        avro, context = AvroDeserializer(client), SerializationContext(topic, MessageField.VALUE)

        def one(message: bytes | None) -> Any:
            if message is None:
                return None
            if self.format == "avro":
                return avro(message, context)
            kind = message_class(self.registry.schemas[int.from_bytes(message[1:5], "big") - 1])
            return _as_object(ProtobufDeserializer(kind, {"use.deprecated.format": False})(message, context))

        return [(one(key), one(value)) for key, value in committed(self.endpoint, topic)]


def _as_object(message: Any) -> Any:
    """Return a message of Protobuf with the names that its fields have in JSON, None where one is not there."""
    if message.DESCRIPTOR.full_name == COMMON_DECIMAL:
        return Decimal(int.from_bytes(message.value, "big", signed=True)).scaleb(-message.scale)
    found = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.has_presence and not message.HasField(field.name):
            value = None
        elif field.message_type is not None:
            value = _as_object(value)
        found[field.json_name] = value
    return found

"""Kafka, as a target that takes messages: the descriptor, without a driver. `target/` is a package, the files beside it are of
a cluster's connections and errors."""

from __future__ import annotations

from anabranch.brokers.settings import SSL_MODES
from anabranch.databases import TARGET, Database

DATABASE = Database(
    name="kafka",
    title="Kafka",
    port=9092,
    roles=(TARGET,),
    url_options=("sasl_mechanism", "ssl_ca", "ssl_cert", "ssl_key", "ssl_mode"),
    ssl_modes=SSL_MODES,
    may_be_anonymous=True,
    has_brokers=True,
    keeps_changes=True,
    extra="kafka",
    options={TARGET: "anabranch.connectors.kafka.target.options:KafkaTargetOptions"},
)

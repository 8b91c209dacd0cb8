"""Kafka as a target: the descriptor. The driver is imported when a connector is asked for, not before."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from anabranch.connectors.kafka.target.options import USUAL, KafkaTargetOptions

if TYPE_CHECKING:
    from anabranch.connectors.kafka.target.rowless import NoCatalog, NoTables
    from anabranch.contracts import (
        Appender,
        ChangeTables,
        Checks,
        FirstRows,
        ReadTarget,
        TargetStore,
        TypeMap,
        ValueRules,
    )
    from anabranch.databases import Options
    from anabranch.model.checks import CheckResult
    from anabranch.model.endpoint import Endpoint
    from anabranch.model.recipe import Asked, EndRecipe


@dataclass
class KafkaTarget:
    """A Kafka cluster in the role of target: the endpoint and its options and nothing else, so it pickles."""

    endpoint: Endpoint
    options: KafkaTargetOptions = USUAL

    @cached_property
    def types(self) -> TypeMap:
        from anabranch.connectors.kafka.target.typemap import KafkaTypes

        return KafkaTypes()

    def store(self) -> TargetStore:
        from anabranch.connectors.kafka.target.store import KafkaStore

        return KafkaStore(self.endpoint, self.options)

    def writer(self, rules: ValueRules, bypass_constraints: bool) -> Appender:
        return self.appender(rules)

    def appender(self, rules: ValueRules) -> Appender:
        from anabranch.connectors.kafka.target.appender import KafkaAppender

        return KafkaAppender(self.endpoint, self.options)

    def change_tables(self, rules: ValueRules) -> ChangeTables:
        from anabranch.connectors.kafka.target.beginning import KafkaTopics

        return KafkaTopics(self.endpoint, self.options)

    @property
    def wants_first_rows(self) -> bool:
        return self.options.initial_load

    def first_rows(self) -> FirstRows:
        from anabranch.connectors.kafka.target.first_rows import KafkaFirstRows

        return KafkaFirstRows(self.endpoint, self.options)

    def unreached(self, seconds: float) -> CheckResult | None:
        from anabranch.connectors.kafka.target.preflight import unreached

        return unreached(self.endpoint, seconds)

    def as_rows(self, job: str) -> ReadTarget:
        from anabranch.connectors.kafka.target.row_reader import KafkaRows

        return KafkaRows(self.endpoint, self.options, job)

    def catalog(self) -> NoCatalog:
        from anabranch.connectors.kafka.target.rowless import NoCatalog

        return NoCatalog()

    def tables(self, rules: ValueRules) -> NoTables:
        from anabranch.connectors.kafka.target.rowless import NoTables

        return NoTables()

    def checks(self) -> Checks:
        from anabranch.connectors.kafka.target.preflight import KafkaChecks

        return KafkaChecks(self.endpoint, self.options)


def connector(endpoint: Endpoint, options: Options = USUAL) -> KafkaTarget:
    """Return the target connector. Raises ModuleNotFoundError without the driver."""
    import confluent_kafka  # noqa: F401 - asked whether it is there

    assert isinstance(options, KafkaTargetOptions), "so the registry says"
    return KafkaTarget(endpoint, options)


change_connector = connector  # there is no other form


def recipe_for(asked: Asked) -> EndRecipe:
    """Return what has to be set up at a Kafka before it is a target."""
    from anabranch.connectors.kafka.target.recipe import recipe_of

    return recipe_of(asked)

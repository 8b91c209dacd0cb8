"""Does the schema registry take the schemas of the job's tables? Only asks: nothing is registered here.

What does not live here: the registry's interface (connectors/kafka/registry.py), what schemas say (rows/messages/).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from anabranch.connectors.kafka.registry import Registry
from anabranch.connectors.kafka.target.formats import registry_of, settings_of
from anabranch.connectors.kafka.target.options import KafkaTargetOptions
from anabranch.connectors.kafka.target.records import Key, Value
from anabranch.connectors.sql.findings import failed, ok
from anabranch.contracts import PreflightContext
from anabranch.errors import TargetError
from anabranch.model.checks import CheckResult
from anabranch.model.endpoint import Endpoint
from anabranch.rows.messages.format import Settings
from anabranch.rows.messages.formats import TEXTS
from anabranch.rows.net import TargetTable

UNFIT = "take other topics, delete the subject if nobody reads by it, or set its compatibility at the registry"


def registered(
    options: KafkaTargetOptions, endpoint: Endpoint, context: PreflightContext, records: Mapping[Key, Value]
) -> Iterator[CheckResult]:
    """Yield what the registry says; nothing where the job has none. Values are compared once the job's state tells its source,
    which they name: before that keys alone."""
    if (registry := registry_of(options, endpoint)) is None:
        return
    try:
        found = list(_found(registry, options, context, records))
    except TargetError as error:
        found = [failed("registry", error.message, error.hint)]
    yield from found or [ok("registry", f"the registry at {registry.place} answers, and takes the schemas")]


def _found(
    registry: Registry, options: KafkaTargetOptions, context: PreflightContext, records: Mapping[Key, Value]
) -> Iterator[CheckResult]:
    if registry.kind not in registry.types():
        yield failed(
            "registry", f"the registry at {registry.place} takes no schemas of {registry.kind}", "take another one"
        )
        return
    settings = settings_of(options, context.job, records, registry)
    for table in context.targets.values():
        for what in unfit(registry, settings, table):
            yield failed("registry", what, UNFIT, table)


def unfit(registry: Registry, settings: Settings, table: TargetTable) -> Iterator[str]:
    """Yield of each subject of a table why it would not take the table's schema. Raises TargetError where the registry does
    not say."""
    for subject, text in TEXTS[registry.format](settings, table):
        if not registry.fits(subject, text):
            yield f"subject {subject} at {registry.place} has a schema with which that of the table is not compatible"

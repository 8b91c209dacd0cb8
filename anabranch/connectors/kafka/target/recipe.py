"""Tell what has to be set up at a Kafka before a job writes to it, as steps in their order.

What does not live here: what the checks look at (`preflight.py`), names of topics (`names.py`).
"""

from __future__ import annotations

from anabranch.connectors.kafka.target.topics import AROUND, BATCH_BYTES
from anabranch.model.recipe import Asked, EndRecipe, Item, ItemKind, Step, check, made, setting

# https://kafka.apache.org/documentation/#security_authz
RIGHTS = (
    (
        "--operation Write --operation Describe --operation DescribeConfigs --operation Create --topic {0}. {1}",
        "its topics",
    ),
    (
        "--operation Write --operation Describe --operation DescribeConfigs --operation Create --topic JOB",
        "with schema_changes = true: the topic of changed definitions",
    ),
    ("--operation All --topic anabranch. {1}", "the job's state"),
    ("--operation Write --operation Describe --transactional-id anabranch. {1}", "its transactions"),
    ("--operation Read --group anabranch", "reading its state"),
)
PREFIXED = "--resource-pattern-type prefixed"


def recipe_of(asked: Asked) -> EndRecipe:
    """Return the steps. Pure: no cluster is asked."""
    allowed = f"kafka-acls.sh --add --allow-principal User:{asked.user} "
    rights = tuple(
        Item(
            allowed + right.format(schema, PREFIXED),
            ItemKind.LINE,
            f"where the cluster has ACLs: {why}",
            is_optional=True,
        )
        for schema in asked.schemas[:1]
        for right, why in RIGHTS
    )
    brokers = (
        check("the addresses of brokers, as kafka://host:9092,host:9092"),
        setting(
            "auto.create.topics.enable = false",
            "else a consumer may make a topic before the job does",
            is_optional=True,
        ),
    )
    size = f"max.message.bytes of topics that are there: {BATCH_BYTES + AROUND} or more"
    names = (
        "names of topics: letters, digits, dot, underscore and hyphen, 249 at most; other names of tables are refused"
    )
    steps = (
        Step("target.brokers", "The brokers", brokers, ("target.brokers",)),
        Step("target.rights", "Rights of the job's user", rights, ("target.rights",)),
        Step(
            "target.made",
            "What the product makes here",
            (made("topics of the tables, and anabranch.JOB for its state"),),
        ),
        Step("target.topics", "Topics", (check(names), check(size)), ("target.topics",)),
        Step(
            "target.tables",
            "The tables",
            (check("anabranch preflight JOB"),),
            ("target.messages", "target.changes", "target.registry"),
        ),
    )
    return EndRecipe(steps, ())

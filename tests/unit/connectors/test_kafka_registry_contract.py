"""A schema registry by its published interface: against a small server that follows it (`rigs/schema_registry.py`)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from anabranch.connectors.kafka.registry import Registry
from anabranch.errors import ConfigError, TargetError, TargetUnavailable
from rigs.schema_registry import PASSWORD, SchemaRegistry, schema_registry

ENV = {"REGISTRY_PASSWORD": PASSWORD}
ONE = '{"type":"record","name":"a","fields":[{"name":"x","type":"int"}]}'
MORE = '{"type":"record","name":"a","fields":[{"name":"x","type":"int"},{"name":"y","type":["null","int"],"default":null}]}'
OTHER = '{"type":"record","name":"a","fields":[{"name":"x","type":"string"}]}'


@pytest.fixture
def there() -> Iterator[SchemaRegistry]:
    with schema_registry() as made:
        yield made


def test_a_schema_has_one_number_and_is_asked_for_once(there: SchemaRegistry) -> None:
    registry = Registry(there.url, env=ENV)
    numbers = [registry.number("shop.ä/b-key", one) for one in (ONE, ONE, MORE, ONE)]
    assert numbers == [1, 1, 2, 1] and there.subjects == {"shop.ä/b-key": [1, 2]}
    assert there.asked == ["POST /subjects/shop.%C3%A4%2Fb-key/versions"] * 2
    assert Registry(there.url, env=ENV).number("shop.ä/b-key", ONE) == 1
    assert registry.types() == ["JSON", "PROTOBUF", "AVRO"]


def test_a_schema_that_does_not_fit_is_told_before_and_refused(there: SchemaRegistry) -> None:
    registry = Registry(there.url, env=ENV)
    assert registry.fits("s", ONE), "where nobody has registered anything"
    registry.number("s", ONE)
    assert registry.fits("s", MORE) and not registry.fits("s", OTHER)
    with pytest.raises(TargetError, match=r"cannot register the schema of s: .*incompatible.* answers 409") as refused:
        registry.number("s", OTHER)
    assert "compatibility" in (refused.value.hint or "")
    assert not isinstance(refused.value, TargetUnavailable)


PROTO_FIELD = 'syntax = "proto3"; package s; message A { int32 x = 1; %s }'
_AVRO = '{"type":"record","name":"a","fields":[{"name":"x","type":"int"}%s]}'
CAME_AND_WENT = [
    _AVRO % ',{"name":"y","type":["null","int"],"default":null}',
    _AVRO % "",
    _AVRO % ',{"name":"y","type":["null","string"],"default":null}',
]


@pytest.mark.parametrize("level", ["BACKWARD", "BACKWARD_TRANSITIVE", "FULL_TRANSITIVE"])
@pytest.mark.parametrize("is_own", [True, False])
@pytest.mark.parametrize("format", ["avro", "protobuf"])
def test_a_transitive_subject_is_asked_about_all_of_its_schemas(
    there: SchemaRegistry, level: str, is_own: bool, format: str
) -> None:
    """A field came and went: one of another type fits the latest schema, and not the first."""
    registry = Registry(there.url, env=ENV, format=format)
    three = CAME_AND_WENT if format == "avro" else [PROTO_FIELD % one for one in ("int32 y = 2;", "", "string y = 2;")]
    there.levels = {"s": "NONE"}
    for one in three[:2]:
        registry.number("s", one)
    there.levels = {"s": level} if is_own else {"": level}
    assert registry.fits("s", three[2]) is (level == "BACKWARD")
    assert registry.fits("s", three[0]), "which it has"
    there.levels["s"] = "NONE"
    assert registry.fits("s", three[2])


def test_a_compatibility_that_the_job_may_not_read_is_told_at_the_end_alone(there: SchemaRegistry) -> None:
    registry = Registry(there.url, env=ENV)
    there.levels = {"s": "NONE"}
    for one in CAME_AND_WENT[:2]:
        registry.number("s", one)
    there.levels = {"": "BACKWARD_TRANSITIVE"}
    there.refused = "/config", 403
    assert registry.fits("s", CAME_AND_WENT[2])
    with pytest.raises(TargetError, match="answers 409"):
        registry.number("s", CAME_AND_WENT[2])
    there.refused = "/config", 503
    with pytest.raises(TargetUnavailable, match="503"):
        registry.fits("s", CAME_AND_WENT[2])


PROTO = 'syntax = "proto3"; package s; message A { int32 a = 1; } // one'


def test_schemas_of_protobuf_are_registered_as_such_and_read_back(there: SchemaRegistry) -> None:
    registry = Registry(there.url, env=ENV, format="protobuf")
    assert registry.latest("s") is None and registry.kind == "PROTOBUF"
    assert registry.fits("s", PROTO) and registry.number("s", PROTO) == 1
    assert there.kinds == {1: "PROTOBUF"}
    assert registry.latest("s") == PROTO.partition(" //")[0], "as the registry prints it"
    assert registry.fits("s", PROTO.replace("int32", "int64")) and not registry.fits(
        "s", PROTO.replace("int32", "string")
    )
    with pytest.raises(TargetError, match="answers 422"):
        registry.number("t", "message {")
    with pytest.raises(TargetError, match=r"subject s .* has schemas of PROTOBUF, not of AVRO") as refused:
        Registry(there.url, env=ENV).latest("s")
    assert "other topics" in (refused.value.hint or "")
    for body in ({}, [], {"schema": 1}):
        there.answers = 200, body
        with pytest.raises(TargetUnavailable, match="something else"):
            registry.latest("s")


def test_a_wrong_password_is_refused_and_not_shown(there: SchemaRegistry) -> None:
    with pytest.raises(TargetError, match="answers 401") as refused:
        Registry(there.url, env={"REGISTRY_PASSWORD": "swordfish"}).types()
    assert "swordfish" not in f"{refused.value} {refused.value.hint}" and "rights" in (refused.value.hint or "")


def test_a_registry_that_is_away_is_asked_again_later(there: SchemaRegistry) -> None:
    registry = Registry(there.url, env=ENV)
    there.answers = 503, {"error_code": 50003, "message": "Error while forwarding the request to the primary"}
    with pytest.raises(TargetUnavailable, match="forwarding") as refused:
        registry.number("s", ONE)
    assert "start the registry" in refused.value.hint
    there.answers = None
    assert registry.number("s", ONE) == 1
    with pytest.raises(TargetUnavailable, match=r"registry at http://127\.0\.0\.1:1") as refused:
        Registry("http://127.0.0.1:1").types()
    assert "start the registry" in refused.value.hint and "[target.options] registry" in refused.value.hint


@pytest.mark.parametrize("status", [300, 301, 302, 303, 307, 308])
def test_an_answer_that_points_elsewhere_is_an_error_and_takes_no_password_there(
    there: SchemaRegistry, status: int
) -> None:
    with schema_registry() as other:
        there.answers = status, {"error_code": 40401, "message": "moved"}
        there.points_to = f"http://me:secret@127.0.0.1:{other.port}/there?token=secret"
        registry = Registry(there.url, env=ENV)
        for ask in (registry.types, lambda: registry.number("s", ONE), lambda: registry.fits("s", ONE)):
            with pytest.raises(
                TargetError, match=rf"points to http://127\.0\.0\.1:{other.port}/there \({status}\)"
            ) as refused:
                ask()
            assert not isinstance(refused.value, TargetUnavailable) and "secret" not in str(refused.value)
    assert len(there.asked) == 3 and not other.asked


@pytest.mark.parametrize("body", [{}, [], None, 7, "AVRO", [1], {"id": None}, {"id": "1"}, {"id": True}, {"id": 1 << 31},
                                  {"id": -1}, {"is_compatible": "yes"}])  # fmt: skip
def test_an_answer_of_another_shape_is_no_answer(there: SchemaRegistry, body: object) -> None:
    registry = Registry(there.url, env=ENV)
    there.answers = 200, body
    asks = [lambda: registry.number("s", ONE), lambda: registry.fits("s", ONE)]
    for ask in asks + ([registry.types] if body != [] else []):
        with pytest.raises(TargetUnavailable, match="answers with something else: ") as refused:
            ask()
        assert json.dumps(body) in str(refused.value)
    there.answers = 200, ["x" * 1000]
    with pytest.raises(TargetUnavailable) as long:
        registry.number("s", ONE)
    assert len(str(long.value)) < 400
    there.answers = None
    assert registry.number("s", ONE) == 1


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://user:secret@host", "shows a password"),
        ("https://user:${NOWHERE}@host", "NOWHERE is not set"),
        ("host:8081", "no address"),
        ("ftp://host", "no address"),
        ("http://host:port", "no address"),
        ("http://host?x=1", "no address"),
    ],
)
def test_what_is_no_address_is_refused_without_showing_it(url: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as refused:
        Registry(url, env=ENV)
    assert "secret" not in f"{refused.value} {refused.value.hint}"


def test_an_address_is_shown_without_who_asks() -> None:
    assert Registry("http://job:${REGISTRY_PASSWORD}@[::1]:8081/api/", env=ENV).place == "http://[::1]:8081/api"

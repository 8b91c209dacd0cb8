"""A private Kafka that asks who comes, and what they may: passwords, certificates, ACLs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives import serialization

from anabranch.brokers.settings import settings
from anabranch.connectors.kafka.target import KafkaTarget
from anabranch.connectors.kafka.target.options import KafkaTargetOptions
from anabranch.model.endpoint import EndLimits, Endpoint
from anabranch.testing.certificates import Certificates, make_certificates
from anabranch.testing.in_time import until
from anabranch.testing.kafka import start_kafka
from anabranch.testing.processes import give_away
from anabranch.testing.servers import Server, free_port

USER, PASSWORD = "anabranch", "cL8-known to few"
HOST = "localhost"  # which the certificate names
LIMITS = EndLimits(statement=60.0)
_MECHANISMS = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
_EVERY = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)
_SECURITY = "org.apache.kafka.common.security"
Rights = tuple[tuple[ResourceType, str, bool, tuple[str, ...]], ...]
# The same as docs/howto/kafka.md says: kind of resource, name, whether names begin with it, operations.
RIGHTS: Rights = (
    (ResourceType.TOPIC, "shop.", True, ("WRITE", "DESCRIBE", "DESCRIBE_CONFIGS", "CREATE")),
    (ResourceType.TOPIC, "anabranch.", True, ("ALL",)),
    (ResourceType.TRANSACTIONAL_ID, "anabranch.", True, ("WRITE", "DESCRIBE")),
    (ResourceType.GROUP, "anabranch", False, ("READ",)),
)


@dataclass(frozen=True)
class SecuredKafka:
    """The cluster, and how to reach it: `password` is a port with SASL over TLS, `certificate` one with TLS of both sides."""

    server: Server
    certificates: Certificates
    password: int
    certificate: int
    administrator: AdminClient  # who may do everything

    def endpoint(self, user: str = USER, password: str = PASSWORD, **options: str) -> Endpoint:
        """The endpoint of the port with passwords; without a user that of the one with certificates."""
        port = self.password if user else self.certificate
        told = {"ssl_ca": str(self.certificates.authority), **options}
        return Endpoint("kafka", HOST, port, user, password if user else "", "", tuple(told.items()), LIMITS)

    def target(self, endpoint: Endpoint) -> KafkaTarget:
        return KafkaTarget(endpoint, KafkaTargetOptions(topic="shop.{table}"))

    @contextmanager
    def allowed(
        self, principal: str, *, but: ResourceType | None = None, rights: Rights | None = None
    ) -> Iterator[None]:
        """Let `principal` do what the docs say, but for one kind of resource, inside the block. `rights`: others."""
        self._create([one for one in _bindings(f"User:{principal}", rights or RIGHTS) if one.restype != but])
        try:
            yield
        finally:
            for one in self.administrator.delete_acls([_EVERY]).values():
                one.result()
            until(lambda: not self._known(), "the broker knows no rights any more")

    def deny(self, principal: str, topic: str, operation: str) -> None:
        """Take one right at one topic away, until what `allowed` has given goes."""
        place = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{principal}", "*")
        self._create([AclBinding(*place, AclOperation[operation], AclPermissionType.DENY)])

    def _create(self, bindings: list[AclBinding]) -> None:
        """Create rights, and wait until the broker goes by them: it learns of them behind the controller's answer."""
        for one in self.administrator.create_acls(bindings).values():
            one.result()
        until(lambda: set(bindings) <= self._known(), "the broker knows the rights")

    def _known(self) -> set[AclBinding]:
        return set(self.administrator.describe_acls(_EVERY).result())


def _bindings(principal: str, rights: Rights) -> list[AclBinding]:
    return [
        AclBinding(
            kind,
            name,
            ResourcePatternType.PREFIXED if begins else ResourcePatternType.LITERAL,
            principal,
            "*",
            AclOperation[operation],
            AclPermissionType.ALLOW,
        )
        for kind, name, begins, operations in rights
        for operation in operations
    ]


@contextmanager
def secured_kafka(directory: Path) -> Iterator[SecuredKafka]:
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    made, password, certificate = make_certificates(directory, HOST), free_port(), free_port()
    listeners = {"PASSWORD": password, "CERTIFICATE": certificate}
    server = start_kafka(directory / "kafka", settings=_settings(directory, made), listeners=listeners)
    try:
        administrator = AdminClient({"bootstrap.servers": f"{server.host}:{server.port}"})
        cluster = SecuredKafka(server, made, password, certificate, administrator)
        _let_in(cluster)
        yield cluster
    finally:
        server.stop(immediate=True)


def _settings(directory: Path, made: Certificates) -> dict[str, str]:
    """https://kafka.apache.org/43/documentation.html#security"""
    known = f'user_{USER}="{PASSWORD}"'
    here = "listener.name.password"
    return {
        "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT,PASSWORD:SASL_SSL,CERTIFICATE:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(_key_store(directory, made)),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(made.authority),
        "listener.name.certificate.ssl.client.auth": "required",
        f"{here}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        f"{here}.plain.sasl.jaas.config": f"{_SECURITY}.plain.PlainLoginModule required {known};",
        f"{here}.scram-sha-256.sasl.jaas.config": f"{_SECURITY}.scram.ScramLoginModule required;",
        f"{here}.scram-sha-512.sasl.jaas.config": f"{_SECURITY}.scram.ScramLoginModule required;",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",  # who comes by the broker's own port
    }


def _key_store(directory: Path, made: Certificates) -> Path:
    """Key and certificate in one file: Kafka reads keys in PKCS 8 alone."""
    key = serialization.load_pem_private_key(made.key.read_bytes(), None)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file = directory / "key-store.pem"
    file.touch(mode=0o600)
    file.write_bytes(key.private_bytes(*form) + made.certificate.read_bytes())
    give_away(file)
    return file


def _let_in(cluster: SecuredKafka) -> None:
    """Make the user, and wait until the broker lets it in: it learns of a password behind the controller's answer."""
    for mechanism in _MECHANISMS:  # one request takes one of them for a user
        told = UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
        for done in cluster.administrator.alter_user_scram_credentials([told]).values():
            done.result()
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        until(partial(_enters, cluster, mechanism), f"the broker knows the user by {mechanism}")


def _enters(cluster: SecuredKafka, mechanism: str) -> bool:
    told = settings(cluster.endpoint(sasl_mechanism=mechanism))
    try:
        return bool(AdminClient(told).list_topics(timeout=5.0).brokers)
    except KafkaException:
        return False

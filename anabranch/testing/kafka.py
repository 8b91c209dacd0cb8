"""A private Kafka for tests: one broker that is its own controller (KRaft), on free loopback ports.

Its own port asks for no password; others may, as the settings say. Its programs come from Maven Central. A server keeps
everything in one directory and can be started again there.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from anabranch import log
from anabranch.testing import maven, packages
from anabranch.testing.cache import ServerUnavailable, cache_directory, fetched
from anabranch.testing.kafka_prepared import format_storage, java_options, prepared
from anabranch.testing.packages import Software
from anabranch.testing.processes import Daemon, Surroundings, give_away
from anabranch.testing.recipes import HOST
from anabranch.testing.servers import Server, free_port

VERSION, DATA = "4.3.0", "data"
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>anabranch</groupId><artifactId>kafka</artifactId><version>1</version><packaging>pom</packaging><dependencies><dependency>
<groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{version}</version></dependency></dependencies>
</project>"""
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
_HINT = "install maven to fetch it with"
# What one broker can have: https://kafka.apache.org/43/documentation.html#brokerconfigs. Topics are made by those alone who
# mean to; a timer looks often for transactions that took too long; nothing waits for members of a group. One that was killed
# and starts again waits until its own controller has given up the session of before: three seconds in place of nine.
_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "inter.broker.listener.name": "BROKER",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "log.retention.ms": "-1",
    "num.network.threads": "2",
    "num.io.threads": "2",
}
_MEMORY = ("-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


def find_kafka(*, fetch: bool = True) -> Software:
    """The classes of a broker: in the cache, else from Maven Central."""
    name = f"kafka-{VERSION}"
    home = cache_directory() / name
    if not home.is_dir() and not fetch:
        raise ServerUnavailable("no Kafka yet", hint=f"Kafka {VERSION} is fetched when first needed")
    home = fetched(home.name, _fill)
    java = packages.find_java(fetch=fetch)
    return Software("kafka", VERSION, home, (java.parent,), (java.parent.parent,))


def prepare_kafka() -> None:
    """Have ready what makes starts quick, where it can be had."""
    prepared(find_kafka(), _started)


def start_kafka(
    directory: Path,
    *,
    settings: Mapping[str, str] | None = None,
    listeners: Mapping[str, int] | None = None,
    joins: Path | None = None,
) -> Server:
    """Start a private Kafka. `settings` (`message.max.bytes`) come after, and override, the defaults. `listeners`: ports beside
    its own by name; `listener.security.protocol.map` of the settings says how each is protected. `joins`: the directory of the
    first broker of a cluster, which stays its controller."""
    software = find_kafka()
    return _start(software, directory.resolve(), settings or {}, listeners or {}, joins, prepared(software, _started))


def _start(
    software: Software,
    directory: Path,
    settings: Mapping[str, str],
    listeners: Mapping[str, int],
    joins: Path | None,
    made: Path | None,
    options: Sequence[str] = (),
) -> Server:
    """Start a Kafka. `made`: what there is prepared for it. `options`: of Java."""
    reads = (software.home, *([made] if made else []))
    surroundings = Surroundings(
        directory=directory, log=directory / "server.log", environment={"LC_ALL": "C"}, reads=reads
    )
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    port, file = free_port(), directory / "server.properties"
    written = _write(file, directory, {"BROKER": port, **listeners}, settings, joins)
    give_away(directory)
    java: list[str | Path] = [software.program("java"), *_MEMORY]
    classes = ["-cp", f"{software.home}/*"]
    cluster = uuid.uuid5(uuid.NAMESPACE_URL, str((joins or directory).resolve())).hex[:22]
    if made is None:
        surroundings.run([*java, *classes, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", file])
    else:
        format_storage(made, directory / DATA, cluster, written["node.id"])
        java += java_options(made)
    daemon = Daemon(surroundings, [*java, *options, *classes, "kafka.Kafka", file], lambda pid: _answers(port))
    daemon.start()
    return Server("kafka", VERSION, HOST, port, "", "", datadir=directory / DATA, _daemon=daemon)


def _started(directory: Path, options: Sequence[str]) -> Path:
    """Start a Kafka with these options of Java, and end it. Return the directory of its data."""
    with _start(find_kafka(), directory.resolve(), {}, {}, None, None, options):
        pass
    return directory / DATA


def _write(
    file: Path, directory: Path, ports: Mapping[str, int], settings: Mapping[str, str], joins: Path | None
) -> dict[str, str]:
    """Write the settings of a broker, and return them."""
    listeners = ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items())
    # Whoever asks at a listener of a test is told the name that its certificate has.
    told = ",".join(f"{name}://{HOST if name == 'BROKER' else 'localhost'}:{port}" for name, port in ports.items())
    if joins is None:
        voters = f"1@{HOST}:{free_port()}"
        own = {"controller.quorum.voters": voters, "listeners": f"{listeners},CONTROLLER://{voters.partition('@')[2]}"}
    else:
        of = dict(line.split("=", 1) for line in (joins / file.name).read_text().splitlines())
        own = {name: of[name] for name in ("controller.quorum.voters", "listener.security.protocol.map")}
        own |= {"process.roles": "broker", "node.id": "2", "listeners": listeners}
    own |= {
        "advertised.listeners": told,
        "log.dirs": str(directory / DATA),
    }
    lines = {**_SETTINGS, **own, **settings}
    file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    return lines


def _answers(port: int) -> bool:
    """Whether the broker listens, which it does once it may serve."""
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def _fill(scratch: Path) -> None:
    mvn = maven.find_mvn("no Kafka", _HINT)
    pom, repository, into = scratch / "pom.xml", scratch / "repository", scratch / "libs"
    pom.write_text(_POM.format(version=VERSION))
    log.get().info("fetching_kafka", version=VERSION, megabytes=44)
    command = [mvn, "-q", "-B", "-Dstyle.color=never", "-f", str(pom), f"-Dmaven.repo.local={repository}", _COPY]
    asked = ["-DincludeScope=runtime", f"-DoutputDirectory={into}"]
    done = subprocess.run([*command, *asked], capture_output=True, text=True)
    if done.returncode or not any(into.glob("kafka_2.13-*.jar")):
        reason = " / ".join((done.stdout + done.stderr).strip().splitlines()[:2])
        raise ServerUnavailable(
            f"mvn cannot fetch Kafka {VERSION}: {reason}", hint="check the network and mvn's settings"
        )
    for jar in into.glob("*.jar"):
        jar.rename(scratch / jar.name)
    for place in (repository, into):
        shutil.rmtree(place)
    pom.unlink()

"""A private HDFS for tests: a name node and a data node, on free loopback ports. Their classes come from Maven Central."""

from __future__ import annotations

import os
import shutil
import subprocess
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from anabranch import log
from anabranch.testing import maven, packages
from anabranch.testing.cache import ServerUnavailable, fetched
from anabranch.testing.processes import Daemon, Surroundings, give_away
from anabranch.testing.servers import free_port

VERSION = "3.4.2"
USER = "carrier"
_NONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
_ARTIFACTS = (  # group, artifact, version, what it brings along
    ("org.apache.hadoop", "hadoop-client-minicluster", VERSION, _NONE),
    ("org.apache.hadoop", "hadoop-client-api", VERSION, _NONE),
    ("org.apache.hadoop", "hadoop-client-runtime", VERSION, ""),
    ("org.slf4j", "slf4j-simple", "1.7.36", ""),
    ("javax.xml.bind", "jaxb-api", "2.3.1", ""),
)
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
_HINT = "install maven to fetch it with"


@dataclass
class HdfsServer:
    """A running cluster of one data node. `url(directory)`: of a trail below a directory, which is made."""

    port: int
    name_node: Daemon
    data_node: Daemon

    def url(self, directory: str, port: int = 0, user: str = USER) -> str:
        return f"trail+hdfs://{user}@127.0.0.1:{port or self.port}{directory}"

    def make(self, directory: str) -> str:
        """Make a directory, and return it."""
        self.ask("PUT", f"{directory}?op=MKDIRS")
        return directory

    def ask(self, method: str, rest: str, content: bytes | None = None) -> bytes:
        """Return the answer to a request, wherever the name node points to."""
        place = f"http://127.0.0.1:{self.port}/webhdfs/v1{rest}&user.name={USER}"
        with urllib.request.urlopen(urllib.request.Request(place, content, method=method)) as answer:
            return bytes(answer.read())

    def stop(self) -> None:
        for daemon in (self.data_node, self.name_node):
            daemon.stop(immediate=True)


def find_hdfs() -> Path:
    """Find the classes of a cluster: in the cache, else from Maven Central (90 MB)."""
    return fetched(f"hdfs-{VERSION}", _fill)


def start_hdfs(directory: Path) -> HdfsServer:
    """Start a cluster, with an empty file system unless the directory has one."""
    directory = directory.resolve()
    home, java = find_hdfs(), packages.find_java()
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    port = free_port()
    _configure(directory, port)
    give_away(directory)
    surroundings = Surroundings(
        directory=directory,
        log=directory / "server.log",
        environment={"LC_ALL": "C.UTF-8", "HADOOP_USER_NAME": USER, "HOME": str(directory)},
        reads=(home, java.parent.parent),
    )
    command: list[str | Path] = [java, "-Xms32m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command += ["-cp", f"{directory}:{home}/*"]
    servers = "org.apache.hadoop.hdfs.server"
    surroundings.run([*command, f"{servers}.namenode.NameNode", "-format", "-nonInteractive"])
    name_node = Daemon(surroundings, [*command, f"{servers}.namenode.NameNode"], lambda pid: _has(port, 0))
    name_node.start()
    data_node = Daemon(surroundings, [*command, f"{servers}.datanode.DataNode"], lambda pid: _has(port, 1))
    data_node.start()
    return HdfsServer(port, name_node, data_node)


def _configure(directory: Path, port: int) -> None:
    settings = {
        "fs.defaultFS": f"hdfs://127.0.0.1:{free_port()}",
        "hadoop.tmp.dir": str(directory / "tmp"),
        "dfs.namenode.name.dir": str(directory / "name"),
        "dfs.datanode.data.dir": str(directory / "data"),
        "dfs.namenode.http-address": f"127.0.0.1:{port}",
        "dfs.datanode.http.address": f"127.0.0.1:{free_port()}",
        "dfs.datanode.address": f"127.0.0.1:{free_port()}",
        "dfs.datanode.ipc.address": f"127.0.0.1:{free_port()}",
        "dfs.datanode.hostname": "127.0.0.1",
        "dfs.namenode.datanode.registration.ip-hostname-check": "false",
        "dfs.replication": "1",
        "dfs.datanode.du.reserved": "0",
        "dfs.ls.limit": "1000",
    }
    lines = "".join(
        f"<property><name>{key}</name><value>{value}</value></property>\n" for key, value in settings.items()
    )
    for name in ("core-site.xml", "hdfs-site.xml"):
        (directory / name).write_text(f"<configuration>\n{lines}</configuration>\n")


def _has(port: int, data_nodes: int) -> bool:
    """Return whether the name node answers, and knows so many data nodes."""
    bean = "Hadoop:service=NameNode,name=FSNamesystemState"
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/jmx?get={bean}::NumLiveDataNodes", timeout=10) as answer:
            text = answer.read().decode()
    except OSError:
        return False
    return f'"NumLiveDataNodes" : {data_nodes}' in text or data_nodes == 0


def _fill(scratch: Path) -> None:
    mvn = maven.find_mvn("no HDFS", _HINT)
    pom, repository, into = scratch / "pom.xml", scratch / "repository", scratch / "libs"
    wanted = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>{without}</dependency>"
        for group, name, version, without in _ARTIFACTS
    )
    pom.write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>anabranch</groupId>'
        f"<artifactId>hdfs</artifactId><version>1</version><packaging>pom</packaging><dependencies>{wanted}</dependencies></project>"
    )
    log.get().info("fetching_hdfs", version=VERSION, megabytes=90)
    command = [mvn, "-q", "-B", "-Dstyle.color=never", "-f", str(pom), f"-Dmaven.repo.local={repository}", _COPY]
    asked = ["-DincludeScope=runtime", f"-DoutputDirectory={into}"]
    done = subprocess.run([*command, *asked], capture_output=True, text=True)
    if done.returncode or not any(into.glob("hadoop-client-*.jar")):
        reason = " / ".join((done.stdout + done.stderr).strip().splitlines()[:2])
        raise ServerUnavailable(
            f"mvn cannot fetch HDFS {VERSION}: {reason}", hint="check the network and mvn's settings"
        )
    for jar in into.glob("*.jar"):
        os.rename(jar, scratch / jar.name)
    for place in (repository, into):
        shutil.rmtree(place)
    pom.unlink()

"""deploy/kubernetes and deploy/yarn against what they are for, as far as that can be told without such a cluster: the client
of Kubernetes that Spark itself has reads the manifests, Spark's code names the settings, job files are accepted."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from anabranch.config import JobConfig, parse_job
from anabranch.spark.session import settings

DEPLOY = Path(__file__).parents[2] / "deploy"
PAGE = (DEPLOY.parent / "docs/howto/on-a-spark-cluster.md").read_text()
SECRETS = {"SHOP_SOURCE_PASSWORD": "s", "SHOP_TARGET_PASSWORD": "t"}
MODULES = re.compile(r"spark-(core|kubernetes|yarn|catalyst|sql)_")
CONFIGURING = re.compile(r"(config/package\$?|k8s/Config\$?|yarn/config/package\$?|internal/config/\w+\$?)\.class$")
KINDS = {
    "ServiceAccount", "Role", "RoleBinding", "PersistentVolumeClaim", "ConfigMap", "Service", "StatefulSet",
}  # fmt: skip


@pytest.fixture(scope="module")
def manifests(spark: Any) -> dict[str, Any]:
    """By kind, as the types of Kubernetes' API."""
    read = spark._jvm.io.fabric8.kubernetes.client.utils.KubernetesSerialization().unmarshal
    documents = (DEPLOY / "kubernetes" / "anabranch.yaml").read_text().split("\n---\n")
    found = [read(text) for text in documents]
    assert all(one.getAdditionalProperties().isEmpty() for one in found), "a key that the API does not have"
    return {str(one.getKind()): one for one in found}


@pytest.fixture(scope="module")
def known() -> set[str]:
    """Names of settings in Spark's code."""
    names: set[str] = set()
    for jar in filter(lambda path: MODULES.match(path.name), (Path(pyspark.__file__).parent / "jars").iterdir()):
        with zipfile.ZipFile(jar) as archive:
            for name in filter(CONFIGURING.search, archive.namelist()):
                names |= {one.decode() for one in re.findall(rb"spark\.[A-Za-z0-9_.]+", archive.read(name))}
    assert len(names) > 500
    return names


def test_contract_the_manifests_are_what_kubernetes_reads(manifests: dict[str, Any]) -> None:
    assert set(manifests) == KINDS
    pod = manifests["StatefulSet"].getSpec().getTemplate().getSpec()
    (container,) = pod.getContainers()
    claim = manifests["PersistentVolumeClaim"].getMetadata().getName()
    assert list(manifests["PersistentVolumeClaim"].getSpec().getAccessModes()) == ["ReadWriteMany"]
    assert all(one.getAdditionalProperties().isEmpty() for one in (pod, container))
    assert pod.getServiceAccountName() == manifests["ServiceAccount"].getMetadata().getName()
    assert claim in [
        v.getPersistentVolumeClaim().getClaimName() for v in pod.getVolumes() if v.getPersistentVolumeClaim()
    ]
    assert {one.getName() for one in pod.getVolumes()} == {one.getName() for one in container.getVolumeMounts()}
    assert manifests["StatefulSet"].getSpec().getServiceName() == manifests["Service"].getMetadata().getName()


def test_contract_driver_and_executors_of_kubernetes_share_image_home_and_name(manifests: dict[str, Any]) -> None:
    job = kubernetes_job(manifests)
    pod = manifests["StatefulSet"].getSpec().getTemplate().getSpec()
    container = pod.getContainers().get(0)
    conf, volume = job.spark.conf, "spark.kubernetes.executor.volumes.persistentVolumeClaim.home."
    assert conf["spark.kubernetes.container.image"] == container.getImage()
    homes = [one.getMountPath() for one in container.getVolumeMounts() if one.getName() == "home"]
    assert homes == [conf[f"{volume}mount.path"]]
    assert f"ANABRANCH_HOME={homes[0]}" in (DEPLOY / "kubernetes" / "Dockerfile").read_text()
    assert conf[f"{volume}options.claimName"] == manifests["PersistentVolumeClaim"].getMetadata().getName()
    name, namespace = manifests["StatefulSet"].getMetadata().getName(), conf["spark.kubernetes.namespace"]
    assert conf["spark.kubernetes.driver.pod.name"] == f"{name}-0"
    assert conf["spark.driver.host"] == f"{name}-0.{manifests['Service'].getMetadata().getName()}.{namespace}.svc"
    assert list(container.getCommand()) == ["anabranch", "run", "/etc/anabranch/shop.toml"]


def test_contract_settings_of_clusters_are_spark_s(manifests: dict[str, Any], known: set[str]) -> None:
    jobs = [kubernetes_job(manifests), yarn_job()]
    for job in jobs:
        told = settings("x", job.spark.master, job.spark.conf, job.load.parallel, job.spark.archive)
        assert [name for name in told if name not in known and not is_of_a_family(name, known)] == []
    assert jobs[1].spark.master == "yarn" and jobs[1].spark.archive


def test_contract_names_on_the_page_are_spark_s(known: set[str]) -> None:
    names = set(re.findall(r'"(spark\.[A-Za-z0-9_.]+)"', PAGE))
    assert names and [name for name in names if name not in known and not is_of_a_family(name, known)] == []


def is_of_a_family(name: str, known: set[str]) -> bool:
    """Return settings whose last parts somebody chooses: `spark.executorEnv.NAME`."""
    return any(name.startswith(one) for one in families(known))


def families(known: set[str]) -> Iterator[str]:
    yield from (one for one in known if one.endswith("."))
    yield from ("spark.hadoop.", "spark.app.", "spark.executorEnv.", "spark.sql.", "spark.python.", "spark.ui.")


def kubernetes_job(manifests: dict[str, Any]) -> JobConfig:
    text = manifests["ConfigMap"].getData().get("shop.toml")
    return parse_job(text, Path("/etc/anabranch/shop.toml"), SECRETS)


def yarn_job() -> JobConfig:
    file = DEPLOY / "yarn" / "shop.toml"
    return parse_job(file.read_text(), file, SECRETS)

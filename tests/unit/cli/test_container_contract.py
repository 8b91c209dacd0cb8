"""deploy/container against what it is for, as far as that can be told without building an image: no image is built here."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from anabranch.cli.serve import serve
from anabranch.testing.certificates import make_certificates
from anabranch.testing.in_time import until
from tests.unit.cli.test_serve import health, serving

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy" / "container"
KNOWN = {
    "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "RUN", "STOPSIGNAL", "USER", "VOLUME",
    "WORKDIR",
}  # fmt: skip


def instructions() -> list[tuple[str, str]]:
    """Return each instruction of the file with its words; lines that go on are one."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Containerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in text.splitlines() if line.strip()]


def said(name: str) -> list[str]:
    return [words for found, words in instructions() if found == name]


def test_each_instruction_is_one_and_the_last_stage_is_no_root() -> None:
    found = instructions()
    assert {name for name, _ in found} <= KNOWN and found[0] == ("ARG", "BASE")
    last = max(number for number, (name, _) in enumerate(found) if name == "FROM")
    users = [(number, words) for number, (name, words) in enumerate(found) if name == "USER"]
    assert [words for _, words in users] == ["10001:10001"] and users[0][0] > last
    assert not any(name in ("RUN", "COPY", "ADD") for name, _ in found[users[0][0] :]), "nothing is made behind it"


def test_no_image_host_secret_or_version_of_its_own_stands_in_it() -> None:
    text = (DEPLOY / "Containerfile").read_text()
    assert said("FROM") == ["${BASE} AS build", "${BASE}"], "whoever builds it says from what"
    assert not re.search(r"PASSWORD|TOKEN|SECRET|https?://(?!127)", text)


def test_what_it_copies_is_there_and_enough_for_the_package() -> None:
    copied = [word for words in said("COPY") if not words.startswith("--from") for word in words.split()[:-1]]
    assert [path for path in copied if not (ROOT / path).exists()] == []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert {"pyproject.toml", "LICENSE", "anabranch"} <= {*copied}
    assert {str(project["project"].get("readme", "README.md"))} <= {*copied}


def test_it_installs_all_that_jobs_need_but_the_demo() -> None:
    (extras,) = re.findall(r"pip install --no-cache-dir '\.\[(.*?)\]'", " ".join(said("RUN")))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (every,) = re.findall(r"\[(.*)\]", project["all"][0])
    assert {*extras.split(",")} == {*every.split(",")} - {"demo"}


def test_its_command_is_one_of_serve_and_ends_in_order() -> None:
    (entry,), (words,) = map(json.loads, said("ENTRYPOINT")), map(json.loads, said("CMD"))
    assert entry[-1] == "anabranch" and words[0] == "serve" and "--stop-jobs" in words
    options = {name for one in serve.params for name in one.opts}
    assert {word for word in words if word.startswith("--")} <= options
    assert words[words.index("--listen") + 1].endswith(f":{said('EXPOSE')[0]}") and said("STOPSIGNAL") == ["SIGTERM"]
    (home,) = json.loads(said("VOLUME")[0])
    assert f"ANABRANCH_HOME={home} " in said("ENV")[0] and said("WORKDIR")[-1] == home


def test_its_health_is_that_of_a_manager_that_leads_or_stands_by(tmp_path: Path) -> None:
    (check,) = said("HEALTHCHECK")
    assert json.loads(check[check.index("[") :]) == ["python3", "/opt/anabranch/healthy.py"]
    with serving(tmp_path, "anabranch serves") as (first, address):
        assert healthy(f"http://{address}/healthz") == 0
        with serving(tmp_path, "anabranch stands by") as (_, elsewhere):
            until(lambda: health(elsewhere) == (503, b"standby\n"), "it stands by")
            assert healthy(f"http://{elsewhere}/healthz") == 0
        first.kill()
        first.wait()
        assert healthy(f"http://{address}/healthz") == 1


def test_its_health_is_asked_over_tls_of_any_certificate(tmp_path: Path) -> None:
    made = make_certificates(tmp_path, "server")
    tls = ("--tls-cert", str(made.certificate), "--tls-key", str(made.key))
    with serving(tmp_path / "home", "anabranch serves", *tls) as (_, address):
        assert healthy(f"https://{address}/healthz") == 0


def healthy(url: str) -> int:
    environment = {**os.environ, "ANABRANCH_HEALTH_URL": url}
    return subprocess.run([sys.executable, str(DEPLOY / "healthy.py")], env=environment, check=False).returncode

"""What a release consists of agrees with itself: versions, and the workflow with what can be run at home."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOW = (ROOT / ".github" / "workflows" / "release.yml").read_text()
SCRIPT = ROOT / "native" / "wheels.sh"


def test_the_extra_asks_for_the_compiled_code_that_is_here() -> None:
    version = tomllib.loads((ROOT / "native" / "Cargo.toml").read_text())["package"]["version"]
    assert PROJECT["optional-dependencies"]["fast"] == [f"anabranch-native=={version}"]


def test_the_workflow_builds_linux_as_make_does() -> None:
    assert "- run: make wheels\n" in WORKFLOW
    assert f"sh {SCRIPT.relative_to(ROOT)} $(BIN) dist" in (ROOT / "Makefile").read_text()


def test_the_workflow_publishes_only_a_tag_that_was_tried_everywhere() -> None:
    jobs = re.split(r"^  (?=\w+:$)", WORKFLOW.partition("jobs:\n")[2], flags=re.M)
    names = {job.partition(":")[0] for job in jobs if job.strip()}
    [publish] = [job for job in jobs if job.startswith("publish:")]
    assert "needs: [linux, alpine, macos]" in publish
    assert names == {"linux", "alpine", "macos", "publish"} and "github.ref_type == 'tag'" in publish


def test_tools_of_a_release_are_pinned_and_used() -> None:
    tools = dict(tool.split("==") for tool in PROJECT["optional-dependencies"]["release"])
    script = SCRIPT.read_text()
    assert set(tools) == {"abi3audit", "build", "maturin", "ziglang"} and all(tools.values())
    assert "abi3audit --strict" in script and "python -m build" in script and "--zig" in script


def test_a_machine_without_the_standard_library_for_musl_says_what_to_do(tmp_path: Path) -> None:
    """The function of the script, with a rustc and a rustup that have nothing."""
    for name in ("rustc", "rustup"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    functions = SCRIPT.read_text().partition("build() {")[2].partition("\nrm -rf")[0]
    script = f"musl=x86_64-unknown-linux-musl; out=.\nbuild() {{{functions}\nbuild_musl"
    found = subprocess.run(
        ["sh", "-c", script], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, timeout=300
    )
    assert found.returncode == 1
    assert "rustup target add x86_64-unknown-linux-musl, or give RUST_SRC" in found.stderr

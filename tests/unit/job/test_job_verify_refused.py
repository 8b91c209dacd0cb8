"""Comparisons that the job file alone refuses: at once, whatever of the ends is away."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch import Job
from anabranch.errors import ConfigError

AWAY = """\
name = "copy"
[source]
url = "mysql://a@127.0.0.1:1"
[target]
url = "kafka://127.0.0.1:1"
[target.options]
{options}
[[rules]]
include = ["shop.*"]
"""
AVRO = 'format = "avro"\nregistry = "http://127.0.0.1:1"'


@pytest.mark.parametrize(
    ("options", "sample", "words"),
    [
        (AVRO, None, 'messages of format = "avro" are not read back'),
        (AVRO, 0.5, 'messages of format = "avro" are not read back'),
        ('format = "plain"', 0.5, "a target that keeps changes has none"),
    ],
)
def test_a_comparison_that_cannot_be_waits_for_no_end(
    tmp_path: Path, options: str, sample: float | None, words: str
) -> None:
    (tmp_path / "job.toml").write_text(AWAY.format(options=options))
    with pytest.raises(ConfigError, match=words) as refused:
        Job.from_file(tmp_path / "job.toml").verify(sample=sample)
    assert refused.value.hint

"""Metrics in Prometheus' text form, read back by its rules."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from anabranch.model.metrics import METRICS, Kind, Sample, text_of

LINE = re.compile(r'([a-z_]+)\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*)\} (\S+)')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\["\\n])*)"')
PLAIN = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


def read(text: str) -> list[tuple[str, dict[str, str], float]]:
    found = []
    for line in text.split("\n")[:-1]:
        if not line.startswith("# "):
            whole = LINE.fullmatch(line)
            assert whole is not None, line
            labels = {name: re.sub(r"\\.", lambda m: PLAIN[m[0]], value) for name, value in LABEL.findall(whole[2])}
            found.append((whole[1], labels, float(whole[3])))
    return found


@given(st.text(), st.text(), st.floats(allow_nan=False, allow_infinity=False))
def test_labels_and_values_come_back_as_they_were(job: str, table: str, value: float) -> None:
    sample = Sample("table_parked", value, {"target": "north", "table": table})
    labels = {"job": job, "target": "north", "table": table}
    assert read(text_of(job, [sample])) == [("anabranch_table_parked", labels, value)]


def test_samples_of_a_metric_stand_together_below_its_meaning() -> None:
    text = text_of("shop", [Sample("waits", 0), Sample("lag_seconds", 0.5, {"target": "b"}), Sample("waits", 1)])
    assert text == (
        "# HELP anabranch_waits parts that wait for somebody's lock or transaction\n"
        "# TYPE anabranch_waits gauge\n"
        'anabranch_waits{job="shop"} 0\nanabranch_waits{job="shop"} 1\n'
        "# HELP anabranch_lag_seconds age of the oldest transaction that is not applied; 0 where there is none\n"
        "# TYPE anabranch_lag_seconds gauge\n"
        'anabranch_lag_seconds{job="shop",target="b"} 0.5\n'
    )


def test_names_follow_the_rules() -> None:
    """Counters, and nothing else, end in `_total`; a meaning is one line."""
    for metric in METRICS.values():
        assert re.fullmatch(r"[a-z][a-z_]*[a-z]", metric.name) and "\n" not in metric.meaning
        assert metric.name.endswith("_total") is (metric.kind is Kind.COUNTER), metric
        assert "\\" not in metric.meaning and "job" not in metric.labels

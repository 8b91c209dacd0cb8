"""Send spans to a collector in this process, and to none. No server of a database."""

from __future__ import annotations

import subprocess
import sys

import pytest
from structlog.testing import capture_logs

from anabranch import spans
from anabranch.config.sections.observe import Observe
from anabranch.errors import ConfigError, RowRefused
from anabranch.job import otlp
from rigs.otlp_collector import collector


def test_spans_come_nested_with_facts_and_errors_without_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "END_S", 300.0)  # a busy machine takes its time
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20s3cret")
    with collector() as there:
        with otlp.sending(Observe(traces=there.url), "shop", "apply", "south"), pytest.raises(RowRefused):
            with spans.span("epoch", epoch=7, after=1) as told:
                with spans.span("plan"):
                    pass
                told.note(rows=3)
            spans.past("chunk", 1_000, 3_000, table="shop.item", rows=2)
            spans.past("chunk", 0, 0, table="shop.item", rows=2)
            with spans.span("epoch", epoch=8):
                raise RowRefused("a row with the key id = somebody is refused", table="shop.item")
        good, bad = there.named("epoch")
        assert good.facts == {"epoch": 7, "after": 1, "rows": 3} and there.below(good) == ["plan"]
        assert (good.error, bad.error) == ("", "row_refused") and b"somebody" not in there.raw
        (chunk,) = there.named("chunk")
        assert (chunk.began, chunk.ended, chunk.parent) == (1_000, 3_000, b"")
        assert good.resource["service.name"] == "anabranch"
        assert [good.resource[name] for name in ("job", "part", "target")] == ["shop", "apply", "south"]
        assert there.headers["authorization"] == "Bearer s3cret"
    with spans.span("epoch") as nobody:
        nobody.note(rows=1)  # nobody records any more
    assert len(there.spans) == 4


@pytest.mark.parametrize("code", [0, 503, 400])
def test_a_collector_that_is_away_or_refuses_costs_spans_and_one_warning(code: int) -> None:
    with collector() as there:
        url, there.code = there.url, code
        if code == 0:
            url = "http://127.0.0.1:1/v1/traces"
        with capture_logs() as lines, otlp.sending(Observe(traces=url), "shop", "apply"):
            for _ in range(3_000):  # more than the SDK keeps
                with spans.span("epoch"):
                    pass
    told = [line for line in lines if line["event"] == "spans_not_sent"]
    assert len(told) == 1 and told[0]["url"] == url and there.spans == []


def test_nothing_is_imported_or_measured_where_nobody_asks_for_it() -> None:
    program = (
        "import sys\nfrom anabranch import spans\nfrom anabranch.config.sections.observe import Observe\n"
        "from anabranch.job import Job, otlp, watching\n"
        "with otlp.sending(Observe.model_construct(traces=None), 'shop', 'apply'):\n"
        "    first, second = spans.span('epoch'), spans.span('plan', rows=1)\n"
        "    assert first is second\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_what_is_not_installed_is_told_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    observe = Observe(traces="http://127.0.0.1:1/")
    with pytest.raises(ConfigError, match="not installed") as raised, otlp.sending(observe, "shop", "apply"):
        raise AssertionError("it began")
    assert "otel" in raised.value.hint


def test_a_part_of_all_epochs_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "END_S", 300.0)
    with collector() as there, otlp.sending(Observe(traces=there.url, sample=0.1), "shop", "apply"):
        for _ in range(1_000):
            with spans.span("epoch"), spans.span("plan"):
                pass
    assert 20 < len(there.named("epoch")) < 300 and len(there.named("plan")) == len(there.named("epoch"))

"""Sends spans to a collector of OpenTelemetry, by OTLP over HTTP, in a thread of the SDK's own.

Nothing here may stop or slow down a pipeline: while the collector is away spans are dropped, and a warning says so now and
then. What does not live here: where spans begin and end (`spans.span`).
https://opentelemetry.io/docs/specs/otlp/
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from anabranch import log, spans
from anabranch.errors import AnabranchError, ConfigError, install_hint
from anabranch.version import __version__

if TYPE_CHECKING:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

    from anabranch.config.sections.observe import Observe
    from anabranch.spans import Fact

SEND_S = 5.0  # for an answer of the collector
END_S = 2.0  # for what is left at the end of a part
QUIET_S = 60.0  # between two warnings
PREFIX = "anabranch."


@contextmanager
def sending(observe: Observe, job: str, part: str, target: str = "") -> Iterator[None]:
    """Send spans of this process where the job file asks for it. Raises ConfigError without the packages for it."""
    if observe.traces is None:
        yield
        return
    provider, exporter = _provider(observe, job, part, target, observe.traces)
    heard = _Heard(observe.traces)
    logger = logging.getLogger("opentelemetry")
    logger.addHandler(heard)
    logger.propagate = False
    try:
        with spans.recorded(_Recorder(provider)):
            yield
    finally:
        _end(provider, exporter)
        logger.removeHandler(heard)


def _end(provider: TracerProvider, exporter: OTLPSpanExporter) -> None:
    """Send what is left, for as long as that may take, and end: a collector that is away would be tried again and again."""
    flushing = threading.Thread(target=provider.force_flush, name="anabranch-spans", daemon=True)
    flushing.start()
    flushing.join(END_S)
    exporter.shutdown()  # type: ignore[no-untyped-call]  # without types in the SDK; it breaks off what is tried again
    provider.shutdown()


def _provider(observe: Observe, job: str, part: str, target: str, url: str) -> tuple[TracerProvider, OTLPSpanExporter]:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
    except ImportError:
        what = "[observe] traces needs packages that are not installed"
        raise ConfigError(what, job=job, hint=install_hint("otel")) from None
    facts = {
        "service.name": "anabranch",
        "service.version": __version__,
        "service.instance.id": f"{job}/{part}/{os.getpid()}",
    }
    facts |= {f"{PREFIX}job": job, f"{PREFIX}part": part} | ({f"{PREFIX}target": target} if target else {})
    provider = TracerProvider(
        sampler=ParentBased(TraceIdRatioBased(observe.sample)),
        resource=Resource.create(facts),
        shutdown_on_exit=False,  # the part ends it itself
    )
    exporter = OTLPSpanExporter(endpoint=url, timeout=SEND_S)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider, exporter


class _Noting:
    """A span of the SDK, as ours are noted."""

    def __init__(self, inner: Span) -> None:
        self._inner = inner

    def note(self, **facts: Fact) -> None:
        """Add facts to it."""
        self._inner.set_attributes(_named(facts))


class _Recorder:
    """Our spans as those of the SDK."""

    def __init__(self, provider: TracerProvider) -> None:
        self._tracer = provider.get_tracer("anabranch", __version__)

    @contextmanager
    def span(self, name: str, facts: Mapping[str, Fact]) -> Iterator[_Noting]:
        """Open a span inside the one that this thread has open."""
        from opentelemetry.trace import StatusCode

        with self._tracer.start_as_current_span(
            name, attributes=_named(facts), record_exception=False, set_status_on_exception=False
        ) as inner:
            try:
                yield _Noting(inner)
            except BaseException as error:  # whatever it was: noted by its class alone, and passed on
                code = error.code if isinstance(error, AnabranchError) else type(error).__name__
                inner.set_status(StatusCode.ERROR, code)
                raise

    def past(self, name: str, began: int, ended: int, facts: Mapping[str, Fact]) -> None:
        """Keep a span of another process."""
        self._tracer.start_span(name, attributes=_named(facts), start_time=began).end(max(began, ended))


class _Heard(logging.Handler):
    """Tells what the SDK complains of in our own log, and not each time."""

    def __init__(self, url: str) -> None:
        super().__init__(logging.WARNING)
        self._url, self._told = url, -QUIET_S

    def emit(self, record: logging.LogRecord) -> None:
        """Tell of it, where nothing was told for some time. Not its text: it may repeat headers."""
        if time.monotonic() - self._told >= QUIET_S:
            self._told = time.monotonic()
            log.get().warning("spans_not_sent", url=self._url, level=record.levelname.lower())


def _named(facts: Mapping[str, Fact]) -> dict[str, Fact]:
    return {f"{PREFIX}{name}": value for name, value in facts.items()}

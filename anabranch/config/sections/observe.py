"""`[observe]` of the job file."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from anabranch.config.section import Section, refuse
from anabranch.errors import Problem


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fits = False
    if not fits or "@" in parts.netloc or parts.fragment:
        expected = '"http://HOST:4318/v1/traces"; credentials are given as $OTEL_EXPORTER_OTLP_HEADERS'
        raise refuse(Problem(f"{text!r} is no URL of a collector", expected=expected))
    return text


class Observe(Section):
    """Tell a collector of OpenTelemetry how long epochs and chunks take ([how](../howto/monitor.md#traces-of-epochs))."""

    traces: Annotated[str, AfterValidator(_url)] | None = None
    """Send spans of epochs and of chunks of the load to this URL by OTLP over HTTP, `"http://127.0.0.1:4318/v1/traces"`. They
    have places of the trail, names of tables and numbers of rows, and no values. It needs the extra `otel`. A collector that
    is away costs spans, and nothing else. Without it nothing is measured."""
    sample: float = Field(default=1.0, gt=0, le=1)
    """The part of all epochs and chunks of which spans are sent."""

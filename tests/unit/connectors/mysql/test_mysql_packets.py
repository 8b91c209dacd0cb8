"""Raw rows from bytes that a server could send, in pieces of any size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.connectors.mysql import packets
from anabranch.connectors.mysql.packets import NO_LINE, single, values
from anabranch.connectors.mysql.source.load import _joined, _Part
from anabranch.errors import SourceError, SourceUnavailable
from rigs.mysql_packets import EOF, lenenc, packet, rows_of


@given(
    st.lists(st.lists(st.none() | st.binary(max_size=400), min_size=2, max_size=2), max_size=30),
    st.integers(1, 2000),
)
def test_any_rows_in_any_pieces(rows: list[list[bytes | None]], step: int) -> None:
    data = b"".join(packet(b"".join(map(lenenc, row))) for row in rows) + packet(EOF)
    raw, connection = rows_of(data, step, width=2)
    assert [values(payload, 2) for some in raw.payloads() for payload in some] == rows
    assert not connection.is_cut


@pytest.mark.parametrize("size", [0, 1, 30, 31, 61, 62, 63, 1000])
def test_payload_over_several_packets(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The protocol's limit is 16 MB; the rule is the same for a smaller one."""
    monkeypatch.setattr(packets, "CONTINUED", 31)
    payloads = [lenenc(b"x" * size), lenenc(b"next")]
    data = b"".join(packet(payload, 31) for payload in payloads) + packet(EOF)
    for step in (1, 7, 10_000):
        raw, _ = rows_of(data, step)
        assert [payload for some in raw.payloads() for payload in some] == payloads


def test_error_in_the_middle() -> None:
    error = b"\xff" + (1317).to_bytes(2, "little") + b"#70100Query execution was interrupted"
    raw, connection = rows_of(packet(lenenc(b"a")) + packet(error), 3)
    with pytest.raises(SourceUnavailable, match="1317: Query execution was interrupted"):
        list(raw.payloads())
    assert not connection.is_cut


def test_line_that_ends() -> None:
    raw, connection = rows_of(packet(lenenc(b"a")) + b"\x05", 100)
    with pytest.raises(SourceUnavailable, match="closed the connection"):
        list(raw.payloads())
    assert connection.is_cut


def test_reader_that_stops_early_cuts_the_line() -> None:
    raw, connection = rows_of(b"".join(packet(lenenc(b"a")) for _ in range(9)) + packet(EOF), 10)
    payloads = raw.payloads()
    next(payloads)
    payloads.close()
    assert connection.is_cut


@given(st.binary(max_size=70_000))
def test_single_value(value: bytes) -> None:
    assert single(lenenc(value)) == value


def test_a_line_that_the_server_could_not_build_is_refused() -> None:
    raw, _ = rows_of(packet(lenenc(b"a")) + packet(NO_LINE) + packet(EOF), 1000)
    with pytest.raises(SourceError, match="max_allowed_packet"):
        list(_joined(raw, [_Part("x")]))

"""Places of change tables between two transactions."""

from __future__ import annotations

from anabranch.connectors.sql.appended import last_before, place_between


def _place(sequence: int) -> bytes:
    return last_before(sequence + 1)


def test_places_rise_behind_a_transaction_and_stay_in_front_of_the_next() -> None:
    latest, met = _place(7), []
    for _ in range(300):
        found = place_between(7, latest)
        assert found is not None and latest < found < _place(8)
        met.append(found)
        latest = found
    assert len(set(met)) == 300 and met[0] == _place(7)[:-1] + b"\x02"


def test_a_transaction_without_a_place_has_its_own_first() -> None:
    assert place_between(7, b"") == place_between(7, _place(3)) == _place(7)
    assert place_between(7, _place(6)[:-3] + b"\xff\xff\xff") == _place(7)


def test_no_place_is_of_the_next_transaction() -> None:
    assert place_between(7, _place(7)[:-3] + b"\xff\xff\xfe") == _place(7)[:-3] + b"\xff\xff\xff"
    assert place_between(7, _place(7)[:-3] + b"\xff\xff\xff") is None
    assert place_between(7, _place(8)) is None

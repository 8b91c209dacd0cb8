"""Options of Attunity's configuration row: their grammar, their ranges, and the ones that nobody has here."""

from __future__ import annotations

import pytest

from anabranch.model.attunity_options import OPTIONS, Use, parse


def test_names_and_words_are_read_without_regard_to_case() -> None:
    found = parse(" TRACE = On ;;trace_data_errors=FALSE; sql_reconnect_limit=-1;CDC_STOP_on_breaking_schema_changes;")
    assert found.problems == []
    assert found.values == {
        "trace": True,
        "trace_data_errors": False,
        "sql_reconnect_limit": -1,
        "CDC_stop_on_breaking_schema_changes": True,
    }
    assert found.number("cdc_update_state_interval") == 10, "what is not said is Attunity's default"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("target_command_timeout=0", "expected 1 to 3600"),
        ("trace=aus", "expected True, False, on or off"),
        ("cdc_memory_report=many", "expected a whole number, 0 to 1000"),
        ("target_idle_lsn_update_interval", "expected a whole number"),
        ("Optionen=1", "'Optionen' is not known"),
        ("=1", "'' is not known"),
        ("cdc_restart_limit=\u0663", "expected -1 to 3600"),
    ],
)
def test_what_cannot_be_used_is_told_and_left_out(text: str, words: str) -> None:
    found = parse(f"{text}; trace=on")
    assert len(found.problems) == 1 and words in found.problems[0]
    assert found.values == {"trace": True}


def test_every_option_has_a_default_in_its_range_and_a_reason_where_it_has_no_counterpart() -> None:
    assert len(OPTIONS) == 22
    for name, option in OPTIONS.items():
        assert (option.use is Use.NONE) == bool(option.why), name
        if option.least is not None:
            assert option.least <= int(option.default) <= option.most, name


def test_an_option_that_is_said_twice_is_the_last_one() -> None:
    assert parse("trace=on;trace=off").values == {"trace": False}

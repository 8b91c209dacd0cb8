"""Settings of a pair as a job notes them for its twin, and notes of older releases."""

from __future__ import annotations

import json
from dataclasses import replace

from anabranch.model.ids import TableId
from anabranch.model.pairing import Pairing, said_of_deletes

STOCK = TableId("shop", "stock")
NOTED = Pairing("paris", "berlin", "berlin", "shop", {STOCK: "changed"}, {STOCK: ("number",)}, "newest")


def test_rule_23_a_pairing_is_read_as_it_was_noted() -> None:
    assert Pairing.of_text(NOTED.as_text()) == NOTED


def test_rule_23_sites_that_win_are_noted_where_there_are_any() -> None:
    named = replace(NOTED, wins={STOCK: "berlin"})
    assert Pairing.of_text(named.as_text()) == named
    assert len(json.loads(NOTED.as_text())) == 7  # as a release reads it that knows of none


def test_rule_23_the_site_at_which_columns_are_added_is_noted_where_there_is_one() -> None:
    for named in (replace(NOTED, ddl_from="paris"), replace(NOTED, ddl_from="paris", wins={STOCK: "berlin"})):
        assert Pairing.of_text(named.as_text()) == named


def test_rule_23_a_release_that_does_not_say_so_takes_no_deletes() -> None:
    older = '["paris", "berlin", "berlin", "shop", {"shop.stock": "changed"}, {}]'
    assert Pairing.of_text(older).deletes == "refuse"
    assert Pairing.of_text(older.replace(", {}]", "]")).delta == {}


def test_rule_23_a_job_that_deletes_rows_with_sums_goes_with_no_release_that_does_not() -> None:
    """Such a twin compares the word with its own, and would leave rows behind that this job has deleted."""
    assert said_of_deletes("newest", sums=True) not in ("newest", "refuse")
    assert said_of_deletes("newest", sums=False) == "newest"
    assert {said_of_deletes("refuse", sums=sums) for sums in (True, False)} == {"refuse"}

"""Which filters of a replica let the rows pass that say which job has written a transaction."""

from __future__ import annotations

import pytest

from anabranch.connectors.mysql.source.preflight_replica import passes


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({}, True),
        ({"Do_DB": "shop"}, False),
        ({"Do_DB": "shop,anabranch"}, True),
        ({"Ignore_DB": "mysql,anabranch"}, False),
        ({"Ignore_DB": "mysql"}, True),
        ({"Do_Table": "shop.t"}, False),
        ({"Do_Table": "shop.t,anabranch.checkpoint"}, True),
        ({"Ignore_Table": "anabranch.checkpoint"}, False),
        ({"Ignore_Table": "anabranch.load_chunk"}, True),
        ({"Wild_Do_Table": "shop.%"}, False),
        ({"Wild_Do_Table": "shop.%,anabranc_.%"}, True),
        ({"Wild_Ignore_Table": "anabranch.%"}, False),
        ({"Wild_Ignore_Table": "anabranch\\_x.%"}, True),
        ({"Rewrite_DB": "(shop,there),(anabranch,other)"}, False),
        ({"Rewrite_DB": "shop->there,anabranch->other"}, False),
        ({"Rewrite_DB": "shop->anabranch"}, True),
        ({"Do_Table": "anabranch.checkpoint", "Wild_Ignore_Table": "anabranch.%"}, True),
    ],
)
def test_rule_21_filters_of_a_replica(filters: dict[str, str], found: bool) -> None:
    assert passes({f"Replicate_{name}": text for name, text in filters.items()}, "checkpoint") is found

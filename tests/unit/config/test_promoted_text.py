"""Texts of job files for another environment: what is replaced, what stays as it is written. No server."""

from __future__ import annotations

import tomllib

import pytest

from anabranch.config.promoted_text import copied, merged
from anabranch.errors import ConfigError

TRIED = """\
# the shop, tried out
name = "shop-test"  # its name
[source]
url = 'mysql://repl:${TEST_PW}@db-test:3306'
[target]
url = \"""
postgresql://app:${TEST_PW}@copy-test/shop\"""
[[rules]]
include = ["shop.*"]   # all of it
target = "${TEST_PW}.{table}"
"""
ENDS = {"source": "mysql://repl:${PW}@db:3306", "target": "postgresql://app:${TEST_PW}@copy/shop"}
LIVE = """\
name = "shop"
[source]
url = "mysql://repl:${PW}@db:3306"
[target]
url = "postgresql://app:${PW}@copy/shop"
[apply]
mode = "transaction"
[[rules]]
include = ["shop.item"]
"""


def test_a_copy_has_another_name_other_ends_and_variables_and_the_same_comments() -> None:
    made = copied(TRIED, "shop", ENDS, {"TEST_PW": "PW"})
    said = tomllib.loads(made)
    assert (said["name"], said["source"]["url"], said["target"]["url"]) == ("shop", ENDS["source"], ENDS["target"])
    assert said["rules"] == [{"include": ["shop.*"], "target": "${PW}.{table}"}]
    assert made.startswith('# the shop, tried out\nname = "shop"  # its name\n') and "   # all of it\n" in made


def test_a_new_job_has_to_be_told_each_of_its_ends_and_no_other() -> None:
    with pytest.raises(ConfigError, match="not told: target"):
        copied(TRIED, "shop", {"source": ENDS["source"]}, {})
    with pytest.raises(ConfigError, match="no end is 'web'"):
        copied(TRIED, "shop", {**ENDS, "web": "x"}, {})
    with pytest.raises(ConfigError, match="write to the same place"):
        copied(TRIED, "shop", {**ENDS, "target": tomllib.loads(TRIED)["target"]["url"]}, {})


def test_several_targets_are_told_by_their_names() -> None:
    several = (
        LIVE.replace("[target]\n", '[[targets]]\nname = "a"\n') + '[[targets]]\nname = "b"\nurl = "mysql://u@b/x"\n'
    )
    ends = {"source": "mysql://u@s", "a": "mysql://u@a2", "b": "mysql://u@b2"}
    assert [one["url"] for one in tomllib.loads(copied(several, "other", ends, {}))["targets"]] == [
        "mysql://u@a2",
        "mysql://u@b2",
    ]
    swapped = ends | {"a": "mysql://u@b/x", "b": "postgresql://app:${PW}@copy/shop"}
    assert tomllib.loads(copied(several, "other", swapped, {}))["targets"][0]["url"] == "mysql://u@b/x"


def test_what_cannot_be_replaced_where_it_stands_is_refused_and_not_guessed() -> None:
    inline = 'name = "a"\nsource = { url = "mysql://u@s" }\ntarget = { url = "mysql://u@t" }\nrules = [{ include = ["a.*"] }]\n'
    with pytest.raises(ConfigError, match="as it is written"):
        copied(inline, "b", {"source": "mysql://u@s2", "target": "mysql://u@t2"}, {})


def test_rules_go_into_a_job_that_keeps_its_ends_and_settings() -> None:
    made = merged(LIVE, TRIED, {"TEST_PW": "PW"})
    assert tomllib.loads(made) == tomllib.loads(LIVE) | {"rules": [{"include": ["shop.*"], "target": "${PW}.{table}"}]}
    assert "# all of it" in made
    assert merged(made, TRIED, {"TEST_PW": "PW"}) == made, "a second time changes nothing"


def test_only_the_sections_that_are_asked_for_go() -> None:
    other = LIVE.replace('"transaction"', '"epoch"').replace("shop.item", "shop.other")
    assert tomllib.loads(merged(LIVE, other, {}, ["apply"])) == tomllib.loads(LIVE) | {"apply": {"mode": "epoch"}}
    for section in ("source", "target", "targets", "name", "trail"):
        with pytest.raises(ConfigError, match="are its own"):
            merged(LIVE, other, {}, ["rules", section])

"""[source.options] and [target.options]: each database's own, and the places where some of them stood before."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.config import JobConfig, describe_change, load_job
from anabranch.config.options import FORMER, classes, keys, model_of
from anabranch.connectors.mysql.source.options import MysqlSourceOptions
from anabranch.connectors.postgresql.source.options import PostgresSourceOptions
from anabranch.connectors.postgresql.target.options import PostgresTargetOptions
from anabranch.databases import NONE, SOURCE, TARGET, Options, registry
from anabranch.errors import ConfigError
from anabranch.job import Job

MYSQL = '[source]\nurl = "mysql://u@h"\n'
POSTGRESQL = '[source]\nurl = "postgresql://u@h/s"\n'
ONE = '[target]\nurl = "postgresql://u@h/d"\n'
RULES = '[[rules]]\ninclude = ["shop.*"]\n'
OF_SOURCE = 'decoder = "wal2json"\nbinary = true\nstreaming = true\nheartbeat_interval_s = 7\nheld_log_warning_mb = 9\n'
CHOSEN = PostgresSourceOptions("wal2json", True, True, 7, 9, "numbers")


def config(tmp_path: Path, text: str) -> JobConfig:
    file = tmp_path / "job.toml"
    file.write_text('name = "shop"\n' + text + RULES)
    return load_job(file, {"ANABRANCH_HOME": str(tmp_path)})


def problems(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        config(tmp_path, text)
    return [str(problem) for problem in refused.value.problems]


def test_each_database_has_its_own(tmp_path: Path) -> None:
    found = config(tmp_path, MYSQL + "[source.options]\nserver_id = 5\n" + ONE + '[target.options]\njson = "text"\n')
    assert found.source.options == MysqlSourceOptions(5)
    assert found.target_options() == PostgresTargetOptions("text")
    found = config(tmp_path, POSTGRESQL + f'[source.options]\n{OF_SOURCE}large_objects = "numbers"\n' + ONE)
    assert found.source.options == CHOSEN
    twin = '[source]\nurl = "memory:///s"\n[target]\nurl = "memory:///d"\n'
    assert (config(tmp_path, twin).source.options, config(tmp_path, twin).target_options()) == (NONE, NONE)


def test_what_is_not_written_is_as_the_database_has_it(tmp_path: Path) -> None:
    for head, expected in ((MYSQL, MysqlSourceOptions()), (POSTGRESQL, PostgresSourceOptions())):
        for options in ("", "options = {}\n"):
            found = config(tmp_path, head + options + ONE + options)
            assert (found.source.options, found.target_options()) == (expected, PostgresTargetOptions())


def test_the_places_of_before_stay_valid_and_mean_the_same(tmp_path: Path) -> None:
    types = 'large_objects = "numbers"\njson = "json"\ngeometry = "geometry"\nvector = "vector"\n'
    before = f"[capture]\n{OF_SOURCE}[types]\n{types}"
    found = config(tmp_path, POSTGRESQL + ONE + before)
    assert (found.source.options, found.target_options()) == (
        CHOSEN,
        PostgresTargetOptions("json", "geometry", "vector"),
    )
    assert config(tmp_path, MYSQL + ONE + "[capture]\nserver_id = 5\n").source.options == MysqlSourceOptions(5)
    assert found.unused == ()


def test_every_former_place_is_one_of_a_key_that_a_database_has() -> None:
    assert all(any(key in keys(kind) for kind in classes(role)) for (_, key), role in FORMER.items())


def test_both_places_may_say_the_same_and_nothing_else(tmp_path: Path) -> None:
    both = POSTGRESQL + '[source.options]\ndecoder = "{}"\n' + ONE + '[capture]\ndecoder = "wal2json"\n'
    assert config(tmp_path, both.format("wal2json")).source.options == PostgresSourceOptions("wal2json")
    assert problems(tmp_path, both.format("pgoutput")) == [
        "line 5, [source.options] decoder: is 'pgoutput' here, and 'wal2json' in [capture] decoder, where it stood before;"
        " expected one of the two"
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            MYSQL + "[source.options]\nserver_di = 5\n",
            "line 5, [source.options] server_di: unknown key; expected one of server_id; did you mean server_id?",
        ),
        (
            MYSQL + '[source.options]\ndecoder = "pgoutput"\n',
            "line 5, [source.options] decoder: unknown key; it is an option of postgresql; expected one of server_id",
        ),
        (
            MYSQL + "[source.options]\nserver_id = 0\n",
            "line 5, [source.options] server_id: 0 is too small; expected at least 1",
        ),
        (
            MYSQL + 'options = "fast"\n',
            "line 4, [source.options]: is not a section; expected a section",
        ),
        (
            POSTGRESQL + '[source.options]\nbinary = "yes"\n',
            "line 5, [source.options] binary: 'yes' is neither true nor false; expected true or false, without quotes",
        ),
        (
            POSTGRESQL + '[source.options]\ndecoder = "pgoutpt"\n',
            "line 5, [source.options] decoder: 'pgoutpt' is no choice here; expected 'pgoutput', 'wal2json' or"
            " 'decoderbufs'; did you mean 'pgoutput'?",
        ),
        (
            '[source]\nurl = "memory:///s"\n[source.options]\nx = 1\n',
            "line 5, [source.options] x: unknown key; expected none",
        ),
    ],
)
def test_wrong_options(tmp_path: Path, text: str, expected: str) -> None:
    assert problems(tmp_path, text + ONE) == [expected]


def test_wrong_values_at_a_former_place_are_told_where_they_stand(tmp_path: Path) -> None:
    assert problems(tmp_path, MYSQL + ONE + '[capture]\nserver_id = "5"\ndecoder = "x"\n[types]\njson = "xml"\n') == [
        "line 7, [capture] server_id: '5' is not a whole number; expected a whole number, without quotes",
        "line 8, [capture] decoder: 'x' is no choice here; expected 'pgoutput', 'wal2json' or 'decoderbufs'",
        "line 10, [types] json: 'xml' is no choice here; expected 'jsonb', 'json' or 'text'",
    ]


def test_a_misspelt_key_of_before_leads_to_where_it_stands_now(tmp_path: Path) -> None:
    for section, key, meant in (
        ("capture", "decodr", "[source.options] decoder"),
        ("types", "geometri", "[target.options] geometry"),
        ("load", "streaming", "[source.options] streaming"),
    ):
        (told,) = problems(tmp_path, POSTGRESQL + ONE + f"[{section}]\n{key} = 1\n")
        assert told.endswith(f"did you mean {meant}?")


def test_a_url_that_is_none_hides_no_other_problem_and_makes_none(tmp_path: Path) -> None:
    text = '[source]\nurl = "oracle://u@h"\n[source.options]\nx = 1\n' + ONE + "[target.options]\njson = 1\n"
    found = problems(tmp_path, text + "[capture]\nserver_id = 3\n")
    assert [told.partition(":")[0] for told in found] == ["line 3, [source] url", "line 9, [target.options] json"]


def test_a_key_of_another_database_at_a_former_place_has_no_effect_as_before(tmp_path: Path) -> None:
    found = config(tmp_path, MYSQL + ONE + '[capture]\ndecoder = "wal2json"\nstreaming = true\n')
    assert found.unused == (("capture", "decoder"), ("capture", "streaming"))
    assert found.source.options == MysqlSourceOptions()


def test_targets_have_their_own_and_share_what_stands_where_it_stood(tmp_path: Path) -> None:
    ends = "".join(
        f'[[targets]]\nname = "{name}"\nurl = "postgresql://u@h/{name}"\n[targets.options]\n{options}'
        for name, options in (("a", 'json = "text"\n'), ("b", ""))
    )
    found = config(tmp_path, MYSQL + ends + '[types]\nvector = "vector"\n')
    assert found.target_options("a") == PostgresTargetOptions("text", vector="vector")
    assert found.target_options("b") == PostgresTargetOptions(vector="vector")
    views = Job(found, tmp_path / "job.toml").targets()
    assert [view.rules.values.json for view in views] == ["text", "jsonb"]
    assert [found.fingerprint(view.target)["json"] for view in views] == ["text", "jsonb"]
    assert problems(tmp_path, MYSQL + ends + '[types]\njson = "json"\n') == [
        "line 8, [targets.options] json: is 'text' here, and 'json' in [types] json, where it stood before; expected one of"
        " the two"
    ]


@pytest.mark.parametrize("place", ["[source.options]", "[capture]"])
def test_another_decoder_is_a_change_and_another_streaming_is_none(tmp_path: Path, place: str) -> None:
    before = config(tmp_path, POSTGRESQL + ONE).fingerprint()
    now = config(tmp_path, POSTGRESQL + ONE + f"{place}\nstreaming = true\nbinary = true\n").fingerprint()
    assert describe_change(before, now) == []
    now = config(tmp_path, POSTGRESQL + ONE + f'{place}\ndecoder = "wal2json"\n').fingerprint()
    (change,) = describe_change(before, now)
    assert str(change) == "[source.options] decoder: was pgoutput, is wal2json" and change.role == SOURCE


def test_what_is_stored_stays_where_the_release_before_looks_for_it(tmp_path: Path) -> None:
    stored = config(tmp_path, POSTGRESQL + ONE + '[target.options]\njson = "text"\n').fingerprint()
    assert (stored["decoder"], stored["json"]) == ("pgoutput", "text")
    assert stored["types"] == {"geometry": "bytea", "vector": "real[]", "map": {}}
    older = {key: value for key, value in stored.items() if key not in ("decoder", "types")}
    assert describe_change(older, stored) == [] == describe_change(stored, older)


def test_a_key_is_found_where_the_file_has_it(tmp_path: Path) -> None:
    for text, line in ((ONE + '[target.options]\njson = "text"\n', 7), (ONE + '[types]\njson = "text"\n', 7)):
        found = config(tmp_path, MYSQL + text)
        assert found.line_of(*found.place_of("target", "options", "json")) == line


def test_the_model_of_every_class_has_its_defaults() -> None:
    for database in registry().values():
        for role in (SOURCE, TARGET):
            kind = database.options_of(role)
            assert kind(**dict(model_of(kind)())) == kind() and issubclass(kind, Options)
            assert set(keys(kind)) >= kind.NEEDS_LOAD

"""What stops a job, with which code and which words; and that mending it is enough to go on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anabranch.testing.servers import Server
from rigs.scenario import Scenario, wait_until

Make = Callable[..., Scenario]
PLAIN = ("CREATE TABLE item (id INT PRIMARY KEY, name VARCHAR(40) UNIQUE, at_day DATE NULL)",)
ROWS = "INSERT INTO item VALUES (1,'a',NULL),(2,'b',NULL),(3,'c',NULL)"


def test_configuration_and_ends_that_are_away(mariadb: Server, scenario: Make) -> None:
    """Codes 2, 3, 5, 6, 7 without Spark."""
    made = scenario(mariadb, *PLAIN, ROWS)
    made.write_job("[lod]\nparallel = 2")
    assert "did you mean load?" in made.cli("run", code=2).stderr
    made.write_job()
    made.target.execute("CREATE TABLE public.item (id int primary key)", "INSERT INTO public.item VALUES (9)")
    assert "item" in made.cli("run", code=3).stderr
    assert "existing" in made.cli("preflight", code=3).stdout
    made.target.execute("DROP TABLE public.item")
    made.source_at = ("127.0.0.1", 9)
    made.write_job()
    assert "127.0.0.1:9" in made.cli("run", code=5).stderr
    made.source_at, made.target_at = None, ("127.0.0.1", 9)
    made.write_job()
    assert "127.0.0.1" in made.cli("run", code=6).stderr
    made.target_at = None
    made.write_job()
    made.home.mkdir(parents=True, exist_ok=True)
    (made.home / "trail").write_text("no directory")
    assert made.cli("capture", code=7).stderr


@pytest.mark.quick
def test_a_row_that_cannot_be_applied_stops_the_job_with_its_key(mysql: Server, scenario: Make) -> None:
    made = scenario(mysql, *PLAIN, ROWS)
    run = made.start("run")
    made.wait_streaming(run)
    pitfall_10_11_swapped_keys_and_unique_values_come_out_right(made)
    made.sync(run)
    made.assert_identical("item")
    assert "slow_epochs" not in made.status()["targets"][0]
    made.target.execute("DELETE FROM public.item WHERE id = 2")
    made.source.execute("UPDATE item SET at_day = '2024-05-05' WHERE id = 2")
    result = run.wait(90)
    assert result.code == 6 and "id = 2" in result.stderr and "item" in result.stderr
    made.target.execute("INSERT INTO public.item SELECT 2, name, NULL FROM (VALUES ('a')) AS v (name)")
    zero_dates_stop_until_the_job_says_what_they_are(made)
    rule_20_pitfall_02_partial_images_of_one_session(made)


def pitfall_10_11_swapped_keys_and_unique_values_come_out_right(made: Scenario) -> None:
    with made.source.connect(autocommit=False) as connection, connection.cursor() as cursor:
        for name, key in (("x", 1), ("a", 2), ("b", 1)):
            cursor.execute("UPDATE item SET name = %s WHERE id = %s", (name, key))
        cursor.execute("UPDATE item SET id = id + 10 ORDER BY id DESC")
        cursor.execute("UPDATE item SET id = id - 10 ORDER BY id")
        connection.commit()


def zero_dates_stop_until_the_job_says_what_they_are(made: Scenario) -> None:
    with made.source.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode = ''")
        cursor.execute("UPDATE item SET at_day = '0000-00-00' WHERE id = 3")
        connection.commit()
    stopped = made.start("run").wait(90)
    assert stopped.code == 5 and "id=" in stopped.stderr, stopped.stderr
    assert "zero_date" in stopped.stderr
    made.write_job('[types]\nzero_date = "null"\n')


def rule_20_pitfall_02_partial_images_of_one_session(made: Scenario) -> None:
    run = made.start("run")
    with made.source.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION binlog_row_image = 'MINIMAL'")
        cursor.execute("INSERT INTO item (id, name) VALUES (50, 'minimal')")
        cursor.execute("UPDATE item SET at_day = '2024-01-02' WHERE id = 50")
        cursor.execute("UPDATE item SET id = 51 WHERE id = 50")
        cursor.execute("DELETE FROM item WHERE id = 1")
        connection.commit()
    made.sync(run, seconds=120)
    rows = {row[0]: row[1:] for row in made.target_rows("item", ["id", "name"])}
    assert rows[51] == ("minimal",) and 1 not in rows and 50 not in rows
    assert made.target.query("SELECT at_day FROM public.item WHERE id = 3") == [(None,)]
    wait_until(lambda: made.states()["item"] == "streaming", 30, "item streams")
    run.stop()

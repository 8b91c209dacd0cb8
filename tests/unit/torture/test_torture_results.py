"""The last run that is kept: every failpoint was reached in it, but those that are named here, each with its own test."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from anabranch.failpoints import POINTS
from anabranch.testing.torture.faults_plan import WEIGHTS

TESTS = Path(__file__).parents[2]
RUNS = {file.stem: json.loads(file.read_text()) for file in sorted((TESTS / "torture").glob("results-*.json"))}
RUN = RUNS["results-postgresql"]
BUGS = [bug for run in RUNS.values() for bug in run["bugs"]]
KEPT = RUN["failpoints"]
KILLS = "live/test_cutover_kills.py::test_rule_24_pitfall_74_a_kill_at_every_place_there_and_back"
LOADS = "scenarios/test_scenario_hops.py::test_what_is_killed_while_it_loads_goes_on"
HOPS = "unit/transport/test_transport_processes.py::test_a_hop_that_dies_at_any_failpoint_goes_on_where_it_was"
STORES = "unit/transport/test_store_processes.py::test_a_pump_that_dies_at_any_failpoint_of_a_store_goes_on"
EXPORTS = "unit/trail/test_trail_parcels_crashes.py::test_an_export_that_is_killed_goes_on_with_the_same_parcels"
IMPORTS = "unit/trail/test_trail_parcels_crashes.py::test_an_import_that_is_killed_ends_as_one_that_was_not"
REFUSED = (
    "live/test_cutover.py::test_pitfall_74_what_is_refused_until_a_kill_is_gone_on_with_and_when_the_job_is_dropped"
)
# Reached in few histories or in none: the test that goes there on purpose.
RARE = {
    **{
        point: "scenarios/test_scenario_manager_kills.py::test_the_next_manager_goes_on_from_a_kill_anywhere"
        for point in POINTS
        if point.startswith("manager.")
    },
    "verify.reached": "live/test_verify_resumed_in_part.py::test_rule_25_what_dies_behind_a_part_goes_on_there",
    "verify.kept": "live/test_verify_resumed.py::test_rule_25_a_killed_verification_goes_on",
    "trail.history.restored": "unit/trail/test_trail_history_file.py::test_a_kill_between_leaves_what_can_be_done_again",
    "rules.import.written": "unit/cli/test_rules_moved.py::test_a_kill_leaves_the_file_of_before_or_the_new_one",
    "capture.kept": "live/test_postgresql_streaming.py::test_rule_06_a_death_at_any_place_loses_and_doubles_nothing",
    "trail.pack.written": "unit/trail/test_trail_pack.py::test_failpoints_of_packing_leave_the_same_trail",
    "trail.pack.renamed": "unit/trail/test_trail_pack.py::test_failpoints_of_packing_leave_the_same_trail",
    "lease.claimed": "unit/trail/test_trail_takeover.py::test_a_takeover_that_is_killed_is_made_by_the_next_one",
    "lease.fenced": "unit/trail/test_trail_takeover.py::test_a_takeover_that_is_killed_is_made_by_the_next_one",
    "trail.encryption": "unit/trail/test_trail_encryption.py::test_a_kill_between_format_and_keys_begins_again",
    "trail.rekey": "unit/trail/test_trail_encryption.py::test_failpoints_of_another_key_leave_a_trail_that_is_read",
    "trail.rekey.wrapped": "unit/trail/test_trail_encryption.py::test_failpoints_of_another_key_leave_a_trail_that_is_read",
    "load.rows.holding": "live/test_kept_rows.py::test_a_trail_that_was_held_in_vain_is_let_go",
    "load.rows.held": "live/test_kept_rows.py::test_tables_that_were_parked_together_go_on_together_wherever_it_dies",
    "load.rows.kept": "live/test_kept_rows.py::test_tables_that_were_parked_together_go_on_together_wherever_it_dies",
    "load.vouched": "live/test_vouched_tables.py::test_rule_05_a_new_job_begins_behind_a_backup_and_loads_the_rest",
    "changes.noted": "live/test_change_tables_at_mysql.py::test_a_reader_gets_every_change_once_while_the_job_dies",
    "changes.made": "live/test_change_tables.py::test_a_reader_gets_every_change_once_while_the_job_dies",
    "first.read": "live/test_kafka_target.py::test_rows_that_are_there_come_once_and_in_front_of_their_changes",
    "first.committed": "live/test_kafka_target.py::test_rows_that_are_there_come_once_and_in_front_of_their_changes",
    "changes.following": "live/test_change_instances.py::test_a_second_instance_has_its_columns_from_its_own_place_on",
    "changes.known": "live/test_change_tables.py::test_a_reader_gets_every_change_once_while_the_job_dies",
    "attunity.noted": "live/test_attunity_tables.py::test_a_death_between_trace_and_state_tells_nothing_twice",
    "attunity.configured": "live/test_attunity_tables.py::test_the_configuration_row_is_read_as_it_is_written",
    "changes.low_end_moved": "live/test_change_retention.py::test_old_changes_go_and_a_reader_gets_no_gap",
    "changes.removed": "live/test_change_retention.py::test_old_changes_go_and_a_reader_gets_no_gap",
    "changes.idle_noted": "live/test_change_heartbeats.py::test_time_goes_on_while_the_source_is_idle",
    "apply.appended": "live/test_change_tables.py::test_a_reader_gets_every_change_once_while_the_job_dies",
    "load.generations.written": "live/test_postgresql_begin_new.py::test_rule_29_a_crash_in_the_middle_leaves_nothing_of_them",
    "apply.reread": "unit/apply/test_reread.py::test_rule_03_rows_that_were_read_again_are_there_once",
    "apply.pipelined": "live/test_postgresql_pipelined.py::test_rule_09_a_crash_behind_a_pipeline_does_nothing_twice",
    "apply.one": "unit/apply/test_epoch.py::test_rule_08_a_unique_key_that_is_new_costs_one_slow_epoch",
    "apply.altering": "live/test_altered_tables.py::test_rule_17_columns_come_between_the_rows_of_both_definitions",
    "apply.altering.filled": "live/test_altered_tables.py::test_rule_17_columns_come_between_the_rows_of_both_definitions",
    "ddl.replaced": "live/test_asked_changes.py::test_a_person_may_alter_the_target_in_place_of_a_change",
    "apply.altered.apart": "live/test_altered_tables.py::test_rule_17_columns_come_between_the_rows_of_both_definitions",
    "apply.created": "live/test_created_tables.py::test_rule_17_tables_come_with_their_first_row",
    "apply.dropping": "live/test_dropped_tables.py::test_rule_17_tables_go_at_their_place",
    "apply.dropped.apart": "live/test_dropped_tables.py::test_rule_17_tables_go_at_their_place",
    "apply.dropped": "live/test_dropped_tables.py::test_rule_17_tables_go_at_their_place",
    "apply.altered": "live/test_altered_tables.py::test_rule_17_columns_come_between_the_rows_of_both_definitions",
    "apply.ddl.noted": "live/test_altered_tables.py::test_rule_17_columns_come_between_the_rows_of_both_definitions",
    "apply.drop.asking": "live/test_dropped_tables.py::test_rule_17_a_person_decides_about_a_drop",
    "apply.dropped.behind": "live/test_dropped_tables.py::test_rule_17_a_person_decides_about_a_drop",
    "apply.renamed.behind": "live/test_dropped_tables.py::test_rule_17_a_person_decides_about_another_name",
    "apply.asking": "live/test_asked_changes.py::test_rule_17_a_decision_is_carried_out_once_wherever_the_job_dies",
    "apply.altered.behind": "live/test_asked_changes.py::test_rule_17_a_decision_is_carried_out_once_wherever_the_job_dies",
    "apply.caught.up": "live/test_asked_changes.py::test_rule_17_a_decision_is_carried_out_once_wherever_the_job_dies",
    "ddl.decided": "live/test_asked_changes.py::test_rule_17_a_decision_that_dies_half_way_is_made_again",
    "apply.conflict": "unit/apply/test_epoch.py::test_rule_08_a_unique_key_that_is_new_costs_one_slow_epoch",
    "apply.conflict.noted": "live/test_postgresql_conflicts.py::test_a_crash_after_the_note_leaves_none",
    "apply.left": "unit/apply/test_repair.py::test_a_table_that_is_to_be_loaded_again_is_taken_out_once",
    "apply.repair": "unit/apply/test_repair.py::test_a_crash_before_rows_are_put_leaves_the_request",
    "rewind.held": "scenarios/test_scenario_going_back.py::test_going_back",
    "rewind.opened": "scenarios/test_scenario_going_back.py::test_going_back",
    "rewind.commit": "scenarios/test_scenario_going_back.py::test_going_back",
    "rewind.committed": "scenarios/test_scenario_going_back.py::test_going_back",
    "apply.set.aside": "live/test_postgresql_aside_back.py::test_rule_26_a_crash_while_it_sets_aside_sets_nothing_aside_twice",
    "apply.aside.settled": "live/test_postgresql_aside_back.py::test_rule_26_a_crash_while_it_releases_releases_once",
    "apply.emptied": "live/test_mysql_target_truncate.py::test_rule_16_a_process_that_dies_behind_the_truncate_does_it_again",
    "apply.pair.stands": "live/test_pair_columns.py::test_rule_23_a_column_comes_while_rows_cross",
    "apply.pair.filled": "live/test_pair_columns.py::test_rule_23_a_column_comes_while_rows_cross",
    "apply.pair.due": "torture/test_torture_two_sites.py::test_rule_23_pitfall_69_histories_of_two_sites_with_faults",
    "apply.pair.standing": "torture/test_torture_two_sites.py::test_rule_23_pitfall_69_histories_of_two_sites_with_faults",
    "apply.pair.stood": "live/test_two_active_sites.py::test_rule_23_pitfall_69_two_sites_become_equal",
    "apply.pair.cleared": "live/test_two_active_sites.py::test_rule_23_pitfall_69_two_sites_become_equal",
    "apply.parking": "live/test_postgresql_parking.py::test_rule_15_a_crash_while_it_parks_loses_nothing",
    "apply.carried": "live/test_appliers_at_once.py::test_rule_09_a_postgresql_has_a_beginning_whatever_dies",
    "apply.in.turn": "live/test_appliers_at_once.py::test_rule_09_a_postgresql_has_a_beginning_whatever_dies",
    "apply.out.of.turn": "live/test_appliers_relaxed.py::test_rule_09_a_postgresql_has_each_once_whatever_dies",
    "apply.relaxed.carried": "live/test_appliers_relaxed.py::test_rule_09_a_postgresql_has_each_once_whatever_dies",
    "apply.relaxed.ended": "live/test_appliers_relaxed.py::test_rule_09_a_postgresql_has_each_once_whatever_dies",
    "trail.check.answer": "scenarios/test_scenario_hops_verify.py::test_an_answer_waits_for_room_in_the_trail",
    "trail.check.answered": "unit/trail/test_trail_checks.py::test_a_death_behind_the_answer_leaves_no_question",
    **{name: LOADS for name in POINTS if name.startswith("trail.load.")},  # each ends a process there
    **{name: KILLS for name in POINTS if name.startswith("cutover.")},  # met there by this very list
    "cutover.lifted": REFUSED,
    **{name: HOPS for name in POINTS if name.startswith(("trail.replica.", "pump."))},  # each ends a process there
    **{name: STORES for name in POINTS if name.startswith("store.")},  # and by this one
    **{name: EXPORTS for name in POINTS if name.startswith("parcel.export.")},  # and by this one
    **{name: IMPORTS for name in POINTS if name.startswith("parcel.import.")},
}


def test_what_is_kept_is_a_whole_run_of_one_commit() -> None:
    """Three thousand histories that count, in a row, with faults of every kind, of code that is somewhere."""
    first, last = RUN["seeds"]
    assert RUN["failed"] == [] and RUN["passed"] == last - first + 1 and RUN["counted"] >= 3000
    assert RUN["faults"].keys() == WEIGHTS.keys() and re.fullmatch("[0-9a-f]{12}", RUN["commit"])


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_no_history_failed_of_those_that_are_kept(run: dict[str, Any]) -> None:
    first, last = run["seeds"]
    assert run["failed"] == [] and run["passed"] == last - first + 1
    assert re.fullmatch("[0-9a-f]{12}", run["commit"]) and run["counted"] > run["passed"] // 2


def test_every_failpoint_was_reached_by_the_histories_that_are_kept() -> None:
    assert [name for name, (reached, _) in KEPT.items() if not reached and name not in RARE] == []


def test_every_failpoint_of_the_product_is_in_what_is_kept() -> None:
    """One that is new: make torture, or a line above."""
    assert [name for name in POINTS if name not in KEPT and name not in RARE] == []


@pytest.mark.parametrize(("name", "test"), RARE.items())
def test_a_rare_failpoint_has_its_test(name: str, test: str) -> None:
    file, _, function = test.partition("::")
    assert name in POINTS and re.search(rf"^def {function}\(", (TESTS / file).read_text(), re.MULTILINE)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: str(bug["seed"]))
def test_a_bug_that_was_found_has_its_test(bug: dict[str, str]) -> None:
    file, _, function = bug["test"].partition("::")
    assert str(bug["seed"]) in function.split("_")
    assert re.search(rf"^def {function}\(", (TESTS.parent / file).read_text(), re.MULTILINE)


def test_a_test_that_is_named_after_a_seed_stands_in_the_table_of_bugs() -> None:
    names = {
        n
        for f in TESTS.rglob("test_*.py")
        for n in re.findall(r"^def test_torture_seed((?:_\d+)+)", f.read_text(), re.M)
    }
    assert {int(seed) for name in names for seed in name.split("_")[1:]} == {bug["seed"] for bug in BUGS}


def test_a_thousand_histories_of_two_sites_are_kept_between_four_pairs_with_every_kind_of_fault() -> None:
    """None failed, or nothing of that pair would have been kept."""
    run = json.loads((TESTS / "torture" / "two-sites.json").read_text())
    assert len(run["pairs"]) == 4 and sum(pair["histories"] for pair in run["pairs"].values()) >= 1000
    for name, pair in run["pairs"].items():
        assert {"kill", "exit", "cut", "restart"} == {kind for kind, many in pair["faults"].items() if many}, name
        assert pair["crossed"] >= 100, name

"""Nothing is decided by the wall clock, which somebody may set: pitfall 45. Where it is read is listed here, with what for."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "anabranch"
CALLS = ("time.time", "time.time_ns", "time.strftime", "datetime.now")
NOT_THE_PRODUCT = {"testing", "demo", "memory"}
READ_IN = {
    "job/bundle/archive.py": "shown, and the file's name: when the bundle was made",
    "job/bundle/home.py": "what a person asks for: the trace of the last hours",
    "job/lag.py": "shown: a lag is by the clocks of the source and of this machine, and never below nothing",
    "apply/told.py": "shown: when an epoch was opened and committed",
    "job/status.py": "shown: when the picture was made",
    "job/watching.py": "shown: when an epoch began, and when capture has written a stretch of the trail",
    "state/store.py": "shown: when something was noted",
    "state/trace.py": "shown: when something was noted; how long it is kept",
    "cli/trace.py": "what a person asks for: the last two hours",
    "state/living.py": "a part elsewhere is believed by its clock and ours: shown, and asked for by nobody else than drop",
    "trail/checks.py": "questions are answered in this order; any order would do",
    "job/verifying_elsewhere.py": "shown: when a table was compared",
    "job/watched.py": "shown: when a table was compared",
    "job/in_rounds.py": "shown: when a table was compared",
    "job/resuming.py": "shown: when a verification began; its name is behind all before it, whatever the clock says",
    "cutover/verified.py": "shown: how old a verification is",
    "trail/requests.py": "requests are seen to in this order; any order would do",
    "trail/retention.py": "how long a segment was past: jumps are taken out (retention.Clock); when a reader came is shown",
    "trail/load_keeping.py": "how long rows of a load stay that all readers have: who joins behind that is told to load again",
    "trail/exporting.py": "shown: when a parcel was made",
    "trail/claims.py": "shown: since when a process has the right to write a shared trail",
    "trail/writer.py": "shown: when a segment was made",
    "capture/created.py": "whether a late catalogue is waited for, behind a statement that is young: else its table parks",
    "capture/kept_catalog.py": "how long a late catalogue is asked again behind a statement: else its table parks",
    "capture/uncommitted.py": "shown: when the first rows of an open transaction were put beside the trail",
    "connectors/postgresql/source/wal_stream.py": "shown by the source: when we reported to it last",
    "connectors/mysql/lookout.py": "shown: since when somebody is in our way, of the seconds that the server tells",
    "connectors/kafka/target/state_forms.py": "shown: when something was noted",
    "lifecycle/first_rows.py": "told to readers: when rows were read, where the source does not say its own time",
    "cutover/machine.py": "shown: when a step was noted, and the downtime of that",
    "job/certifying.py": "shown: when a certificate was made",
    "job/ddl_plan_gone.py": "shown: the name that a kept table would have now",
    "job/keep_verifying.py": "shown: when a table was compared; which comes next, and any order would do",
    "job/way_back.py": "shown: when the cut-over of the other way was taken back",
    "lifecycle/vouching.py": "shown: when somebody gave a table its place",
    "manager/monitoring.py": "shown: when a job was measured",
    "job/hop_status.py": "shown: how long ago a trail has got something",
    "manager/measures.py": "whether a file's time is old enough to tell the next write: else it is read sooner; shown",
    "manager/hop_view.py": "shown, and for an alert: how long ago a pump noted its delay; no row hangs on it",
    "api/counting.py": "shown: when the manager began",
    "api/statistics.py": "which statistics a person asks for: of the last hour",
    "console/job_pages.py": "shown: the last hour",
    "console/record_pages.py": "shown: entries of the last hours",
    "manager/glances.py": "shown: when both ends were asked last",
    "manager/store.py": "shown: when something was noted",
    "manager/tokens.py": "when a token ends, which a person has said in days; no row hangs on it",
    "manager/repeats.py": "how long the answer to a repeated request is kept; no row hangs on it",
    "manager/logins.py": "how long whoever guesses at passwords waits; no row hangs on it",
    "manager/sessions.py": "when a login ends; no row hangs on it",
    "manager/oidc/sessions.py": "when a login by a provider ends; no row hangs on it",
    "spark/work.py": "shown: when a piece was done, in spans",
    "spark/pieces.py": "shown: when a filtered piece was done, in spans",
    "transport/pump.py": "shown: when it was noted how far a pump is",
    "transport/store_pump.py": "shown: when a piece was made",
    "transport/store_source.py": "shown: when it was noted how far a pump is, and how old the last piece is that came",
    "transport/store_retention.py": "how long a piece stays that every reader has: nobody needs it any more",
    "cli/main.py": "the name of a file with a traceback",
}


def reads_wall_clock(path: Path) -> bool:
    text = path.read_text()
    if not any(call.partition(".")[2] in text for call in CALLS):
        return False
    calls = (node.func for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    names = (call for call in calls if isinstance(call, ast.Attribute) and isinstance(call.value, ast.Name))
    return any(ast.unparse(call) in CALLS for call in names)


def test_pitfall_45_the_wall_clock_is_read_where_nothing_hangs_on_it() -> None:
    files = [path for path in PACKAGE.rglob("*.py") if NOT_THE_PRODUCT.isdisjoint(path.relative_to(PACKAGE).parts)]
    assert {path.relative_to(PACKAGE).as_posix() for path in files if reads_wall_clock(path)} == set(READ_IN)


def test_pitfall_45_the_clocks_of_the_servers_are_not_asked() -> None:
    """Except for a row that has to differ from the one before it (K2), and to tell people when something was noted."""
    words = ("now()", "current_timestamp", "clock_timestamp", "unix_timestamp(", "sysdate(")
    files = [*PACKAGE.glob("connectors/**/*.py"), *PACKAGE.rglob("*.sql")]
    files = [path for path in files if NOT_THE_PRODUCT.isdisjoint(path.relative_to(PACKAGE).parts)]
    asked = {path.name for path in files if any(word in path.read_text().lower() for word in words)}
    known = {
        "watermark.py",
        "heartbeat.py",
        "terms.py",
        "conditions.py",
        "created_columns.py",  # which defaults a statement names
        "defaults.py",
        "preflight_structures.py",
        "instances.py",  # when a change table was made
        "0001_state.before.sql",
        "0005_ddl.before.sql",
        "0012_ddl.before.sql",
        "ddl_notes.py",
        "0003_conflict.before.sql",
        "0004_skipped.before.sql",
        "0005_set_aside.before.sql",
        "migrate.py",
        "aside.py",
        "aside_epoch.py",
        "known_columns.py",
        "noted_defaults.py",  # which defaults a table notes
        "other_defaults.py",
        "foreseen_clauses.py",  # words of a statement
        "structures.py",
        "lookout.py",
        "attunity.py",  # for people: when a row of a trace was written
        "catalog.py",  # a source's, for people who read change tables: up to when they have all changes
        "fence.py",  # for people: how old a transaction is
    }
    assert asked <= known

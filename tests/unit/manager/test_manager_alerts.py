"""Alerts of a manager: begun, repeated, ended, kept, sent to local receivers. SQLite and sockets of this process, no server."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from anabranch.errors import ConfigError
from anabranch.manager import notifying
from anabranch.manager.alert_rules import USUAL, AlertRules, Kind, Rule
from anabranch.manager.alerts import Alerts
from anabranch.manager.measures import Measure
from anabranch.manager.notifying import Notifier, command, mail, webhook
from anabranch.manager.store import ManagerStore

LATE, FINE = {"shop": Measure("streaming", lag=90.0)}, {"shop": Measure("streaming", lag=1.0)}
RULE = Rule("lag", Kind.LAG, 60.0, for_s=30.0, calm_s=10.0)
BODY = {"alert": 1, "event": "firing", "rule": "lag", "job": "shop", "text": "90.0 seconds behind"}


@pytest.fixture
def store(tmp_path: Path) -> ManagerStore:
    return ManagerStore(tmp_path)


def made(store: ManagerStore, *rules: Rule) -> Alerts:
    kept = AlertRules(store)
    kept.set(rules, "ann")
    return Alerts(store, kept, Path("/"), lambda: ["there"])


def events(store: ManagerStore) -> list[str]:
    return [row["event"] for row in store.rows("SELECT event FROM alert_message ORDER BY id")]


def test_an_alert_begins_once_and_ends_once(store: ManagerStore) -> None:
    alerts = made(store, RULE)
    for second in range(100):
        alerts.look(float(second), LATE, {"shop"})
        if second == 29:
            assert events(store) == []
    assert events(store) == ["firing"] and alerts.all(is_open=True)[0].text == "90.0 seconds behind"
    for second in range(100, 105):
        alerts.look(float(second), FINE, {"shop"})
    alerts.look(105.0, LATE, {"shop"})
    assert events(store) == ["firing"], "a short calm is none"
    for second in range(110, 130):
        alerts.look(float(second), FINE, {"shop"})
    assert events(store) == ["firing", "recovered"] and alerts.all(is_open=True) == []


def test_a_job_at_rest_is_judged_anew_as_soon_as_anything_is_new(store: ManagerStore) -> None:
    rules = AlertRules(store)
    rules.set([RULE], "ann")
    alerts = Alerts(store, rules, Path("/"), lambda: ["there"])
    for second in range(3):
        alerts.look(float(second), FINE, {"shop"})
    for second in range(3, 40):
        alerts.look(float(second), LATE, {"shop"})  # its measure
    assert events(store) == ["firing"]
    for second in range(40, 60):
        alerts.look(float(second), FINE, {"shop"})
    assert events(store) == ["firing", "recovered"]
    rules.set([Rule("near", Kind.LAG, 0.5, for_s=0.0, calm_s=0.0)], "ann")
    alerts.look(60.0, FINE, {"shop"})  # the same measure, and another rule
    assert events(store) == ["firing", "recovered", "firing"]
    alerts.look(61.0, FINE, set())
    assert events(store)[3:] == ["recovered"], "it is not to run any more"
    alerts.look(62.0, FINE, set())
    alerts.look(63.0, FINE, {"shop"})
    assert events(store)[4:] == ["firing"], "and is to run again"


def test_a_later_manager_goes_on_with_it(store: ManagerStore) -> None:
    rule = Rule("lag", Kind.LAG, 60.0, for_s=0.0, calm_s=0.0)
    made(store, rule).look(0.0, LATE, {"shop"})
    later = made(store, rule)
    later.look(0.0, LATE, {"shop"})
    later.look(1.0, {"shop": Measure("waiting")}, {"shop"})  # nobody knows: it is not over
    assert events(store) == ["firing"]
    later.look(2.0, FINE, {"shop"})
    assert events(store) == ["firing", "recovered"]


def test_what_goes_on_is_told_again(store: ManagerStore) -> None:
    alerts = made(store, Rule("lag", Kind.LAG, 60.0, for_s=0.0, repeat_hours=1.0))
    alerts.look(0.0, LATE, {"shop"})
    with store.writing() as connection:
        connection.execute("UPDATE alert SET told = '2026-01-01T00:00:00.000Z'")
    alerts.look(1.0, LATE, {"shop"})
    alerts.look(2.0, LATE, {"shop"})
    assert events(store) == ["firing", "repeated"]


def test_states_parked_tables_and_the_disk(store: ManagerStore) -> None:
    rules = [Rule("down", Kind.STATE, for_s=0.0), Rule("parked", Kind.PARKED, for_s=0.0)]
    alerts = made(store, *rules, Rule("disk", Kind.DISK, 100.0, for_s=0.0))
    alerts.look(0.0, {"shop": Measure("died", detail="it ended with 137", parked=2), "old": Measure("died")}, {"shop"})
    found = {(one.rule, one.job): one.text for one in alerts.all()}
    assert found[("down", "shop")] == "died: it ended with 137" and found[("parked", "shop")] == "2 tables are parked"
    assert ("disk", "") in found and ("down", "old") not in found


def test_an_alert_of_a_rule_or_a_job_that_is_gone_is_over(store: ManagerStore) -> None:
    alerts = made(store, Rule("lag", Kind.LAG, 60.0, for_s=0.0))
    alerts.look(0.0, LATE, {"shop"})
    alerts.look(1.0, {}, {"shop"})  # not measured at this moment
    assert events(store) == ["firing"]
    alerts.look(2.0, {}, set())
    assert events(store) == ["firing", "recovered"]


def test_rules_that_make_no_sense_are_refused(store: ManagerStore) -> None:
    rules = AlertRules(store)
    assert rules.all() == USUAL
    for wrong in ([RULE, RULE], [Rule("x", Kind.LAG, -1.0)], [Rule("x", Kind.DISK, 101.0)], [Rule("", Kind.LAG)]):
        with pytest.raises(ConfigError):
            rules.set(wrong, "ann")
    rules.set([RULE], "ann")
    assert AlertRules(store).all() == (RULE,)


@pytest.fixture
def hook() -> Iterator[HTTPServer]:
    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(codes.pop(0) if codes else 200)
            self.send_header("Location", "/elsewhere")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    got: list[dict[str, object]] = []
    codes: list[int] = []
    server = HTTPServer(("127.0.0.1", 0), Receiver)
    server.got, server.codes = got, codes  # type: ignore[attr-defined]  # ours
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_a_webhook_gets_json_is_tried_again_and_what_was_given_up_is_shown(
    store: ManagerStore, hook: HTTPServer
) -> None:
    name, way = webhook(f"http://127.0.0.1:{hook.server_port}/secret")
    assert "secret" not in name
    notifier, alerts = Notifier(store), made(store, Rule("lag", Kind.LAG, 60.0, for_s=0.0, calm_s=0.0))
    notifier.ways["there"] = way
    alerts.look(0.0, LATE, {"shop"})
    hook.codes.append(503)  # type: ignore[attr-defined]  # ours
    assert notifier.send_next("there") and not notifier.send_next("there")
    assert [one["event"] for one in hook.got] == ["firing", "firing"]  # type: ignore[attr-defined]  # ours
    alerts.look(1.0, FINE, {"shop"})
    hook.codes.append(302)  # type: ignore[attr-defined]  # ours
    notifier.send_next("there")
    assert "302" in alerts.all()[0].not_sent["there"] and len(hook.got) == 3  # type: ignore[attr-defined]  # ours


def test_a_command_gets_json_on_its_input(tmp_path: Path) -> None:
    out = tmp_path / "out"
    script = f"import sys; open({str(out)!r}, 'w').write(sys.stdin.read())"
    command(shlex.join([sys.executable, "-c", script]))[1](BODY)
    assert json.loads(out.read_text()) == BODY
    with pytest.raises(notifying.NotSent, match="ended with 3"):
        command(shlex.join([sys.executable, "-c", "import sys; sys.exit(3)"]))[1](BODY)


def test_a_mail_arrives() -> None:
    got: list[str] = []

    async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 here\r\n")
        is_data = False
        while line := (await reader.readline()).decode():
            got.append(line.strip())
            if is_data and line != ".\r\n":
                continue
            says = {"DATA": b"354 go on\r\n", "QUIT": b"221 bye\r\n"}.get(line[:4].upper().strip(), b"250 ok\r\n")
            is_data = line[:4].upper() == "DATA"
            writer.write(says)
            if line[:4].upper() == "QUIT":
                break
        writer.close()

    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(receive, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        port = server.sockets[0].getsockname()[1]
        mail(f"smtp://127.0.0.1:{port}/ops@example.com?from=anabranch@example.com", None)[1](BODY)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
    assert "Subject: anabranch: lag firing shop" in got and "90.0 seconds behind" in got
    assert any(line.upper().startswith("RCPT TO:<OPS@EXAMPLE.COM>") for line in got)


def test_places_where_nothing_may_be_sent() -> None:
    for url in ("http://example.com/x", "ftp://h/", "https:///x", "https://u:p@h/", "https://h/ x"):
        with pytest.raises(ConfigError):
            webhook(url)
    for text in ("", "a 'b"):
        with pytest.raises(ConfigError):
            command(text)
    for url in ("smtp://h/", "https://h/ops@example.com", "smtps://u:p@h/ops@example.com"):
        with pytest.raises(ConfigError):
            mail(url, None)

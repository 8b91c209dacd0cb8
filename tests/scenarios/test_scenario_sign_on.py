"""A Chromium logs in at the console by an OpenID provider of PyPI, in a process of its own, and out of both again."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

from anabranch.testing.servers import free_port
from rigs.browser import Window, window
from rigs.scenario import Running, wait_until
from rigs.served import Served

ANN = {"sub": "17", "preferred_username": "ann", "groups": ["dba"]}
EVE = {"sub": "18", "preferred_username": "eve", "groups": ["guests"]}


@contextmanager
def provider(directory: Path) -> Iterator[tuple[str, Running]]:
    """Run the provider with two people. Yields its address."""
    port = free_port()
    users = [word for one in (ANN, EVE) for word in ("--user-claims", json.dumps(one))]
    command = (sys.executable, "-W", "ignore", "-m", "oidc_provider_mock", "-p", str(port), *users)
    running = Running(command, dict(os.environ), directory / "provider")
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: is_there(url), 60, "the provider answers", running.tail)
        yield url, running
    finally:
        running.kill()


def is_there(url: str) -> bool:
    try:
        with urlopen(f"{url}/.well-known/openid-configuration", timeout=60) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_people_log_in_by_a_provider_and_users_by_their_passwords_while_it_is_away(tmp_path: Path) -> None:
    with provider(tmp_path) as (issuer, running):
        port = free_port()
        file = tmp_path / "oidc.toml"
        file.write_text(
            f'issuer = "{issuer}"\nclient_id = "manager"\nclient_secret_env = "OIDC_SECRET"\nname = "Example"\n'
            f'public_url = "http://127.0.0.1:{port}"\nuser_claim = "preferred_username"\n'
            '[[roles]]\nclaim = "groups"\nvalue = "dba"\nrole = "administrator"\n'
        )
        environment = {**os.environ, "ANABRANCH_HOME": str(tmp_path / "home"), "OIDC_SECRET": "s3cret"}
        manager = Served(environment, tmp_path / "serve", "--oidc", str(file), port=port)
        try:
            manager.wait_health()
            with window(manager.url, tmp_path, None) as seen:
                somebody_without_a_role_stays_outside(seen)
                an_administrator_comes_and_goes(seen)
                password = manager.process.stderr.partition("with the password ")[2].split()[0]
                running.kill()
                manager.kill()
                # Another one has to ask the provider for everything.
                manager = Served(environment, tmp_path / "again", "--oidc", str(file), port=port)
                manager.wait_health()
                seen.look("/login")
                seen.press("Log in with Example", is_refused=True)
                assert "cannot be used" in seen.text()
                a_user_logs_in(seen, password)
                ours = [one for one in seen.wrong if one.startswith(seen.url) and f" asks {issuer}/" not in one]
                assert ours == []  # the provider's own pages fetch a style from elsewhere
        finally:
            manager.close()


def somebody_without_a_role_stays_outside(seen: Window) -> None:
    seen.open("/secrets", "main form")
    seen.press("Log in with Example")
    seen.page.wait_for_selector("button:has-text('18')")
    seen._is_refusal = True
    seen.page.click("button:has-text('18')")
    seen.page.wait_for_selector(".problem")
    seen._is_refusal = False
    assert "eve has no role at this manager" in seen.text()


def an_administrator_comes_and_goes(seen: Window) -> None:
    seen.open("/secrets", "main form")
    seen.press("Log in with Example")
    seen.page.click("button:has-text('17')")
    seen.page.wait_for_url(f"{seen.url}/secrets")  # by itself, with the session's cookie
    assert "oidc:ann (administrator)" in seen.page.inner_text("header")
    seen.look("/settings")
    assert "oidc:ann" in seen.text() and "dba" in seen.text()
    seen.press("Log out")
    seen.page.wait_for_selector("#leave")
    assert seen.page.title().startswith("Logged out")
    seen.page.click("#leave")
    seen.page.wait_for_selector("h1")
    seen.open("/", "main form")  # which leads to the login


def a_user_logs_in(seen: Window, password: str) -> None:
    seen.open("/login")
    seen.fill(name="admin", password=password)
    seen.press("Log in", "/password")

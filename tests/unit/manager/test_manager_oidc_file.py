"""Read the file of an OpenID provider: what is wrong in it is told, and the client's secret stays where it is. No server."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.cli import main as shell
from anabranch.errors import ConfigError
from anabranch.manager.oidc.settings import load_settings

RIGHT = """issuer = "https://login.example.org/realms/main"
client_id = "manager"
public_url = "https://manager.example.org:8420"
[[roles]]
claim = "groups"
value = "dba"
role = "administrator"
"""


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "oidc.toml"
    file.write_text(text)
    return file


def test_a_file_says_where_browsers_come_back_and_under_which_name(tmp_path: Path) -> None:
    found = load_settings(written(tmp_path, RIGHT), {})
    assert (found.back, found.host) == ("https://manager.example.org:8420/login/oidc/callback", "manager.example.org")
    assert found.client_secret() is None and found.file.roles[0].jobs == ["*"]


@pytest.mark.parametrize(
    ("before", "behind", "told"),
    [
        ("https://login.example.org/realms/main", "http://login.example.org", "line 1, issuer"),
        ("https://login.example.org/realms/main", "https://u:p@login.example.org", "line 1, issuer"),
        ("https://login.example.org/realms/main", "https://login.example.org/#a", "line 1, issuer"),
        (":8420", ":8420/console", "public_url"),
        (":8420", ":port", "line 3, public_url"),
        ('"manager"', '""', "line 2, client_id"),
        ('"administrator"', '"king"', "'king' is no role"),
        ('"dba"', '""', "line 6, [roles] value"),
        ('"dba"', '"dba"\njobs = ["a b"]', "line 7, [roles] jobs"),
        ('"dba"', '"dba"\njobs = []', "line 7, [roles] jobs"),
        ("client_id", "clientid", "did you mean client_id?"),
        ("[[roles]]", "session_hours = 25\n[[roles]]", "line 4, session_hours"),
        ("[[roles]]", 'scopes = ["a b"]\n[[roles]]', "line 4, scopes"),
        ("[[roles]]", 'client_secret_env = "A"\nclient_secret_file = "b"\n[[roles]]', "two secrets are named"),
    ],
)
def test_a_wrong_file_is_told_by_line_and_key(tmp_path: Path, before: str, behind: str, told: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load_settings(written(tmp_path, RIGHT.replace(before, behind, 1)), {})
    assert told in str(raised.value)


def test_no_roles_are_not_a_role_for_everybody(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="roles"):
        load_settings(written(tmp_path, RIGHT.partition("[[roles]]")[0]), {})


def test_a_secret_of_the_environment_is_taken_out_of_it(tmp_path: Path) -> None:
    file = written(tmp_path, f'client_secret_env = "OIDC_SECRET"\n{RIGHT}')
    environment = {"OIDC_SECRET": "s3cret", "HOME": "/"}
    found = load_settings(file, environment)
    assert found.client_secret() == "s3cret" and environment == {"HOME": "/"} and "s3cret" not in repr(found)
    with pytest.raises(ConfigError, match="OIDC_SECRET is not set"):
        load_settings(file, environment)


def test_a_secret_of_a_file_is_for_its_user_alone_and_may_change(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    file = written(tmp_path, f'client_secret_file = "{secret}"\n{RIGHT}')
    with pytest.raises(ConfigError, match="No such file"):
        load_settings(file, {})
    secret.write_text("first\n")
    secret.chmod(0o644)
    with pytest.raises(ConfigError, match="others may read"):
        load_settings(file, {})
    secret.chmod(0o600)
    found = load_settings(file, {})
    assert found.client_secret() == "first"
    secret.write_text("second")
    assert found.client_secret() == "second"
    secret.write_text("\n")
    with pytest.raises(ConfigError, match="is empty"):
        found.client_secret()


def test_a_file_of_authorities_that_is_none_is_told_before_the_manager_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path / "home"))
    wrong = tmp_path / "ca.pem"
    wrong.write_text("no certificate")
    file = written(tmp_path, f'ca_file = "{wrong}"\n{RIGHT}')
    assert shell.exit_code(["serve", "--listen", "127.0.0.1:0", "--oidc", str(file)]) == 2
    told = capsys.readouterr().err
    assert "ca_file" in told or "no address" in told
    assert not (tmp_path / "home").exists()

"""Passwords in the text of a job file."""

from __future__ import annotations

import pytest

from anabranch.errors import ConfigError
from anabranch.manager.masking import masked, refuse_masked


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('url = "mysql://u:${PW}@h:1/db"', None),
        ('url = "mysql://u:${A}${B}@h"', None),
        ('url = "mysql://h:3306/db"  # ask ann@example.org', None),
        ('url = "mysql://u:pa:ss@word@h"', 'url = "mysql://u:…@h"'),
        ('url = "mysql://u:a\'b c@h/db"', 'url = "mysql://u:…@h/db"'),
        ('url = "mysql://u:${PW}x@h"', 'url = "mysql://u:…@h"'),
        ('urls = ["kafka://a:b@h", "kafka://c:d@i"]', 'urls = ["kafka://a:…@h", "kafka://c:…@i"]'),
        ('url = "postgresql://u@h/db?sslpassword=secret&x=1"', 'url = "postgresql://u@h/db?sslpassword=…&x=1"'),
        ('ssl_key_password = "a\\"b"\nx = 1', 'ssl_key_password = "…"\nx = 1'),
        ("token = 'abc'", "token = '…'"),
        ('password = "${PW}"', None),
        ('url = "mysql://admin@server:s3cret@db"', 'url = "mysql://admin@server:…@db"'),
        ('url = "mysql://admin@server:${PW}@db"', None),
        ('url = "mysql://${USER}:s3cret@db"', 'url = "mysql://${USER}:…@db"'),
        ('password = """s3cret"""', 'password = "…"'),
        ('password = """\ns3\ncret"""\nx = 1', 'password = "…"\nx = 1'),
        ("password = '''s3'cret'''", "password = '…'"),
        ('url = """mysql://u:s3cret@h"""', 'url = "mysql://u:…@h"'),
        ("url = '''mysql://u:s3\ncret@h'''", 'url = "mysql://u:…@h"'),
        ('url = "mysql:\\u002f\\u002fu:s3cret@h"', 'url = "mysql://u:…@h"'),
        ('x = { password = "a", y = "b" }', 'x = { password = "…", y = "b" }'),
        ('"spark.db.password" = "a"', '"spark.db.password" = "…"'),
        ('"spark.options" = "-DtrustStorePassword=a -Dx=1"', '"spark.options" = "-DtrustStorePassword=… -Dx=1"'),
        ('jaas = "user=\\"u\\" password=\\"a\\";"', 'jaas = "user=\\"u\\" password=…;"'),
        ('# url = "mysql://u:p/w@h", was', '# url = "mysql://u:…@h", was'),
        ("# password: s3cret", "# password: …"),
        ('url = "mysql://h:3306"  # ask ann@example.org', None),
        ('urls = ["mysql://u@h", "x@y"]', None),
        ("where = \"a = 'b: c@d'\"", None),
        ('password = ""', None),
    ],
)
def test_what_is_written_literally_is_hidden_and_nothing_else(text: str, shown: str | None) -> None:
    assert masked(text) == (text if shown is None else shown)


@pytest.mark.parametrize(
    "text",
    [
        'url = "mysql://u:s3cret@h"',
        'url = "mysql://a@b:s3cret@h"',
        'url = """mysql://u:s3cret@h"""',
        'url = "postgresql://u@h/db?ssl_password=s3cret&x=1"',
        'password = "s3cret"',
        "password = '''s3cret'''",
        '"a.token" = "s3cret"',
        'x = "password=\\"s3cret\\""',
    ],
)
def test_a_file_in_which_a_password_was_hidden_is_refused_wherever_it_was(text: str) -> None:
    refuse_masked(text)
    with pytest.raises(ConfigError, match="a password was hidden"):
        refuse_masked(masked(text))


def test_what_is_no_hidden_password_is_taken() -> None:
    for text in ('note = "… @ …"', "# password = …", "where = \"a = '…'\"", 'url = "mysql://u:${PW}@h/…"'):
        refuse_masked(text)

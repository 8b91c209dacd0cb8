"""Passwords in the text of a job file."""

from __future__ import annotations

import pytest

from anabranch.manager.masking import masked


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
    ],
)
def test_what_is_written_literally_is_hidden_and_nothing_else(text: str, shown: str | None) -> None:
    assert masked(text) == (text if shown is None else shown)

"""Statements in psycopg's spelling, with numbers for libpq."""

from __future__ import annotations

from anabranch.connectors.postgresql.together import numbered


def test_places_are_numbered_and_percent_signs_are_their_own() -> None:
    assert numbered(b"SELECT 1") == b"SELECT 1"
    assert numbered(b'UPDATE t SET "no%%te" = %s, "%%s" = %s WHERE a = %s') == (
        b'UPDATE t SET "no%te" = $1, "%s" = $2 WHERE a = $3'
    )
    assert numbered(b"%%%s%%%%s") == b"%$1%%s"

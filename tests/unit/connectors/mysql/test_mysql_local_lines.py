"""Lines as LOAD DATA and INSERT read them: escapes that these servers do not have, literals, statements."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.connectors.mysql.target.load_data import Columns, way
from anabranch.connectors.mysql.target.local_lines import VALUE, NoRow, RowForm, for_load_data, key_text, row_literals
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.rows.lines import escaped_line, unescape
from anabranch.rows.net import TargetTable

# https://dev.mysql.com/doc/refman/8.0/en/load-data.html#load-data-field-line-handling; any other character stands for itself
KNOWN = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}
TABLE = TargetTable(
    TableId("shop", "t"),
    TableId("dest", "a`b"),
    ("id", "word", "data"),
    (LogicalType(Kind.INT32), LogicalType(Kind.TEXT), LogicalType(Kind.BINARY)),
    ("id",),
)


def read_as_load_data(field: bytes) -> str:
    """What the server makes of a field."""
    text, found, at = field.decode(), "", 0
    while at < len(text):
        if text[at] == "\\":
            at += 1
            found += KNOWN.get(text[at], text[at])
        else:
            found += text[at]
        at += 1
    return found


def copy_line(text: str) -> bytes:
    """A field as PostgreSQL's COPY writes it."""
    for raw, pair in (
        ("\\", "\\\\"),
        ("\b", "\\b"),
        ("\f", "\\f"),
        ("\n", "\\n"),
        ("\r", "\\r"),
        ("\t", "\\t"),
        ("\v", "\\v"),
    ):
        text = text.replace(raw, pair)
    return text.encode()


@given(st.text(alphabet="\\fvbtnrNZ0x'\f\v\b\t\n\r ü😀"))
def test_fields_of_copy_mean_the_same_to_load_data(text: str) -> None:
    assert read_as_load_data(for_load_data(copy_line(text))) == text
    assert unescape(for_load_data(copy_line(text))).decode() == text


def test_lines_without_such_escapes_are_passed_on_as_they_are() -> None:
    block = b"a\\tb\\\\c\n"
    assert for_load_data(block) is block


def test_a_block_with_bytes_of_no_text_is_read_pair_by_pair() -> None:
    assert for_load_data(b"\xff\\f\\\\f\\v\\\\\\v\n") == b"\xff\x0c\\\\f\x0b\\\\\x0b\n"


def test_rows_of_an_insert() -> None:
    form = RowForm.of([VALUE, f"UNHEX({VALUE})", f"IF({VALUE} LIKE '%x', {VALUE}, NULL)"])
    assert list(row_literals(b"1\tab\t\\N\n\\N\t\\N\tit's\n", form)) == [
        b"('1', UNHEX('ab'), IF(NULL LIKE '%x', NULL, NULL))",
        b"(NULL, UNHEX(NULL), IF('it''s' LIKE '%x', 'it''s', NULL))",
    ]


@pytest.mark.parametrize("text", ["\\N", "'\\N'", "''\\N''", "\\\\N", "N", "\\N'", "'", "NULL"])
def test_text_that_looks_like_null_in_a_literal_is_none(text: str) -> None:
    (row,) = row_literals(escaped_line([text]), RowForm.of([VALUE]))
    assert row.startswith(b"('") and row.endswith(b"')")
    assert read_as_load_data(row[2:-2].replace(b"''", b"'")) == text


@pytest.mark.parametrize("line", [b"1\n", b"1\t2\t3\n", b"\n"])
def test_a_line_with_another_number_of_fields_is_no_row(line: bytes) -> None:
    with pytest.raises(NoRow, match="fields, the table 2 columns"):
        list(row_literals(line, RowForm.of([VALUE, VALUE])))


def test_statements_name_what_goes_through_an_expression() -> None:
    made = way(TABLE, "mysql", Columns(frozenset({"word"})))
    assert made.load.endswith(
        "INTO TABLE `dest`.`a``b` CHARACTER SET utf8mb4 FIELDS TERMINATED BY '\\t' ENCLOSED BY '' ESCAPED BY '\\\\' "
        "LINES TERMINATED BY '\\n' STARTING BY '' (`id`, @c1, @c2) "
        "SET `word` = IFNULL(@c1, ''), `data` = UNHEX(SUBSTR(@c2, 3))"
    )
    assert made.insert == b"INSERT INTO `dest`.`a``b` (`id`, `word`, `data`) VALUES "
    assert made.form.text == b"('%b', IFNULL('%b', ''), UNHEX(SUBSTR('%b', 3)))"


def test_a_column_that_counts_is_set_where_any_other_is() -> None:
    counted = Columns(counted=frozenset({"id"}))
    assert way(TABLE, "mariadb", counted).load.endswith(
        "(@c0, `word`, @c2) SET `id` = @c0, `data` = UNHEX(SUBSTR(@c2, 3))"
    )
    plain = TargetTable(TABLE.source, TABLE.target, TABLE.columns[:2], TABLE.types[:2], TABLE.key)
    assert way(plain, "mariadb", counted).load.endswith("(`id`, `word`)")


def test_a_refused_row_is_named_by_its_key() -> None:
    assert key_text(TABLE, b"7\\t\tx\ty\n") == "key id=7\t"
    assert key_text(TABLE, b"") == "key id="
    keyless = TargetTable(TABLE.source, TABLE.target, TABLE.columns, TABLE.types, ())
    assert key_text(keyless, b"7\tx\ty\n") == "the row has no key"

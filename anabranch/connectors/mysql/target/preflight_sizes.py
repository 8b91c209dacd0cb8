"""Checks of tables that would be made: do their rows fit, do their keys, do texts of their keys compare as the source's do?

What does not live here: how sizes are counted (`row_sizes.py`), types (`preflight_types.py`), indexes that are not made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from anabranch.connectors.mysql.collations import compares_exactly
from anabranch.connectors.mysql.target import ddl, row_sizes
from anabranch.connectors.mysql.target.clauses import is_of_family
from anabranch.connectors.mysql.target.collations import PADDED, by_bytes
from anabranch.connectors.mysql.target.columns import MadeColumn, made_columns
from anabranch.connectors.mysql.target.key_lengths import check_lengths
from anabranch.connectors.mysql.target.names import target_columns
from anabranch.connectors.mysql.target.preflight_facts import Live
from anabranch.connectors.sql.findings import failed, some, toml, value_rules, warning
from anabranch.errors import TargetError
from anabranch.model.checks import CheckResult
from anabranch.model.datatype import Kind
from anabranch.rows.net import TargetTable

TEXT_KINDS = (Kind.TEXT, Kind.NATIVE)


def check_sizes(live: Live) -> Iterator[CheckResult]:
    rules = value_rules(live.context)
    page = live.number("innodb_page_size", row_sizes.PAGE)
    for table in live.new():
        schema = live.context.tables[table.source]
        try:
            columns = made_columns(schema, table, rules, live.release)
        except TargetError:
            continue  # a type that is refused: check_types says so
        computed = list(ddl.made_computed(schema, table, live.release))
        if not columns and not computed:
            hint = f"leave it out: [[rules]] exclude = [{toml(str(table.source))}]"
            yield failed("columns", "it would have no columns, and no MySQL or MariaDB has such a table", hint, table)
            continue
        stored, virtual = (
            [column for column, is_stored in computed if is_stored is wanted] for wanted in (True, False)
        )
        yield from row_size(table, [*columns, *stored], page, live.family, virtual)
        yield from _key_size(live, table, columns, page)
        yield from check_lengths(live.context, table, columns, live.release)


def row_size(
    table: TargetTable, columns: Sequence[MadeColumn], page: int, family: str, virtual: Sequence[MadeColumn] = ()
) -> Iterator[CheckResult]:
    """Check that the longest row fits, by both limits. `virtual`: columns that are computed when they are read."""
    hint = _shorter(table, [*columns, *virtual])
    if (found := row_sizes.row_bytes([*columns, *virtual])) > row_sizes.MOST:
        text = f"a row may need {found:,} bytes, the limit is {row_sizes.MOST:,} (long texts count only as pointers)"
        yield failed("row_size", text, hint, table)
    room = row_sizes.page_room(page)
    if (found := row_sizes.page_bytes(columns, table.key, family)) >= room:
        text = f"a row may need {found:,} bytes of a page, it has to be fewer than {room:,}"
        more = (
            f"{hint}, and the same for further columns until the row fits"
            if family == "mariadb"
            else "leave columns out ([[tables]] columns.drop)"
        )
        yield failed("row_size", text, more, table)


def _shorter(table: TargetTable, columns: Sequence[MadeColumn]) -> str:
    """Suggest another type for the longest column that is in no key."""
    open_ = [column for column in columns if column.name not in table.key]
    longest = max(open_ or columns, key=lambda column: row_sizes.row_bytes([column]))
    kind = "text" if longest.is_text else "blob"
    return f"[[tables]] name = {toml(str(table.source))}, columns.type = {{ {toml(longest.source)} = {toml(kind)} }}"


# Bytes of an index row by the size of a page; https://dev.mysql.com/doc/refman/8.0/en/innodb-limits.html
SMALL_PAGES = {4096: 768, 8192: 1536}


def _key_size(live: Live, table: TargetTable, columns: Sequence[MadeColumn], page: int) -> Iterator[CheckResult]:
    """Check that the primary key fits into an index row: 3,072 bytes, each of its columns 767 on releases before 5.7."""
    key = [column for column in columns if column.name in table.key]
    each = live.release.index_bytes
    room = SMALL_PAGES.get(page, max(each, 3072))
    lengths = {column.name: column.index_bytes for column in key}
    for column in key:
        length = lengths[column.name]
        if length is None or length > min(each, room):
            what = f"{column.native} of the primary key" + (
                f" may take {length:,} bytes" if length else " has no length"
            )
            text = f"{column.name}: {what}, {min(each, room):,} is the most"
            yield failed("key", text, _shorten_key(table, column, min(each, room)), table, [column.name])
            return
    total = sum(length or 0 for length in lengths.values())
    if total > room:
        text = f"the primary key ({', '.join(table.key)}) may take {total:,} bytes, {room:,} is the most"
        longest = max(key, key=lambda column: lengths[column.name] or 0)
        yield failed("key", text, _shorten_key(table, longest, room // len(key)), table, list(table.key))


def _shorten_key(table: TargetTable, column: MadeColumn, room: int) -> str:
    kind = f"varchar({room // 4})" if column.is_text else f"varbinary({room})"
    shorter = f"columns.type = {{ {toml(column.source)} = {toml(kind)} }}"
    return f"[[tables]] name = {toml(str(table.source))}, {shorter}: a longer value then stops the job"


def check_padding(live: Live) -> Iterator[CheckResult]:
    """Check for keys in which 'a' and 'a ' would be one value, where the server has no collation that tells them apart."""
    if by_bytes(live.release.collations) not in PADDED:
        return
    names = []
    for table in live.new():
        schema = live.context.tables[table.source]
        keys = {*schema.primary_key, *(name for index in schema.indexes if index.unique for name in index.columns)}
        for source, target in target_columns(table).items():
            column = schema.column(source)
            is_text = table.type_of(target).kind in TEXT_KINDS
            if source in keys and is_text and (not is_of_family(schema) or compares_exactly(column)):
                names.append(f"{table.source}.{source}")
    if names:
        text = (
            "the target has no collation in which 'a' and 'a ' differ: two keys that differ only in blanks at the end stop the "
            f"job ({some(names)})"
        )
        yield warning("collations", text, "use MySQL 8.0.17 or later, or MariaDB", names=names)

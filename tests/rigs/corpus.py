"""Files of tests/changes: statements, and the changes that the log must give for them.

    ## a title: a section
    CREATE TABLE t (…);                 what is there before the log is read
    ---
    INSERT INTO t VALUES (1, 'a');      what is read
    -> insert t (1, 'a')                a change, in the order of the log
    +> insert u (1)                     one of the same transaction as the line before
    @two BEGIN;                         on another connection, by its name
    INSERT INTO t VALUES (1, 'b');
    -> error 1062                       the statement is refused: MySQL's number, PostgreSQL's SQLSTATE

`-> update t (1, 'a') to (1, 'b')`, `-> delete t (1, 'a')`, a `-` for a column that the image does not carry, a `~` for a
value that the log left out because it did not change; values as the text form of lines has them, long ones by how they
begin and how long they are. Statements of the log that are not harmless come as their facts: `-> truncate t`. A table
that the log contradicts: `-> park t`. Lines under the title:

    only: mysql             on this server, or with this decoder of PostgreSQL; a line for each
    needs: FEATURE          testing/features.py, and FEATURES of test_postgresql_changes.py
    since: 15, before: 9    releases of MySQL or PostgreSQL, by their first number
    data: 1,a|2,b           rows of a file, for which {data} stands; of PostgreSQL what COPY … FROM STDIN is given

What does not live here: connections, and how a log is followed (test_mysql_live_log_corpus.py, test_postgresql_changes.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from anabranch.contracts import Dialect
from anabranch.model.datatype import LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.chunk import META, Chunk, Op, Shape, TableRows
from anabranch.rows.lines import lines
from anabranch.rows.log_items import LogStatement

FILES = Path(__file__).parents[1] / "changes"
MARK = "corpus_mark"  # a row of it stands between two sections
HARMLESS = ("harmless", "create")
LONG = 100  # characters of a value from which on it is shown by how it begins
FACT = re.compile(r"^(only|needs|since|before|data): (.*)$", re.MULTILINE)


@dataclass
class Step:
    """A statement with the lines that follow it."""

    sql: str
    connection: str = ""
    expected: list[str] = field(default_factory=list)

    @property
    def error(self) -> str:
        found = [line for line in self.expected if line.startswith("-> error ")]
        return found[0].rpartition(" ")[2] if found else ""

    @property
    def changes(self) -> list[str]:
        return [line for line in self.expected if not line.startswith("-> error ")]


@dataclass
class Section:
    title: str
    facts: dict[str, list[str]] = field(default_factory=dict)
    before: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def is_for(self, release: int) -> bool:
        """Is it one of the releases that it names, if it names any?"""
        since, before = (self.facts.get(name, []) for name in ("since", "before"))
        return all(release >= int(one) for one in since) and all(release < int(one) for one in before)

    @property
    def data(self) -> str:
        return "".join(row + "\n" for line in self.facts.get("data", []) for row in line.split("|"))


def files(server: str) -> list[Path]:
    return sorted((FILES / server).glob("*.sql"))


def read(path: Path) -> list[Section]:
    return [_section(text) for text in re.split(r"^## ", path.read_text(), flags=re.MULTILINE)[1:]]


def _section(text: str) -> Section:
    title, _, rest = text.partition("\n")
    before, line, after = rest.partition("\n---\n")
    assert line, f"section {title!r} has no ---"
    section = Section(title)
    for name, value in FACT.findall(before):
        section.facts.setdefault(name, []).append(value)
    section.before = [step.sql for step in _steps(FACT.sub("", before))]
    section.steps = list(_steps(after))
    return section


def _steps(text: str) -> Iterator[Step]:
    """A statement ends with a semicolon at the end of a line that is not between $$ and $$; one of MySQL with BEGIN at the end
    of its first line, with END;."""
    step: Step | None = None
    held: list[str] = []
    for line in text.splitlines():
        if line.startswith(("-> ", "+> ")):
            assert step is not None and not held, f"{line!r} follows no statement"
            step.expected.append(line)
        elif line.strip() and not (line.startswith("# ") and not held):
            held.append(line)
            is_block = re.match(r"(@\w+ )?CREATE (PROCEDURE|TRIGGER|FUNCTION)\b.*\bBEGIN$", held[0])
            is_quoted = sum(one.count("$$") for one in held) % 2 == 1
            if line.rstrip() == "END;" if is_block else line.rstrip().endswith(";") and not is_quoted:
                if step is not None:
                    yield step
                step, held = _step("\n".join(held)), []
    assert not held, f"{held!r} does not end"
    if step is not None:
        yield step


def _step(text: str) -> Step:
    named = re.match(r"@(\w+) ", text)
    return Step(text[named.end() if named else 0 :].rstrip().removesuffix(";"), named[1] if named else "")


# --- running it -------------------------------------------------------------------------------------------------------


def run(section: Section, connect: Callable[[], Any], execute: Callable[[Any, str], str]) -> None:
    """The statements in their order, each on the connection that it names: `connect()` makes it, its `close` ends it. `execute`
    carries a statement out on one, and returns the code of the server's error, "" for none."""
    connections: dict[str, Any] = {}
    try:
        for step in section.steps:
            if step.connection not in connections:
                connections[step.connection] = connect()
            found = execute(connections[step.connection], step.sql)
            assert found == step.error, f"{section.title}: {step.sql}: error {found!r}, not {step.error!r}"
    finally:
        for connection in connections.values():
            connection.close()


def differences(section: Section, found: Sequence[str]) -> Iterator[str]:
    """Where the first difference is, and what is there."""
    expected = [(step.sql, line) for step in section.steps for line in step.changes]
    for (sql, wanted), line in zip_longest(expected, found, fillvalue=("", "")):
        if wanted != line:
            yield f"{section.title}: {sql}\n  expected {wanted}\n  found    {line}\n  all of it:\n    " + "\n    ".join(
                found
            )
            return


# --- what the log gave ------------------------------------------------------------------------------------------------


def told(
    items: Sequence[Chunk | LogStatement], tables: Mapping[TableId, TableSchema], dialect: Dialect, schema: str
) -> list[list[str]]:
    """Lines in the order of the log, cut where the marks stand."""
    sections: list[list[str]] = [[]]
    for item in items:
        found = _statement(item, dialect, schema) if isinstance(item, LogStatement) else _chunk(item, tables)
        for line in found:
            if f" {MARK} " in line:
                sections.append([])
            else:
                sections[-1].append(line)
    return sections


def _statement(item: LogStatement, dialect: Dialect, schema: str) -> Iterator[str]:
    facts = dialect.facts(item.sql, item.schema)
    if facts.kind not in HARMLESS:
        names = ", ".join(table.name if table.schema == schema else str(table) for table in facts.tables)
        yield f"-> {facts.kind} {names}".rstrip()


def _chunk(chunk: Chunk, tables: Mapping[TableId, TableSchema]) -> Iterator[str]:
    """Row images and barriers over all tables, by transaction and ordinal: a barrier comes before the row of its ordinal."""
    found = [(tx, ordinal, 1, text) for rows in chunk.tables for tx, ordinal, text in _images(rows, tables[rows.table])]
    found += [(one.tx, one.ordinal, 0, f"{one.kind.value} {one.table.name}") for one in chunk.barriers]
    last = -1
    for tx, _, _, text in sorted(found):
        yield f"{'+>' if tx == last else '->'} {text}"
        last = tx


def _images(rows: TableRows, schema: TableSchema) -> Iterator[tuple[int, int, str]]:
    meta = rows.batch.select(list(range(META))).to_pydict()
    texts = [_texts(column.type, rows.batch.column(META + i)) for i, column in enumerate(schema.columns)]
    before = ""
    for row in range(rows.batch.num_rows):
        image = _image([column[row] for column in texts], rows.shapes[meta["_shape"][row]])
        op, place = Op(meta["_op"][row]), (meta["_tx"][row], meta["_ordinal"][row])
        if op is Op.BEFORE:
            before = image
        elif op is Op.AFTER:
            yield (*place, f"update {rows.table.name} {before} to {image}")
        else:
            yield (*place, f"{op.name.lower()} {rows.table.name} {image}")


def _image(texts: Sequence[str], shape: Shape) -> str:
    unchanged = shape.unchanged or (False,) * len(texts)
    values = zip(texts, shape.present, unchanged, strict=True)
    return f"({', '.join('~' if same else text if there else '-' for text, there, same in values)})"


def _texts(type: LogicalType | None, column: Any) -> list[str]:
    """A column's values: numbers as they are, all others in quotes. One without a type is never in an image."""
    if type is None:
        return ["-"] * len(column)
    is_number = type.carried.startswith(("int", "uint", "float", "decimal", "year"))
    return [_shown(value.decode(), is_number) for value in lines([type], [column]).split(b"\n")[:-1]]


def _shown(text: str, is_number: bool) -> str:
    if text == "\\N":
        return "NULL"
    if len(text) > LONG:
        text = f"{text[:10]}… {len(text)}"
    return text if is_number else "'" + text.replace("'", "''") + "'"

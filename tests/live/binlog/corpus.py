"""Files of tests/changes/mysql: statements, and the changes that the log must give for them.

    ## a title: a section
    CREATE TABLE t (…);                 what is there before the log is read
    ---
    INSERT INTO t VALUES (1, 'a');      what is read
    -> insert t (1, 'a')                a change, in the order of the log
    +> insert u (1)                     one of the same transaction as the line before
    @two BEGIN;                         on another connection, by its name
    INSERT INTO t VALUES (1, 'b');
    -> error 1062                       the statement is refused

`-> update t (1, 'a') to (1, 'b')`, `-> delete t (1, 'a')`, a `-` for a column that the image does not carry; values as the
text form of lines has them. Statements of the log that are not harmless come as their facts: `-> truncate t`. A table
that the log contradicts: `-> park t`. Under the title `only: mysql`, `only: mariadb`, `needs: FEATURE` (testing/features.py),
`before: 9` (releases of MySQL) or `data: 1,a|2,b`: rows of a file, for which {data} stands.
What does not live here: running them (test_mysql_live_log_corpus.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anabranch.abc import Dialect
from anabranch.model.datatype import LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.chunk import META, BarrierKind, Chunk, Op, TableRows
from anabranch.rows.lines import lines
from anabranch.rows.log_items import LogStatement

FILES = Path(__file__).parents[2] / "changes" / "mysql"
MARK = "corpus_mark"  # a row of it stands between two sections
HARMLESS = ("harmless", "create")


@dataclass
class Step:
    """A statement with the lines that follow it."""

    sql: str
    connection: str = ""
    expected: list[str] = field(default_factory=list)

    @property
    def error(self) -> int | None:
        found = [line for line in self.expected if line.startswith("-> error ")]
        return int(found[0].rpartition(" ")[2]) if found else None

    @property
    def changes(self) -> list[str]:
        return [line for line in self.expected if not line.startswith("-> error ")]


@dataclass
class Section:
    title: str
    facts: dict[str, list[str]] = field(default_factory=dict)
    before: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)


def read(path: Path) -> list[Section]:
    return [_section(text) for text in re.split(r"^## ", path.read_text(), flags=re.MULTILINE)[1:]]


def _section(text: str) -> Section:
    title, _, rest = text.partition("\n")
    before, line, after = rest.partition("\n---\n")
    assert line, f"section {title!r} has no ---"
    section = Section(title)
    for name, value in re.findall(r"^(only|needs|before|data): (.*)$", before, re.MULTILINE):
        section.facts.setdefault(name, []).append(value)
    before = re.sub(r"^(only|needs|before|data): .*$", "", before, flags=re.MULTILINE)
    section.before = [step.sql for step in _steps(before)]
    section.steps = list(_steps(after))
    return section


def _steps(text: str) -> Iterator[Step]:
    """A statement ends with a semicolon at the end of a line; one with BEGIN in its first line, with END;."""
    step: Step | None = None
    held: list[str] = []
    for line in text.splitlines():
        if line.startswith(("-> ", "+> ")):
            assert step is not None and not held, f"{line!r} follows no statement"
            step.expected.append(line)
        elif line.strip() and not (line.startswith("# ") and not held):
            held.append(line)
            is_block = re.match(r"(@\w+ )?CREATE (PROCEDURE|TRIGGER|FUNCTION)\b.*\bBEGIN$", held[0])
            if line.rstrip() == "END;" if is_block else line.rstrip().endswith(";"):
                if step is not None:
                    yield step
                step, held = _step("\n".join(held)), []
    assert not held, f"{held!r} does not end"
    if step is not None:
        yield step


def _step(text: str) -> Step:
    named = re.match(r"@(\w+) ", text)
    return Step(text[named.end() if named else 0 :].rstrip().removesuffix(";"), named[1] if named else "")


# --- what the log gave ------------------------------------------------------------------------------------------------


def told(
    items: Sequence[Chunk | LogStatement], dialect: Dialect, tables: Mapping[TableId, TableSchema], schema: str
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
    """Row images and barriers over all tables, by transaction and ordinal."""
    found = [image for rows in chunk.tables for image in _images(rows, tables[rows.table])]
    found += [
        (barrier.tx, barrier.ordinal, f"park {barrier.table.name}")
        for barrier in chunk.barriers
        if barrier.kind is BarrierKind.PARK
    ]
    last = -1
    for tx, _, text in sorted(found):
        yield f"{'+>' if tx == last else '->'} {text}"
        last = tx


def _images(rows: TableRows, schema: TableSchema) -> Iterator[tuple[int, int, str]]:
    meta = rows.batch.select(list(range(META))).to_pydict()
    texts = [_texts(column.type, rows.batch.column(META + i)) for i, column in enumerate(schema.columns)]
    before = ""
    for row in range(rows.batch.num_rows):
        present = rows.shapes[meta["_shape"][row]].present
        image = f"({', '.join(column[row] if there else '-' for column, there in zip(texts, present, strict=True))})"
        op, place = Op(meta["_op"][row]), (meta["_tx"][row], meta["_ordinal"][row])
        if op is Op.BEFORE:
            before = image
        elif op is Op.AFTER:
            yield (*place, f"update {rows.table.name} {before} to {image}")
        else:
            yield (*place, f"{op.name.lower()} {rows.table.name} {image}")


def _texts(type: LogicalType | None, column: Any) -> list[str]:
    """A column's values: numbers as they are, all others in quotes."""
    assert type is not None, "a refused type has no place in the corpus"
    is_number = type.kind.startswith(("int", "uint", "float", "decimal", "year"))
    return [_shown(value.decode(), is_number) for value in lines([type], [column]).split(b"\n")[:-1]]


def _shown(text: str, is_number: bool) -> str:
    if text == "\\N":
        return "NULL"
    return text if is_number else "'" + text.replace("'", "''") + "'"

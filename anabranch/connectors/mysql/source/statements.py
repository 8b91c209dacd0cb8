"""Meaning of logged statements for replicated tables: classified by the verb, never carried out, never refused.

Reading words is enough for that, so nothing is parsed into a tree. Executed comments (`/*!40000 … */`, `/*M! … */`) are
text like any other. https://dev.mysql.com/doc/refman/8.0/en/sql-statements.html ·
https://mariadb.com/kb/en/sql-statements/ What does not live here: cutting into tokens (statement_tokens.py), tables of words
(statement_words.py), what the engine then does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, pairwise

from anabranch.connectors.mysql.source import (
    altered_columns,
    built_clauses,
    check_clauses,
    copied_tables,
    created_tables,
    index_clauses,
)
from anabranch.connectors.mysql.source.column_clauses import Unknown
from anabranch.connectors.mysql.source.comment_clauses import comment_of
from anabranch.connectors.mysql.source.kinds_beside import kind_of_index, kinds_beside, rows_only_go
from anabranch.connectors.mysql.source.statement_tokens import TOKEN, Token, tokens
from anabranch.connectors.mysql.source.statement_words import (
    ACTING,
    BEFORE_TABLE,
    CONSTRAINTS,
    DATA,
    DEFINES,
    EMPTIED_BY_RESTART,
    ENGINES,
    HARMLESS,
    KEEPING,
    KEEPING_WITH,
    MODIFIERS,
    OBJECTS,
    SEQUENCE_FUNCTIONS,
    VANISHING,
)
from anabranch.model.column_changes import Altered
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.log_items import StatementFacts, StatementKind

_VALUE = re.compile(r"[0-9]{2,}|[0-9]+[eE][0-9]*|0x[0-9a-fA-F]+|0b[01]+")
# A quote that a backslash escapes, or not: https://dev.mysql.com/doc/refman/8.0/en/sql-mode.html#sqlmode_no_backslash_escapes
_ENDS_BY_MODE = re.compile(r"""\\['"]""")
# What a name cannot have: MySQL writes a question mark for it, MariaDB refuses the statement.
# https://dev.mysql.com/doc/refman/8.0/en/identifiers.html
_BEYOND = re.compile("[\U00010000-\U0010ffff]")
SHOWN = 500  # characters of a statement that people are shown
_HARMLESS = StatementFacts(StatementKind.HARMLESS)


class MysqlDialect:
    """Dialect of the family. `folds_names`: the server compares names of tables in lower case
    (`lower_case_table_names = 1`); the catalogue says so as soon as it is opened. `family`: mysql or mariadb."""

    def __init__(self) -> None:
        self.folds_names, self.family = False, "mysql"

    def facts(self, sql: str, default_schema: str) -> StatementFacts:
        found = self._facts(list(tokens(sql)), default_schema)
        if found.kind is not StatementKind.ALTER or not _ENDS_BY_MODE.search(sql):
            return found
        other = self._facts(list(tokens(sql, escapes=False)), default_schema)  # a text may hide a clause
        gone, checks = (*found.gone_indexes, *other.gone_indexes), (*found.gone_checks, *other.gone_checks)
        is_about = found.indexes or other.indexes or bool(gone)
        return replace(found, indexes=is_about, gone_indexes=gone, gone_checks=checks)

    def _facts(self, tokens: list[Token], default_schema: str) -> StatementFacts:
        statement = _Statement(tokens, default_schema, self.folds_names)
        try:
            return statement.facts()
        except IndexError:  # it ends where a name is expected
            return StatementFacts(StatementKind.DATA if statement.changes_rows() else StatementKind.UNKNOWN)

    def shown(self, sql: str) -> str:
        return shown(sql)

    def altered(self, sql: str, default_schema: str, then: TableSchema, now: TableSchema) -> Altered | None:
        if _ENDS_BY_MODE.search(sql):
            return None  # a text that ends elsewhere may hide a clause
        found = list(tokens(sql))
        try:
            kind = _Statement(found, default_schema, self.folds_names).facts().kind
            if kind is StatementKind.ALTER:
                inner = _of_table(_behind_set(found), then, self.folds_names)
                return altered_columns.indexed(inner.clauses_of_alter(), then, now, self.family, inner.table_of)
            clauses = _Statement(found, default_schema, self.folds_names).clauses_of_alter()
            return altered_columns.behind(clauses, then, now, self.family)
        except (IndexError, ValueError, ArithmeticError):  # a text that no server takes: it parks, and capture goes on
            return None

    def built(self, sql: str, default_schema: str, then: TableSchema, now: TableSchema) -> Altered | None:
        if _ENDS_BY_MODE.search(sql):
            return None
        statement = _of_table(list(tokens(sql)), then, self.folds_names)
        try:
            return built_clauses.behind(statement.clauses_of_alter(), then, now, statement.table_of)
        except (IndexError, ValueError, ArithmeticError):
            return None

    def creates(self, sql: str, default_schema: str, now: TableSchema, known: Mapping[TableId, TableSchema]) -> bool:
        if _ENDS_BY_MODE.search(sql):
            return False
        statement = _Statement(list(tokens(sql)), default_schema, self.folds_names)
        try:
            return statement.creates(now, known)
        except (IndexError, ValueError, ArithmeticError, Unknown):
            return False

    def copies(self, sql: str, default_schema: str, then: TableSchema) -> bool:
        if _ENDS_BY_MODE.search(sql):
            return False
        statement = _Statement(list(tokens(sql)), default_schema, self.folds_names)
        try:
            return statement.copies(then)
        except (IndexError, ValueError):
            return False

    def copy_altered(self, sql: str, default_schema: str, then: TableSchema, now: TableSchema) -> Altered | None:
        if _ENDS_BY_MODE.search(sql):
            return None
        found = list(tokens(sql))
        if copied_tables.may_lose_rows(found):
            return None
        try:
            clauses = _Statement(found, default_schema, self.folds_names).clauses_of_alter()
            return copied_tables.behind(clauses, then, now)
        except (IndexError, ValueError, ArithmeticError):
            return None

    def foreseen(self, sql: str, default_schema: str, then: TableSchema) -> TableSchema | None:
        from anabranch.connectors.mysql.source.foreseen import foreseen, with_checks  # capture never asks

        if _ENDS_BY_MODE.search(sql):
            return None
        statement = _Statement(_behind_set(list(tokens(sql))), default_schema, self.folds_names)
        try:
            clauses = statement.clauses_of_alter()
            if self.facts(sql, default_schema).kind is StatementKind.ALTER:  # columns stay
                comment = comment_of(clauses)
                then = with_checks(check_clauses.read(clauses), then, self.family)
                return then if comment is None else replace(then, comment=comment)
            return foreseen(clauses, then, self.family)
        except (IndexError, ValueError, ArithmeticError, Unknown):
            return None


def shown(sql: str) -> str:
    """Return the statement without texts, comments and hexadecimal values; numbers stay in what defines tables (they are sizes
    there), elsewhere those of one digit only. Where a text may end at one of two places, the rest is left out."""
    is_definition = MysqlDialect().facts(sql, "").kind in DEFINES
    parts: list[str] = []
    for found in TOKEN.finditer(sql[: 4 * SHOWN]):
        parts.append(_shown(found, is_definition))
        if _ENDS_BY_MODE.search(found[0]):
            break
    short = "".join(parts).strip()
    return short if len(short) <= SHOWN else f"{short[:SHOWN]} …"


def _shown(found: re.Match[str], keeps_numbers: bool) -> str:
    kind, text = found.lastgroup, found[0]
    if kind == "string":
        return f"{text[0]}…{text[0]}"
    if kind == "space":
        return text if text.isspace() else " "
    hides = kind == "word" and _VALUE.fullmatch(text) and not (keeps_numbers and text.isdigit())
    return "…" if hides else text


class _Statement:
    """Tokens with a place: reading goes on from there."""

    def __init__(self, tokens: list[Token], schema: str, folds: bool) -> None:
        self.tokens, self.schema, self.folds = tokens, schema, folds
        self.at = 0

    def facts(self) -> StatementFacts:
        while self._mark("("):
            self.at += 1
        verb = self._analyzed() or self._word()
        if not self.tokens or verb in HARMLESS:
            return self._after_set_statement() if verb == "SET" else _HARMLESS
        if verb in DATA:
            return self._data(verb)
        read = _VERBS.get(verb)
        if read is None:
            return StatementFacts(StatementKind.UNKNOWN)
        self.at += 1
        return read(self)

    def changes_rows(self) -> bool:
        """Return whether the statement may change rows and no definition: comparing these shows nothing of it."""
        words = (token.word for token in _behind_set(self.tokens) if token.word)
        return next(words, "") in DATA | {"ANALYZE", "TRUNCATE"}

    # --- verbs --------------------------------------------------------------------------------------------------

    def truncate(self) -> StatementFacts:
        self._skip("TABLE")
        return StatementFacts(StatementKind.TRUNCATE, (self._table(),))

    def rename(self) -> StatementFacts:
        if self._object() not in ("TABLE", "TABLES"):
            return _HARMLESS
        self._skip_if_exists()
        names = tuple(self._names(separators=("TO",)))
        pairs = tuple(zip(names[::2], names[1::2], strict=False))
        return StatementFacts(StatementKind.RENAME, names, renames=pairs)

    def drop(self) -> StatementFacts:
        is_temporary = self._word() == "TEMPORARY"
        kind = self._object()
        if kind in ("DATABASE", "SCHEMA"):
            self._skip_if_exists()
            return StatementFacts(StatementKind.UNKNOWN, schema=self._folded(self._next_name()))
        if kind == "INDEX":
            return self._index()
        if kind not in ("TABLE", "TABLES") or is_temporary:
            return _HARMLESS if kind else StatementFacts(StatementKind.UNKNOWN)
        self._skip_if_exists()
        return StatementFacts(StatementKind.DROP, tuple(self._names()))

    def create(self) -> StatementFacts:
        start = self.at
        kind = self._object()
        before = {token.word for token in self.tokens[start : self.at]}
        if kind in ("DATABASE", "SCHEMA"):
            self._skip_if_exists()
            schema = self._folded(self._next_name()) if "REPLACE" in before else ""
            return StatementFacts(StatementKind.UNKNOWN, schema=schema) if schema else _HARMLESS
        if kind == "INDEX":
            return self._index()
        if kind != "TABLE" or "TEMPORARY" in before:
            return _HARMLESS if kind else StatementFacts(StatementKind.UNKNOWN)
        self._skip_if_exists()
        if "REPLACE" in before:
            return StatementFacts(StatementKind.DROP, (self._table(),), makes_anew=True)
        return StatementFacts(StatementKind.CREATE, (self._table(),))

    def alter(self) -> StatementFacts:
        start = self.at
        kind = self._object()
        if kind in ("DATABASE", "SCHEMA") and [self._word(at) for at in (1, 2)] == ["UPGRADE", "DATA"]:
            # UPGRADE DATA DIRECTORY NAME: it gets another one, with all of its tables
            return StatementFacts(StatementKind.UNKNOWN, schema=self._folded(self._next_name()))
        if kind != "TABLE":
            return _HARMLESS if kind else StatementFacts(StatementKind.UNKNOWN)
        is_ignoring = "IGNORE" in {token.word for token in self.tokens[start : self.at]}  # drops rows that are double
        self._skip_if_exists()
        table = self._table()
        self._skip_wait()
        clauses = list(self._clauses())
        renamed, partition = self._renamed_to(clauses), self._lost_partition(clauses)
        if partition is not None:
            goes = not is_ignoring and rows_only_go([self.tokens[at:] for at, _ in clauses])
            return StatementFacts(StatementKind.PARTITION, (table, *partition, *renamed), rows_go=goes)
        if renamed:
            alone = ((table, renamed[0]),) if len(clauses) == 1 else ()
            return StatementFacts(StatementKind.RENAME, (table, *renamed), renames=alone)
        stops = [*(at for at, _ in clauses[1:]), len(self.tokens)]
        parts = [self.tokens[at:stop] for (at, _), stop in zip(clauses, stops, strict=False)]
        gone = index_clauses.gone_names(parts)
        if is_ignoring or not self._keep_columns(clauses):
            return StatementFacts(StatementKind.COLUMNS, (table,), gone_indexes=gone)
        dropped = tuple(self._dropped_keys(clauses))
        indexes = any(map(index_clauses.is_about_index, parts))
        return StatementFacts(
            StatementKind.ALTER,
            (table,),
            engine=self._given_engine(clauses),
            dropped_keys=dropped,
            indexes=indexes,
            beside=kinds_beside(parts),
            gone_indexes=gone,
            gone_checks=check_clauses.gone_names(parts),
        )

    def clauses_of_alter(self) -> list[list[Token]]:
        """Return the tokens of each clause of ALTER TABLE, CREATE INDEX and DROP INDEX as such; none of any other
        statement, or of one that may drop rows."""
        if self._word() in ("CREATE", "DROP"):
            return index_clauses.of_create(self.tokens) or index_clauses.of_drop(self.tokens)
        online = self._word(1) == "ONLINE"  # of a MariaDB: the same without a lock
        if self._word() != "ALTER" or self._word(1 + online) != "TABLE":
            return []
        self.at = 2 + online
        self._skip_if_exists()
        self._table()
        self._skip_wait()
        starts = [at for at, _ in self._clauses()]
        end = len(self.tokens) - (self.tokens[-1].text == ";")
        stops = [at - 1 for at in starts[1:]]
        return [self.tokens[at:stop] for at, stop in zip(starts, [*stops, end], strict=False)]

    def creates(self, now: TableSchema, known: Mapping[TableId, TableSchema]) -> bool:
        """Return whether this is CREATE TABLE with which makes just `now`, or LIKE a table that is so, without rows.
        IF NOT EXISTS may have made nothing: the table may have rows that the job has not read."""
        if (self._word(), self._word(1)) != ("CREATE", "TABLE") or self._word(2) == "IF":
            return False
        self.at = 2
        self._table()
        is_inside = self._mark("(")
        self.at += is_inside
        if self._word() == "LIKE":
            self.at += 1
            like = known.get(self._table())
            return like is not None and created_tables.is_like(like, now)
        return is_inside and created_tables.makes(self.tokens[self.at :], now, known.values())

    def copies(self, then: TableSchema) -> bool:
        """Return whether this is CREATE TABLE … LIKE `then`, or with just its columns, and no rows. IF NOT EXISTS may make
        nothing."""
        if (self._word(), self._word(1)) != ("CREATE", "TABLE") or self._word(2) == "IF":
            return False
        self.at = 2
        self._table()
        is_inside = self._mark("(")
        self.at += is_inside
        if self._word() == "LIKE":
            self.at += 1
            return self._table() == then.id
        return is_inside and copied_tables.has_columns_of(self.tokens[self.at :], then)

    # --- parts of statements ------------------------------------------------------------------------------------

    def _analyzed(self) -> str:
        """Return the verb of what MariaDB's ANALYZE carries out (https://mariadb.com/kb/en/analyze-statement/), or ""."""
        if self._word() != "ANALYZE":
            return ""
        at = 1 if self._word(1) != "FORMAT" else (4 if self._mark("=", 2) else 3)
        verb = self._word(at)
        if verb not in DATA:
            return ""  # a table
        self.at += at
        return verb

    def _after_set_statement(self) -> StatementFacts:
        """Classify the statement in MariaDB's SET STATEMENT variable = value FOR statement."""
        inner = _behind_set(self.tokens)
        return _HARMLESS if inner is self.tokens else _Statement(inner, self.schema, self.folds).facts()

    def _index(self) -> StatementFacts:
        """Classify CREATE or DROP INDEX … ON table."""
        words = [token.word for token in self.tokens]
        if "ON" not in words[self.at :]:
            return StatementFacts(StatementKind.UNKNOWN)
        kind = StatementKind.COLUMNS if self._is_primary(self.at) else StatementKind.ALTER
        is_plain = kind is StatementKind.ALTER and {"FULLTEXT", "SPATIAL"}.isdisjoint(words[:4])
        about: tuple[str, ...] = (kind_of_index(words[:4]),)
        gone: tuple[str, ...] = ()
        if words[0] == "DROP" or "REPLACE" in words[: self.at]:
            gone = index_clauses.gone_names([[Token("word", "DROP"), Token("word", "INDEX"), *self.tokens[self.at :]]])
        table = self._table_at(words.index("ON", self.at) + 1)
        return StatementFacts(kind, (table,), indexes=is_plain, beside=about, gone_indexes=gone)

    def _is_primary(self, at: int) -> bool:
        """Return whether the index that is named here is the primary key."""
        while self.tokens[at].word in ("IF", "EXISTS"):
            at += 1
        return self.tokens[at].text.upper() == "PRIMARY"

    def _keep_columns(self, clauses: Sequence[tuple[int, Token]]) -> bool:
        """Return whether the clauses of ALTER TABLE leave columns, keys and values as they are."""
        for at, token in clauses:
            second = self.tokens[at + 1].word if at + 1 < len(self.tokens) else ""
            if not self._keeps_columns(at, token, second):
                return False
            if "PARTITION" in (token.word, second):  # the last clause: what follows a comma is another partition
                return True
        return True

    def _keeps_columns(self, at: int, first: Token, second: str) -> bool:
        if first.word == "ADD" and second in ("CONSTRAINT", "FOREIGN"):
            kind = next((t.word for t in self.tokens[at + 1 :] if t.word in CONSTRAINTS), "")
            return kind in ("CHECK", "UNIQUE") or (kind == "FOREIGN" and not self._acts(at))
        if first.word == "ALTER" and self._sets_default(at):
            return False
        if first.word in KEEPING_WITH:
            is_key = first.word == "DROP" and second != "CHECK"
            return second in KEEPING_WITH[first.word] and not (is_key and self._is_primary(at + 2))
        return first.word in KEEPING

    def _sets_default(self, at: int) -> bool:
        """Return whether the clause is ALTER [COLUMN] name SET DEFAULT … or DROP DEFAULT."""
        words = [token.word for token in self.tokens[at : at + 5]]
        return any(pair in (("SET", "DEFAULT"), ("DROP", "DEFAULT")) for pair in pairwise(words))

    def _acts(self, at: int) -> bool:
        """Return whether the foreign key that the clause adds changes rows itself."""
        for place in range(at, len(self.tokens) - 2):
            token = self.tokens[place]
            if not token.depth and token.kind == "mark" and token.text == ",":
                return False
            if token.word == "ON" and self.tokens[place + 2].word in ACTING:
                return True
        return False

    def _dropped_keys(self, clauses: Sequence[tuple[int, Token]]) -> Iterator[str]:
        """Yield the names in DROP FOREIGN KEY and DROP CONSTRAINT."""
        for at, token in clauses:
            if token.word == "DROP" and (second := self.tokens[at + 1].word) in ("CONSTRAINT", "FOREIGN"):
                self.at = at + (2 if second == "CONSTRAINT" else 3)
                self._skip_if_exists()
                yield self._next_name()

    def _given_engine(self, clauses: Sequence[tuple[int, Token]]) -> str:
        """Find ENGINE [=] name among the options of the table, which need no commas."""
        stops = [*(at for at, _ in clauses[1:]), len(self.tokens)]
        for (at, first), stop in zip(clauses, stops, strict=False):
            found = [i for i in range(at, stop) if self.tokens[i].word == "ENGINE" and not self.tokens[i].depth]
            if found and first.word not in ("ALTER", *KEEPING_WITH):
                self.at = found[0] + 1
                self._skip("=")
                name = self._next_name().upper()
                return ENGINES.get(name, name)
        return ""

    def _renamed_to(self, clauses: Sequence[tuple[int, Token]]) -> list[TableId]:
        """Find the names of ALTER TABLE … RENAME [TO | AS | =] name, and not RENAME COLUMN, INDEX or KEY."""
        found = []
        for at, token in clauses:
            if token.word == "RENAME" and self.tokens[at + 1].word not in ("COLUMN", "INDEX", "KEY"):
                self.at = at + 1
                self._skip("TO", "AS", "=")
                found.append(self._table())
        return found

    def _lost_partition(self, clauses: Sequence[tuple[int, Token]]) -> list[TableId] | None:
        """Return tables that a partition clause names beside the altered one; None when no clause takes rows away."""
        for at, token in clauses:
            following = self.tokens[at + 1].word if at + 1 < len(self.tokens) else ""
            if token.word in ("DISCARD", "IMPORT") and following == "TABLESPACE":
                return []
            if token.word in VANISHING and following == "PARTITION":
                return [self._table_at(i + 1) for i in range(at, len(self.tokens)) if self._names_other_table(i)]
            if token.word == "CONVERT" and following == "TABLE":
                return [self._table_at(at + 2)]
        return None

    def _names_other_table(self, at: int) -> bool:
        """Return whether this is EXCHANGE PARTITION p WITH TABLE t, or CONVERT PARTITION p TO TABLE t."""
        return self.tokens[at].word == "TABLE" and self.tokens[at - 1].word in ("WITH", "TO")

    def _clauses(self) -> Iterator[tuple[int, Token]]:
        """Yield the first words of the clauses of ALTER TABLE, which commas separate."""
        for at in range(self.at, len(self.tokens)):
            token, before = self.tokens[at], self.tokens[at - 1]
            if not token.depth and (at == self.at or (before.kind, before.text) == ("mark", ",")):
                yield at, token

    def _data(self, verb: str) -> StatementFacts:
        if verb in ("SELECT", "DO", "CALL"):
            words = {token.word for token in self.tokens}
            return _HARMLESS if verb != "CALL" and words & SEQUENCE_FUNCTIONS else StatementFacts(StatementKind.DATA)
        self.at += 1
        while self._word() in MODIFIERS:
            self.at += 1
        if verb in ("INSERT", "REPLACE"):
            self._skip("INTO")
            return StatementFacts(StatementKind.DATA, (self._table(),))
        if verb == "DELETE" and self._is_all_of_one_table():
            return StatementFacts(StatementKind.TRUNCATE, (self._table_at(self.at + 1),), engine=EMPTIED_BY_RESTART)
        named = self._anywhere(verb)
        return StatementFacts(StatementKind.DATA, tuple(dict.fromkeys(islice(named, 1) if verb == "LOAD" else named)))

    def _is_all_of_one_table(self) -> bool:
        """Return whether this is `DELETE FROM t` and nothing else: a server writes that for a MEMORY table that a
        restart emptied.

        For another engine's table it comes from a session that logs statements.
        """
        rest = self.tokens[self.at + 1 :]
        if self._word() == "FROM" and rest and rest[-1].text == ";":
            rest = rest[:-1]
        return self._word() == "FROM" and (len(rest) == 1 or (len(rest) == 3 and rest[1].text == "."))

    def _anywhere(self, verb: str) -> Iterator[TableId]:
        """Yield every table that UPDATE, DELETE or WITH may change: all that are named where tables are. LOAD changes
        the first.
        """
        expects = in_list = verb in ("UPDATE", "DELETE")
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            if token.word in BEFORE_TABLE:
                expects = in_list = True
            elif expects and (token.kind == "name" or token.word not in ("", "SET", "WHERE")):
                yield self._table()
                expects = False
                continue
            elif token.word in ("SET", "WHERE"):
                expects = in_list = False
            else:
                expects = in_list and token.text in (",", "(")
            self.at += 1

    def _names(self, separators: tuple[str, ...] = ()) -> Iterator[TableId]:
        """Yield tables separated by commas (or by `separators`), to the end."""
        while True:
            yield self._table()
            self._skip_wait()
            if not (self._mark(",") or (self._word() and self._word() in separators)):
                return
            self.at += 1

    def _table_at(self, at: int) -> TableId:
        self.at = at
        return self._table()

    def _table(self) -> TableId:
        """Read `name`, `schema.name`, with `.*` behind it where DELETE has that, or `.name` (MariaDB), which is `name`."""
        self._skip(".")
        schema, name = self.schema, self._next_name()
        if self._mark(".") and not self._mark("*", 1):
            self.at += 1
            schema, name = name, self._next_name()
        if self._mark(".") and self._mark("*", 1):
            self.at += 2
        return TableId(self._folded(schema), self._folded(name))

    def table_of(self, tokens: Sequence[Token]) -> TableId:
        """Return the table that these tokens name, whose database may be the statement's."""
        return _Statement(list(tokens), self.schema, self.folds)._table()

    def _next_name(self) -> str:
        token = self.tokens[self.at]
        if token.kind == "mark":
            raise IndexError(self.at)
        self.at += 1
        return token.text

    def _folded(self, name: str) -> str:
        name = _BEYOND.sub("?", name)
        return name.lower() if self.folds else name

    def _object(self) -> str:
        """Return the kind of thing that the statement is about; reading goes on behind it."""
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            self.at += 1
            if token.word == "DEFINER" and self._mark("="):
                self.at += 4 if self._mark("@", 2) else 2
            elif token.word in OBJECTS and not (token.word == "SPATIAL" and self._word() == "INDEX"):
                return token.word
        return ""

    def _skip_if_exists(self) -> None:
        if self._word() == "IF":
            while self._word() in ("IF", "NOT", "EXISTS"):
                self.at += 1

    def _skip_wait(self) -> None:
        """Skip WAIT n and NOWAIT behind a table (MariaDB). https://mariadb.com/kb/en/wait-and-nowait/"""
        if self._word() == "WAIT" and self._word(1).isdigit():
            self.at += 2
        elif self._word() == "NOWAIT":
            self.at += 1

    def _skip(self, *texts: str) -> None:
        if self.at < len(self.tokens) and (self._word() or self.tokens[self.at].text) in texts:
            self.at += 1

    def _word(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return self.tokens[at].word if at < len(self.tokens) else ""

    def _mark(self, text: str, ahead: int = 0) -> bool:
        at = self.at + ahead
        return at < len(self.tokens) and self.tokens[at].kind == "mark" and self.tokens[at].text == text


def _of_table(tokens: list[Token], altered: TableSchema, folds: bool) -> _Statement:
    """Return a statement that alters this table. A foreign key's parent without a database is in the table's own one, whatever
    the session's is. https://dev.mysql.com/doc/refman/8.0/en/create-table-foreign-keys.html"""
    return _Statement(tokens, altered.id.schema, folds)


def _behind_set(tokens: list[Token]) -> list[Token]:
    """Return the statement in MariaDB's SET STATEMENT variable = value FOR statement, any other one as it is."""
    if [token.word for token in tokens[:2]] != ["SET", "STATEMENT"]:
        return tokens
    places = (at for at, token in enumerate(tokens) if token.word == "FOR" and not token.depth)
    at = next(places, None)
    return tokens if at is None else tokens[at + 1 :]


_VERBS: Mapping[str, Callable[[_Statement], StatementFacts]] = {
    "TRUNCATE": _Statement.truncate,
    "RENAME": _Statement.rename,
    "DROP": _Statement.drop,
    "CREATE": _Statement.create,
    "ALTER": _Statement.alter,
}

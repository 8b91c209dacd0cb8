"""The pages against the code, as far as a program can tell: commands and their options, job files, keys, settings, methods,
links, numbers of decisions. A page that shows what is not there fails here.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import click
import pytest
from pydantic import BaseModel

from anabranch.cli.main import INTERRUPTED, TERMINATED, cli
from anabranch.config import load_job
from anabranch.config.hop_files import PumpFile, ReceiveFile, RouteFile, is_pump_file, load_hop_file
from anabranch.config.job import JobConfig
from anabranch.config.oidc_file import OidcFile
from anabranch.config.options import FORMER, classes
from anabranch.config.options import keys as names
from anabranch.config.section import Section
from anabranch.databases import OPTIONS, TARGET
from anabranch.errors import AnabranchError, ConfigError
from anabranch.job import Job
from anabranch.model import status

REPOSITORY = Path(__file__).parents[2]
PAGES = sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md"), REPOSITORY / "tests" / "README.md"])
PAGES = [page for page in PAGES if page.name != "CHANGELOG.md"]  # which tells what once was
NAMES = [str(page.relative_to(REPOSITORY)) for page in PAGES]
BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
every_page = pytest.mark.parametrize("page", PAGES, ids=NAMES)


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    for indent, language, text in BLOCK.findall(page.read_text()):
        yield language, re.sub(f"^{indent}", "", text, flags=re.MULTILINE)


def inline(page: Path) -> Iterator[str]:
    for text in re.findall(r"`([^`\n]+(?:\n[^`\n]+)?)`", BLOCK.sub("", page.read_text())):
        yield " ".join(text.split())


def commands(page: Path) -> Iterator[str]:
    """What is typed, in blocks (`$ anabranch …`, or a line that begins with it) and in the text."""
    for language, text in blocks(page):
        for line in text.replace("\\\n", " ").splitlines() if language in ("", "console", "sh", "ini", "bash") else ():
            if found := re.match(r"(?:\$ |  )?(?:\S+=\S* )*(anabranch [a-z].*)", line):
                yield re.split(r"  +|#|;|\|", found[1])[0]
    for text in inline(page):
        if text.startswith("anabranch "):
            yield text


@every_page
def test_commands_and_options_exist(page: Path) -> None:
    wrong = [f"anabranch {command}: {why}" for command in commands(page) if (why := unknown(command))]
    assert not wrong, "\n".join(wrong)


def unknown(command: str) -> str:
    """What of a command there is not; "" if all is there."""
    words = shlex.split(re.sub(r"[…'\"]", "", command))[1:]
    found: click.Command = cli
    while words and isinstance(found, click.Group):
        word = words.pop(0)
        if word.startswith("-"):
            return "" if word in options(found) else f"no option {word}"
        for name in word.split("|"):
            nested = found.get_command(click.Context(found), name)
            if nested is None:
                return f"no command {name}"
        assert nested
        found = nested
    known = options(found)
    return ", ".join(f"no option {word}" for word in words if word.startswith("-") and word.split("=")[0] not in known)


def options(command: click.Command) -> set[str]:
    return {"--help", *(name for one in command.params for name in (*one.opts, *one.secondary_opts))}


def hop_model(file: Path, text: str) -> type[Section] | None:
    """The form of a file that is no job file, or of a pump's; None for a job file."""
    if "[store]" in text or "[[routes]]" in text:
        return ReceiveFile if "[store]" in text else RouteFile
    if "[[roles]]" in text:
        return OidcFile
    return PumpFile if is_pump_file(file) else None


@every_page
def test_job_files_are_job_files(page: Path, tmp_path: Path) -> None:
    """Each TOML of the pages, on top of a minimal job where it shows sections only."""
    wrong = []
    for language, text in blocks(page):
        if language == "toml" and not text.lstrip().startswith(("[project", "url =")) and "pyproject" not in text:
            file = tmp_path / "job.toml"
            file.write_text(text)
            hop = hop_model(file, text)
            try:
                if hop is not None:
                    load_hop_file(hop, file, Anything())
                else:
                    file.write_text(completed(text))
                    load_job(file, Anything())
            except ConfigError as error:
                wrong.append(f"{error}\n{text}")
    assert not wrong, "\n".join(wrong)


class Anything(dict[str, str]):
    """An environment in which every variable is set."""

    def __missing__(self, name: str) -> str:
        return "secret"

    def __contains__(self, name: object) -> bool:
        return True

    def get(self, name: str, default: object = None) -> str:  # type: ignore[override]  # only texts here
        return self[name]


def completed(text: str) -> str:
    """With the sections that a job has to have, and without what the page leaves out of a name."""
    head = "" if re.search(r"^name = ", text.split("[")[0], re.MULTILINE) else 'name = "shop"\n'
    source = "" if "[source]" in text else '[source]\nurl = "mysql://u@h"\n'
    target = "" if re.search(r"^\[+targets?\]", text, re.MULTILINE) else '[target]\nurl = "postgresql://u@h/d"\n'
    rules = "" if "[[rules]]" in text else '[[rules]]\ninclude = ["*.*"]\n'
    return head + (text if not head else "") + source + target + rules + (text if head else "")


def sections() -> dict[str, type[BaseModel]]:
    """Section of the job file -> its model."""
    return {name: model for name, field in JobConfig.model_fields.items() if (model := section_in(field.annotation))}


def has_hop_key(section: str, keys: list[str]) -> bool:
    """Return whether it is a key of a pump's, a receiver's or a router's file."""
    fields = {name: field for one in (PumpFile, ReceiveFile, RouteFile) for name, field in one.model_fields.items()}
    model = section_in(fields[section].annotation) if section in fields else None
    for key in keys:
        if model is None or key not in model.model_fields:
            return False
        model = section_in(model.model_fields[key].annotation)
    return True


def section_in(annotation: object) -> type[BaseModel] | None:
    kinds = [kind for kind in (annotation, *get_args(annotation)) if inspect.isclass(kind)]
    return next((kind for kind in kinds if issubclass(kind, Section)), None)


@every_page
def test_keys_of_the_job_file_exist(page: Path) -> None:
    """`[section] key`, `[section] key = value`, and `[[tables]] columns.drop`."""
    wrong = []
    for text in inline(page):
        if found := re.match(r"\[+(\w+)(?:\.(\w+))?\]+ ([\w.]+)", text):
            section, part, key = found.groups()
            if section not in NOT_OURS and not has_key(section, [*([part] if part else []), *key.split(".")]):
                wrong.append(text)
    assert not wrong, wrong


NOT_OURS = {"mysqld", "project", "tool"}


def has_key(section: str, keys: list[str]) -> bool:
    """Options are those of any database, and may be called by the place where they stood before."""
    if (section, keys[0]) in FORMER:
        return True
    if keys[0] == OPTIONS:
        return any(keys[1] in names(kind) for kind in classes(TARGET if section == "targets" else section))
    if has_hop_key(section, keys):
        return True
    if section not in sections():
        return False
    model: type[BaseModel] | None = sections()[section]
    for key in keys:
        if model is None:
            return True  # a table of texts takes any key
        fields = {field.alias or name: field for name, field in model.model_fields.items()} | dict(model.model_fields)
        if key not in fields:
            return False
        model = section_in(fields[key].annotation)
    return True


@every_page
def test_methods_of_a_job_exist(page: Path) -> None:
    """`job.verify(repair=False)`: the method, and each argument that is named."""
    text = page.read_text()
    wrong = [m[0] for m in re.finditer(r"\bjob\.(\w+)\(([^()]*)\)", text) if not has_method(m[1], m[2])]
    assert not wrong, wrong


def has_method(name: str, arguments: str) -> bool:
    method = getattr(Job, name, None)
    named = re.findall(r"(\w+)=", arguments)
    return method is not None and set(named) <= set(inspect.signature(method).parameters)


@every_page
def test_links_lead_somewhere(page: Path) -> None:
    """Files, and headings in them."""
    wrong = []
    for link in re.findall(r"\]\(([^)\s]+)\)", BLOCK.sub("", page.read_text())):
        path, _, heading = link.partition("#")
        if "://" in link:
            continue
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (heading and file.suffix == ".md" and heading not in headings(file)):
            wrong.append(link)
    assert not wrong, wrong


def headings(page: Path) -> set[str]:
    """As GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", BLOCK.sub("", page.read_text()), re.MULTILINE)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title) for title in titles]
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in plain}


@every_page
def test_files_that_are_named_exist(page: Path) -> None:
    """`anabranch/…`, `tests/…`, `docs/…`, `bench/…`, with globs."""
    wrong = [
        text
        for text in inline(page)
        if re.fullmatch(r"(anabranch|tests|docs|bench|native)/[\w./*-]+", text)
        and not list(REPOSITORY.glob(text.rstrip("/")))
    ]
    assert not wrong, wrong


def test_every_page_is_reached_from_the_readme() -> None:
    """From the map of all pages, which the README leads to."""
    contents = REPOSITORY / "docs" / "README.md"
    assert contents in linked(REPOSITORY / "README.md")
    pages = [page for page in PAGES if "docs" in page.parts and page != contents]
    assert [str(page) for page in pages if page not in linked(contents)] == []


def linked(page: Path) -> set[Path]:
    """Return the files that a page links to."""
    links = re.findall(r"\]\(([^)\s#]+)[^)\s]*\)", page.read_text())
    return {(page.parent / link).resolve() for link in links if "://" not in link}


def test_every_method_of_a_job_is_on_its_page() -> None:
    shown = (REPOSITORY / "docs/howto/python-and-notebooks.md").read_text()
    methods = [name for name, one in inspect.getmembers(Job, inspect.isroutine) if not name.startswith("_")]
    inner = {"whole", "rules", "types"}  # not for callers
    assert [name for name in methods if f"{name}(" not in shown and name not in inner] == []


def test_every_column_of_the_state_is_on_its_page() -> None:
    """Tables of schema `anabranch` and their columns, as the statements make them."""
    page = (REPOSITORY / "docs/reference/state.md").read_text()
    sections = dict(re.findall(r"^### `(\w+)`\n(.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL))
    found = 0
    for file in sorted((REPOSITORY / "anabranch/connectors/postgresql/target/migrations").glob("*.sql")):
        text = file.read_text()
        added = r"ALTER TABLE anabranch\.(\w+) ADD COLUMN (\w+)"
        assert [pair for pair in re.findall(added, text) if f"`{pair[1]}`" not in sections[pair[0]]] == [], file.name
        made = r"CREATE TABLE anabranch\.(\w+) \((.*?)^\s*\)"
        for table, body in re.findall(made, text, re.MULTILINE | re.DOTALL):
            if table in ("stage_", "taken_off"):
                continue  # of one load or epoch, nobody's to read
            columns = re.findall(
                r"^\s+(\w+)\s+(?:text|bigint|integer|jsonb?|timestamptz|boolean)\b", body, re.MULTILINE
            )
            assert columns and table in sections, f"{file.name}: {table}"
            assert [name for name in columns if f"`{name}`" not in sections[table]] == [], table
            found += 1
    assert found >= 7


def test_every_key_of_status_is_on_its_page() -> None:
    """Each field that becomes a key."""
    page = (REPOSITORY / "docs/reference/status.md").read_text()
    classes = [
        one for one in vars(status).values() if dataclasses.is_dataclass(one) and one.__module__ == status.__name__
    ]
    found = [field for one in classes for field in dataclasses.fields(one)]
    keys = {field.name for field in found if not field.metadata.get("inline")}
    assert len(keys) > 35
    assert sorted(key for key in keys if not re.search(rf"\b{key}\b", page)) == []


def test_exit_codes_are_the_same_everywhere() -> None:
    """In the reference, the how-to and the help of the command."""
    codes = {error.exit_code for error in every_error(AnabranchError)} | {0, INTERRUPTED, TERMINATED}
    reference = (REPOSITORY / "docs/reference/exit-codes.md").read_text()
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", reference, re.MULTILINE)} == codes
    how_to = (REPOSITORY / "docs/howto/exit-codes.md").read_text()
    told = {
        int(code) for title in re.findall(r"^## ([\d, ]+)", how_to, re.MULTILINE) for code in re.findall(r"\d+", title)
    }
    assert told == codes - {0}


def every_error(kind: type[AnabranchError]) -> Iterator[type[AnabranchError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from every_error(below)

"""Values that several sections of the job file take: URLs and options of ends, table patterns, dates, names of jobs.

What does not live here: values of one section, which stand with it (`sections/`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from datetime import date
from typing import Annotated, Any

from pydantic import AfterValidator, PlainSerializer, PlainValidator, ValidationInfo

from anabranch.config.patterns import Pattern
from anabranch.config.section import refuse
from anabranch.config.url import parse_url
from anabranch.databases import Options
from anabranch.errors import Problem
from anabranch.model.endpoint import Endpoint
from anabranch.model.markers import JOB_NAME


def _endpoint(value: Any, info: ValidationInfo, role: str) -> Endpoint:
    if not isinstance(value, str):
        raise refuse(Problem("is not text", expected="a URL in quotes"))
    env: Mapping[str, str] = (info.context or {}).get("env", {})
    endpoint, problems = parse_url(value, env, needs_database=False, role=role)
    if endpoint is None:
        raise refuse(*problems)
    return endpoint


def _source_url(value: Any, info: ValidationInfo) -> Endpoint:
    return _endpoint(value, info, "source")


def _target_url(value: Any, info: ValidationInfo) -> Endpoint:
    return _endpoint(value, info, "target")


def _checked(value: Any) -> Options:
    assert isinstance(value, Options), "options.py makes them before the whole is checked"
    return value


def _pattern(text: str) -> str:
    try:
        Pattern.parse(text)
    except ValueError as error:
        raise refuse(Problem(f"{text!r} is no table pattern", expected=f'{error}, like "shop.*"')) from None
    return text


def _job_name(text: str) -> str:
    if not re.fullmatch(JOB_NAME, text):
        expected = "1 to 63 letters, digits, '_' or '-', beginning with a letter or digit (it names a directory)"
        raise refuse(Problem(f"{text!r} cannot be a job's name", expected=expected))
    return text


def _zero_date(text: str) -> str:
    if text not in ("stop", "null", "-infinity", "infinity"):
        try:
            if date.fromisoformat(text).isoformat() != text:
                raise ValueError
        except ValueError:
            expected = '"stop", "null", "-infinity", "infinity" or a date like "0001-01-01"'
            raise refuse(Problem(f"{text!r} is no date", expected=expected)) from None
    return text


SourceUrl = Annotated[Endpoint, PlainValidator(_source_url, json_schema_input_type=str), PlainSerializer(str)]
TargetUrl = Annotated[Endpoint, PlainValidator(_target_url, json_schema_input_type=str), PlainSerializer(str)]
OwnOptions = Annotated[  # of the database's own class, made by options.py
    Options, PlainValidator(_checked, json_schema_input_type=dict[str, Any]), PlainSerializer(asdict)
]
PatternText = Annotated[str, AfterValidator(_pattern)]
JobName = Annotated[str, AfterValidator(_job_name)]
ZeroDate = Annotated[str, AfterValidator(_zero_date)]

"""perfgate.report/1: goldens, the schema, and the same bytes for the same report."""

import json

import jsonschema
import pytest
from any_report import briefly, reports
from goldens import check_golden
from hypothesis import given
from msgspec.structs import replace
from sample_details import ONE_WITH_EVIDENCE, WITH_EVIDENCE
from sample_verdicts import ABSENT, CANNOT_EXCLUDE, FAILED_CHANGE
from samples import ALL_PASS, EVERY_OUTCOME, MANY, NOTHING_JUDGED

from perfgate.reporters.json_report import render
from perfgate.reporters.plain_json import encode, stable
from perfgate.schemas import schema

SCHEMA = schema("report")
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)

#: As the design gives them.
CORE = {
    "report": "schema outcome exit_code counts verdicts problems inputs environment policy",
    "verdict": "rule metric labels statistic outcome severity kind unit against new bound base change tolerance "
    "minimum_detectable_change confidence suspect message next_step at",
}


GOLDEN = {
    "failures": replace(EVERY_OUTCOME, verdicts=(FAILED_CHANGE, CANNOT_EXCLUDE, ABSENT)),
    "nothing_judged": NOTHING_JUDGED,
    "with_evidence": ONE_WITH_EVIDENCE,
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden(name):
    check_golden(f"{name}.json", render(GOLDEN[name]))


@pytest.mark.parametrize("report", [EVERY_OUTCOME, MANY, WITH_EVIDENCE])
def test_every_verdict_is_written_as_it_is_alone(report):
    document = json.loads(render(report))
    VALIDATOR.validate(document)
    alone = [json.loads(render(replace(report, verdicts=(verdict,))))["verdicts"] for verdict in report.verdicts]
    assert [[verdict] for verdict in document["verdicts"]] == alone
    assert len(document["evidence"]["verdicts"]) == len(report.details.verdicts)


def test_a_list_of_numbers_stands_on_one_line():
    lines = render(WITH_EVIDENCE).split("\n")
    assert [line.strip() for line in lines if '"stalls"' in line][:1] == ['"stalls": [8]']


@briefly
@given(reports)
def test_any_report_is_valid_and_says_the_same_when_read(report):
    document = json.loads(render(report))
    VALIDATOR.validate(document)
    assert [verdict["bound"] for verdict in document["verdicts"]] == [
        None if verdict.bound is None else stable(verdict.bound) for verdict in report.verdicts
    ]
    assert document["suite"] == report.suite.encode("utf-8", "backslashreplace").decode()


LAST_DIGITS = [
    # what one version of numpy computes, and another
    (0.07405199999999999, 0.074052),
    (0.1 + 0.2, 0.3),
    (1099511627776.0002, 1099511627776.0),  # bytes stay whole
    (5e-324, 5e-324),
    (1.7976931348623157e308, 1.7976931348623157e308),
    (-0.0, -0.0),
]


@pytest.mark.parametrize(("one", "other"), LAST_DIGITS)
def test_the_last_digits_of_a_sum_do_not_change_the_bytes(one, other):
    texts = [render(replace(ALL_PASS, verdicts=(replace(FAILED_CHANGE, bound=bound),))) for bound in (one, other)]
    assert texts[0] == texts[1]
    assert json.loads(texts[0])["verdicts"][0]["bound"] == pytest.approx(other, rel=1e-11)


@pytest.mark.parametrize("value", [number for pair in LAST_DIGITS for number in pair] + [123456789012.5, 1e300, 7.0])
def test_a_list_is_rounded_as_its_numbers_alone_are(value):
    alone = encode({"one": value}).split()[-2]
    assert encode({"one": [value, 2.5]}).split("\n")[1] == f'  "one": [{alone}, 2.5]'


@briefly
@given(reports)
def test_no_line_does_anything_to_a_screen_or_to_github(report):
    text = render(report)
    assert all(line.isprintable() for line in text.split("\n"))
    assert "##[" not in text
    assert "##vso[" not in text


def test_the_core_fields_come_first():
    document = json.loads(render(EVERY_OUTCOME))
    assert " ".join(document).startswith(CORE["report"])
    assert " ".join(document["verdicts"][0]).startswith(CORE["verdict"])


def test_the_order_of_mappings_does_not_matter():
    backwards = dict(reversed(EVERY_OUTCOME.environment.items()))
    assert render(replace(EVERY_OUTCOME, environment=backwards)) == render(EVERY_OUTCOME)


def described_fields(part, path="report"):
    for name, field in part.get("properties", {}).items():
        yield f"{path}.{name}", field
    for name, definition in part.get("definitions", {}).items():
        yield name, definition
        yield from described_fields(definition, name)


@pytest.mark.parametrize(("path", "field"), list(described_fields(SCHEMA)))
def test_every_field_has_a_description_and_a_valid_example(path, field):
    assert field["description"]
    assert field["examples"], path
    for example in field["examples"]:
        VALIDATOR.evolve(schema={**field, "definitions": SCHEMA["definitions"]}).validate(example)


def test_the_schema_itself():
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    for example in SCHEMA["examples"]:
        VALIDATOR.validate(example)

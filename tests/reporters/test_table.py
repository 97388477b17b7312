"""The terminal's whole table: goldens, widths, and text that would do something to a terminal or a log of GitHub."""

import re
from functools import partial

import pytest
from any_report import briefly, reports
from goldens import check_golden, without_sentences
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.cells import cell_len
from runner import commands
from sample_verdicts import change
from samples import ALL_PASS, EVERY_OUTCOME, WITH_MANY

from perfgate.core import OUTCOMES, Location
from perfgate.reporters.terminal import render
from perfgate.words import answer, numbers

whole = partial(render, verbose=True)
COLOUR = re.compile(r"\x1b\[[\d;]*m")


@pytest.mark.parametrize(
    ("name", "width"),
    [
        *(("every_outcome", width) for width in (60, 100, 200)),
        *(("with_causes", 60), ("with_causes", 100), ("nothing_judged", 60)),
        *((name, 100) for name in ("learned", "all_pass", "many")),
    ],
)
def test_golden(name, width):
    check_golden(f"{name}-{width}.txt", without_sentences(whole, WITH_MANY[name], width=width))


@pytest.mark.parametrize("option", ["colour", "ascii_only"])
def test_golden_of_options(option):
    check_golden(f"every_outcome-{option}.txt", without_sentences(whole, EVERY_OUTCOME, **{option: True}))


@pytest.mark.parametrize("width", range(60, 201))
def test_nothing_is_cut_off(width):
    squeezed = "".join(whole(EVERY_OUTCOME, width=width).split())
    for verdict in EVERY_OUTCOME.verdicts:
        if verdict.outcome != "pass":
            assert "".join(verdict.message.split()) in squeezed
            assert "".join(verdict.next_step.text.split()) in squeezed
            assert all(re.sub(r"\s", "", text) in squeezed for text in numbers.measured(verdict))


@briefly
@given(reports, st.integers(60, 200), st.booleans(), st.booleans())
def test_any_text_stays_within_the_width_and_shows_nothing_unprintable(report, width, ascii_only, verbose):
    plain = render(report, width=width, ascii_only=ascii_only, verbose=verbose)
    assert all(cell_len(line) <= width for line in plain.split("\n"))
    assert all(line.isprintable() for line in plain.split("\n"))
    assert plain.isascii() or not ascii_only
    coloured = render(report, width=width, ascii_only=ascii_only, verbose=verbose, colour=True)
    assert [line.rstrip() for line in COLOUR.sub("", coloured).split("\n")] == plain.split("\n")


@briefly
@given(reports, st.integers(60, 200), st.booleans())
def test_no_line_is_a_command_for_github(report, width, colour):
    text = render(report, width=width, colour=colour, verbose=True)
    assert commands(text) == commands(COLOUR.sub("", text)) == []


@pytest.mark.parametrize("width", range(60, 201, 20))
@pytest.mark.parametrize("report", WITH_MANY.values(), ids=WITH_MANY)
def test_the_answer_is_one_line_with_the_worst_first(report, width):
    [line] = render(report, width=width, quiet=True).splitlines()
    word, whole = answer.headline(report)
    assert line.startswith(f"{word}  {answer.counts(report)[0]}")
    assert line.endswith(f"(exit {report.exit_code})")
    assert line == f"{word}  {whole}" or ", ... (exit" in line
    assert render(report, width=width).splitlines()[-1] == line


def test_every_run_has_a_line_with_verbose():
    text = render(EVERY_OUTCOME, verbose=True)
    assert re.search(r"new train-2.log +395.7 ms +832 +416, warm-up did not end\n", text)
    assert "new train-2.log" not in render(EVERY_OUTCOME)


def test_a_name_wraps_only_where_there_is_no_room():
    name = "forward_backward_of_the_largest_layer_median"
    for width in (60, 80, 100, 140, 200):
        assert name in whole(replace(EVERY_OUTCOME, verdicts=(change(metric=name),)), width=width)


@briefly
@given(reports)
def test_the_last_line_is_the_answer(report):
    line = "  ".join(answer.headline(report))
    assert render(report, width=200).split("\n")[-2] == line
    assert render(report, width=200, quiet=True) == line + "\n"


@pytest.mark.parametrize("options", [{}, {"ascii_only": True}, {"colour": True}])
def test_every_outcome_appears_with_a_sign_of_its_own(options):
    text = whole(EVERY_OUTCOME, **options)
    signs = answer.ASCII_SIGNS if options.get("ascii_only") else answer.SIGNS
    assert all(f"{signs[outcome]} {outcome}" in text for outcome in OUTCOMES)
    assert len(set(signs.values())) == len(OUTCOMES)


def test_the_environment_of_the_process_changes_nothing(monkeypatch):
    plain, coloured = render(EVERY_OUTCOME), render(EVERY_OUTCOME, colour=True)
    for name, value in [("COLUMNS", "20"), ("NO_COLOR", "1"), ("FORCE_COLOR", "1"), ("TERM", "dumb")]:
        monkeypatch.setenv(name, value)
    assert render(EVERY_OUTCOME) == plain
    assert render(EVERY_OUTCOME, colour=True) == coloured


def test_a_comparison_counts_passes_unless_verbose():
    verdicts = tuple(replace(one, at=Location("(compare)")) for one in EVERY_OUTCOME.verdicts)
    report = replace(EVERY_OUTCOME, verdicts=verdicts)
    assert "8 more" in render(report)
    assert "reduce_7" not in render(report)
    assert "reduce_7" in render(report, verbose=True)


def test_the_approval_is_offered_only_where_something_does_not_pass():
    assert "baseline approve" in render(EVERY_OUTCOME)
    assert "baseline approve" not in render(ALL_PASS)


MEASURED = [
    # the verdict's fields                                       what is shown
    ({"shown_unit": "s"}, ["0.361 → 0.3621 s", "+0.30% [-0.40%, +1.0%]"]),
    ({"base": None}, ["362.1 ms", "+0.30% [-0.40%, +1.0%]"]),
    ({"new": None, "change": None}, ["361 ms → unknown"]),
    ({"base": None, "new": None, "change": None}, ["not measured"]),
    ({"unit": "1", "shown_unit": "pp"}, ["36.1 → 36.21%", "+0.30% [-0.40%, +1.0%]"]),
    ({"unit": "B", "shown_unit": "ms"}, ["0.361 → 0.3621 B", "+0.30% [-0.40%, +1.0%]"]),
]


@pytest.mark.parametrize(("fields", "shown"), MEASURED)
def test_a_change_is_shown_in_one_unit(fields, shown):
    assert numbers.measured(change(**fields)) == shown

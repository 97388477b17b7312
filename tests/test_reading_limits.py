"""Every limit is named where it is met, can be raised, and keeps hostile input from passing."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done, ends, steady, write_log, write_results, write_rules

from perfgate.core.resource_limits import DEFAULT, VARIABLE, Limits, parse_limits
from perfgate.readers import Source, read

Command = Callable[..., Done]


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("", DEFAULT),
        ("series=50000", Limits(series=50_000)),
        (" series=5 , inflated_bytes=8GiB,", Limits(series=5, inflated_bytes=8 << 30)),
        ("inflated_bytes=1PiB", Limits(inflated_bytes=1 << 50)),
        ("document_bytes=2MB,line_bytes=100", Limits(document_bytes=2_000_000, line_bytes=100)),
    ],
)
def test_limits_that_can_be_set(text: str, limits: Limits) -> None:
    assert parse_limits(text) == limits


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("serise=5", "there is no limit 'serise'; did you mean 'series'?"),
        ("x=5", "known limits are document_bytes,"),
        ("series", "a limit must be a whole number, such as series=50000"),
        ("series=-1", "a limit must be a whole number"),
        ("series=5MB", "a limit must be a whole number"),
        ("series=1e5", "a limit must be a whole number"),
        ("line_bytes=5TFLOP", "such as line_bytes=64MiB"),
        ("series=5,series=6", "the limit 'series' is given twice"),
    ],
)
def test_limits_that_cannot_be_set(text: str, message: str, perfgate: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    write_results(Path("run.json"), {"metric": "f", "unit": "s", "values": [0.5]})
    monkeypatch.setenv(VARIABLE, text)
    done = perfgate("inspect", "run.json")
    assert done.code == 2
    assert f"error: {VARIABLE}: " in done.err
    assert message in done.err


SERIES = [{"metric": name, "unit": "s", "values": [-1.0, 0.5]} for name in ("f", "g")]


def results(folder: Path) -> None:
    write_results(folder / "run", *SERIES, environment={"gpu": "H200", "world_size": 8})


def two_runs(folder: Path) -> None:
    (folder / "run").write_text(json.dumps({"schema": "perfgate.results/1", "runs": [{"series": SERIES}] * 2}))


def log(folder: Path) -> None:
    write_log(folder / "run", forward=[1.0] * 9, backward=[2.0] * 9)


def long_line(folder: Path) -> None:
    log(folder)
    with (folder / "run").open("a") as file:
        file.write("word " * 40_000 + "\n")


def packed(folder: Path) -> None:
    log(folder)
    (folder / "run").write_bytes(gzip.compress((folder / "run").read_bytes()))


def printed(folder: Path) -> None:
    (folder / "run").write_text("ProfilingResult(computation='f', times=[0.5, 0.25, 0.125], profile_steps=3)\n")


#: The limit, a value that is too low, the input, and the exit codes of inspect and of a check.
MET = [
    ("document_bytes", 100, results, 3, 3),
    ("inflated_bytes", 100, packed, 3, 3),
    ("line_bytes", 50, long_line, 0, 0),
    ("printed_bytes", 50, printed, 3, 3),
    ("depth", 2, results, 3, 3),
    ("containers", 4, results, 3, 3),
    ("series", 1, results, 3, 3),
    ("series", 1, log, 3, 3),
    ("runs", 1, two_runs, 3, 3),
    ("problems", 1, results, 3, 3),
    ("name_bytes", 5, results, 3, 3),
    ("facts", 1, results, 3, 3),
    ("verdicts", 1, log, 0, 3),
    ("rule_bytes", 20, log, 0, 2),
    ("rule_values", 2, log, 0, 2),
    ("rule_depth", 1, log, 0, 2),
]


@pytest.mark.parametrize(("name", "value", "write", "inspected", "checked"), MET)
def test_a_limit_is_named_where_it_is_met(
    name: str,
    value: int,
    write: Callable[[Path], None],
    inspected: int,
    checked: int,
    perfgate: Command,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(folder)
    write_rules(folder, *(("f* under 1 h", "b* under 1 h") if write in (log, long_line) else ("f under 1 h",)))
    monkeypatch.setenv(VARIABLE, f"{name}={value}")
    seen, judged = perfgate("inspect", "run"), perfgate("check", "run")
    assert (seen.code, judged.code) == (inspected, checked), judged.said
    words = " ".join(judged.said.split())
    assert f"than the limit {name}={value} allows" in words
    assert f"set {VARIABLE}={name}={2 * value}" in words


def test_a_stored_baseline_that_is_too_large(perfgate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_log(folder / "run", forward=steady(5.0))
    write_rules(folder, "forward within 5% of baseline")
    assert perfgate("baseline", "approve", "run", "--reason", "first").code == 0
    monkeypatch.setenv(VARIABLE, "baseline_bytes=100")
    done = perfgate("check", "run")
    assert done.code == 3
    assert "than the limit baseline_bytes=100" in " ".join(done.said.split())


def test_every_limit_is_met_by_a_test() -> None:
    elsewhere = {"inflation", "baseline_bytes"}  # tests/readers/test_reader_text.py, and above
    assert set(Limits.__struct_fields__) == {row[0] for row in MET} | elsewhere


def test_what_stands_before_the_limit_is_said(perfgate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"[Rank 0] time (ms) | t{number}: nan\n" for number in range(9)]
    (folder / "run.log").write_text("".join(lines))
    monkeypatch.setenv(VARIABLE, "series=5")
    done = perfgate("inspect", "run.log")
    assert "run.log:1: error: t0" in done.out
    assert "run.log:6: error: reading stops here: this file has more series" in done.out


def _repeated(piece: str, size: int = 200_000) -> str:
    return "".join(piece.replace("#", str(number)) for number in range(size // len(piece)))


#: What once took minutes for ten megabytes: each is linear now, which shows in 200 KB.
HOSTILE = {
    "a fault in every series": '{"schema": "perfgate.results/1", "series": ['
    + _repeated('{"metric":"m#","unit":"s","values":[-1]},')
    + '{"metric":"m","unit":"s","values":[1]}]}',
    "an unknown field in every series": '{"schema": "perfgate.results/1", "series": ['
    + _repeated('{"metric":"m#","unit":"s","valeus":[-1]},')
    + '{"metric":"m","unit":"s","values":[1]}]}',
    "a fault in every list of times": "{" + _repeated('"n#": {"times": [-1]},') + '"n": {"times": [1]}}',
    "one NaN behind many numbers": '{"times": [' + "1," * 100_000 + "NaN]}",
    "documents on one line": '{"times": [1]}\n' + _repeated(': {"a":1}') + "\n",
    "calls on one line": '{"times": [1]}\n' + _repeated(" A(b=1)") + "\n",
    "results in a log": _repeated('result: {"name": "n#", "times": [0.5, 0.75]}\n'),
    "printed results": _repeated("P(computation='f#', times=[0.5, 0.25])\n"),
    "quotes where a table was": "Time (%),Total Time (ns),Instances,Avg (ns),Name\n" + '"\n' * 100_000,
    "a name that goes on": '{"schema": "perfgate.results/1", "series": [{"metric": "'
    + "x" * 200_000
    + '", "unit": "s", "values": [1]}]}',
    "names of timers": _repeated("[Rank 0] time (ms) | t#: 1.23\n"),
    "ranks": _repeated("[Rank #] time (ms) | forward: 1.23\n"),
    "runs": _repeated("[Rank 0] time (ms) | forward: 1.23\nDeepSpeed info: version=0.9, x\n"),
    "labels of one metric": '{"schema": "perfgate.results/1", "series": ['
    + _repeated('{"metric":"m","labels":{"n":"#"},"unit":"s","values":[1]},')
    + '{"metric":"m","unit":"s","values":[1]}]}',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_input_ends(name: str) -> None:
    with ends():
        runs = read(Source("run", [HOSTILE[name].encode()]))
        assert all(run.series or any(problem.severity == "error" for problem in run.problems) for run in runs)


def test_a_rule_file_is_not_read_through_a_link_that_leads_out(perfgate: Command, folder: Path) -> None:
    write_log(folder / "run", forward=steady(5.0))
    write_rules(folder, "forward under 1 h")
    elsewhere = write_rules(folder, "forward under 2 h", name="elsewhere/more.yaml")
    (folder / "rules" / "inside.yml").symlink_to("rules.yaml")
    assert perfgate("check", "run").code == 0
    for link, target in (("more.yaml", elsewhere), ("folder", elsewhere.parent)):
        (folder / "rules" / link).symlink_to(target)
        done = perfgate("check", "run")
        assert done.code == 2
        assert f"rules/{link} is a link that leads out of rules" in done.err
        (folder / "rules" / link).unlink()


def test_a_level_that_is_a_link_is_named(perfgate: Command, folder: Path) -> None:
    write_log(folder / "run", forward=steady(5.0))
    write_rules(folder, "forward within 5% of baseline")
    assert perfgate("baseline", "approve", "run", "--reason", "first").code == 0
    (level,) = (folder / "baselines").glob("*/*/*")
    level.rename(folder / "moved")
    level.symlink_to(folder / "moved")
    done = perfgate("check", "run", "--missing-baseline", "skip")
    assert done.code == 3
    assert f"{level.name}: error: is a link" in done.said.replace("\n", "")


def test_no_rank_hides_another_whose_metric_is_no_number(perfgate: Command, folder: Path) -> None:
    values = steady(5.0)
    zeros = [0.0, *values[1:]]
    write_log(folder / "run", [{"a": values, "b": values}, {"a": values, "b": zeros}, {"a": values, "b": values}])
    for rank in ("on the median rank", "on the fastest rank", "on the slowest rank"):
        write_rules(folder, f"share median {rank} under 9", head="metrics: {share: a / b}\n")
        done = perfgate("check", "run")
        assert done.code == 3
        assert "rank 1 has values that are not finite numbers" in " ".join(done.said.split())


def test_reports_on_stdout_hold_no_commands_for_the_runner(perfgate: Command, folder: Path) -> None:
    write_results(folder / "run", {"metric": "::error::x ##[error]y", "unit": "s", "values": steady(5.0)})
    write_rules(folder, "* under 1 ms")
    for option in ("--markdown", "--junit", "--json"):
        done = perfgate("check", "run", option, "-")
        assert done.code == 1
        assert "error" in done.out
        assert "##[" not in done.out
        assert not any(line.lstrip().startswith("::") for line in done.out.splitlines())

"""Changes of values that have no ratio: an absolute tolerance compares their differences."""

import pytest
from conftest import answer_of, write_results

from perfgate import judge_change

ROWS = [
    # what, base, new, options, answer
    ("from 0", [0, 0, 0], [20, 21], {}, "fail"),
    ("from 0, one new run", [0, 0, 0], [20], {}, "suspect"),
    ("from 0, one base run", [0], [20, 21], {}, "suspect"),
    ("from 0, a little", [0, 0, 0], [1, 2], {}, "pass"),
    ("around 0", [-0.2, 0, 0.2], [0.1], {}, "pass"),
    ("to 0, as a base run", [0, 3, 0.5], [0], {}, "pass"),
    ("to 0, much", [20, 21, 20], [0], {}, "suspect"),
    ("around 0, noisy", [-9, 0, 9], [0.5], {}, "undecided"),
    ("to -20, more is better", [0, 0, 0], [-20, -21], {"better": "higher"}, "fail"),
    ("to -20, less is better", [0, 0, 0], [-20, -21], {}, "pass"),
    ("to -20, both sides", [0, 0, 0], [-20, -21], {"two_sided": True}, "fail"),
    ("-100 to -80, beyond both tolerances", [-100, -100, -101], [-80, -81], {"tolerance": 0.05}, "fail"),
    ("-100 to -80, beyond one tolerance", [-100, -100, -101], [-80, -81], {"tolerance": 0.3}, "pass"),
]


@pytest.mark.parametrize(("base", "new", "options", "answer"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_answers(base, new, options, answer):
    found = judge_change(base, new, tolerance_absolute=5, **options)
    assert answer_of(found) == answer
    assert (found.base_value, found.new_value) == pytest.approx((sum(base) / len(base), sum(new) / len(new)))
    assert (found.estimate, found.low, found.high) == (None, None, None)


@pytest.mark.parametrize(
    ("base", "new", "answer"),
    [
        ([0, 0], [20, 21], "suspect"),
        ([0, 0, 0], [20, 21, 22], "fail"),
        ([0, 0, 0.5], [0, 1, 0], "pass"),
        ([20, 21, 20], [0, 0, 0], "suspect"),
    ],
)
def test_pairs_compare_differences_too(base, new, answer):
    assert answer_of(judge_change(base, new, tolerance_absolute=5, pairing="whole-runs")) == answer


def test_units_do_not_enter():
    milliseconds = judge_change([0, 0, 0.2], [9, 8.5], tolerance_absolute=5)
    seconds = judge_change([0, 0, 0.0002], [0.009, 0.0085], tolerance_absolute=0.005)
    assert answer_of(milliseconds) == answer_of(seconds)


def test_a_wait_that_appears_fails(in_short, folder):
    (folder / "rules").mkdir()
    (folder / "rules" / "r.yaml").write_text("version: 1\nsuite: s\nrules:\n  - wait within 5 ms of baseline\n")

    def run(name, wait, number):
        step = {"metric": "step", "unit": "ms", "values": [100 + 0.01 * i + number for i in range(30)]}
        waited = [wait + 0.01 * i * bool(wait) for i in range(30)]
        write_results(folder / name, step, {"metric": "wait", "unit": "ms", "values": waited})
        return name

    base = [run(f"base-{i}.json", 0.0, i) for i in range(3)]
    assert in_short("baseline", "approve", *base, "--reason", "first").code == 0
    assert in_short("check", run("same.json", 0.0, 7)).code == 0
    new = [run(f"new-{i}.json", 20.0, 10 + i) for i in range(2)]
    done = in_short("check", *new, "--json", "report.json")
    assert done.code == 1
    assert "wait median  0 → 20.15 ms" in done.out
    told = in_short("explain", "wait", "report.json").out
    assert "a ratio does not exist, so the differences are compared; allowed: within 5 ms of baseline" in told
    assert "can fail" in in_short("rules").out

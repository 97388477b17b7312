"""Rules as people write them at first: the answer has a sentence that works."""

import pytest

from perfgate.rules.load import load_rules
from perfgate.rules.repair import known_name, repaired
from perfgate.rules.syntax.cursor import SentenceError
from perfgate.rules.syntax.grammar import parse_sentence

PROPOSED = [
    ("forward no slower than 5%", "forward within 5% of baseline"),
    ("forward no slower than 50 ms", "forward at most 50 ms"),
    ("throughput no slower than 100 /s", "throughput at least 100 /s"),
    ("forward must not be more than 5% slower than baseline", "forward within 5% of baseline"),
    ("forward 5% slower than main", "forward within 5% of baseline"),
    ("forward regression under 5%", "forward within 5% of baseline"),
    ("forward within 5%", "forward within 5% of baseline"),
    ("forward wihtin 5% of anchor", "forward within 5% of anchor"),
    ("step time within 5% of baseline", "step.time within 5% of baseline"),
    ("peak memory below 10 GB", "memory.peak_allocated under 10 GB"),
    ("peak memory below 10 gb", "memory.peak_allocated under 10 GB"),
    ("samples per second at least 100 /s", "samples_per_second at least 100 /s"),
    ("my own metric under 5 ms", '"my own metric" under 5 ms'),
    ("forward should be under 50 ms", "forward under 50 ms"),
    ("forward undr 50 ms", "forward under 50 ms"),
    ("forward 50 msec", "forward at most 50 ms"),
    ("median forward under 50 ms", "forward median under 50 ms"),
    ("average forward no less than 5 ms", "forward mean at least 5 ms"),
    ("the 95th percentile of forward under 50 ms", "forward p95 under 50 ms"),
    ("no more work.syncs than 5", "work.syncs at most 5"),
]


@pytest.mark.parametrize(("text", "sentence"), PROPOSED, ids=[text for text, _ in PROPOSED])
def test_a_sentence_that_works_is_proposed(text, sentence):
    with pytest.raises(SentenceError):
        parse_sentence(text)
    assert repaired(text) == sentence
    parse_sentence(sentence)


UNCLEAR = [
    *("", "forward", "a b c", "x under five ms", "x under 5 ms please", "x under 5 ms and", "x on rank 3 under 5 ms"),
    *(
        "x at most 95% of baseline",
        "x at least 105% of baseline",
        "x at least 0% of baseline",
        "x at most 1.1 baseline",
    ),
    *("x at least 3% above baseline", "x p101 under 5 ms", "x + under 5 ms", "fwd* / y under 3", "x on wrost rank < 5"),
]


@pytest.mark.parametrize("text", UNCLEAR)
def test_nothing_is_proposed_where_the_meaning_is_not_clear(text):
    assert repaired(text) is None


def test_the_stored_metrics_come_before_the_usual_ones():
    assert repaired("step time under 5 ms", ("step_time", "data.step_time")) == "step_time under 5 ms"
    assert known_name(["forward", "share"], ("forward", "forward_share")) == "forward_share"


MAPPINGS = [
    ("- metric: forward\n  max: 50 ms", "write `forward at most 50 ms`"),
    ("- {name: x, metric: forward, statistic: p95, max: 50, unit: ms}", "write `forward p95 at most 50 ms`"),
    ("- {metric: forward, tolerance: 5%}", "write `forward within 5% of baseline`"),
    ("- {metric: forward, min: 5 ms, max: 50 ms}", "write `forward at most 50 ms and at least 5 ms`"),
    ("- {metric: my loss, max: 5}", "write `'\"my loss\" at most 5'`"),
    ("- forward: 50 ms", "write `forward at most 50 ms`"),
    ("- forward: under 50 ms", "write `forward under 50 ms`"),
]


@pytest.mark.parametrize(("text", "words"), MAPPINGS, ids=[row[1] for row in MAPPINGS])
def test_a_mapping_in_the_form_of_another_tool_is_one_problem(text, words):
    [problem] = load_rules([("r.yaml", f"version: 1\nrules:\n{text}\n".encode())])[1]
    assert words in problem.message
    parse_sentence(problem.message.split("`")[1].strip("'"))


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("- forward no slower than 5%", "; did you mean `forward within 5% of baseline`?"),
        ("- my own metric under 5 ms", "; did you mean `'\"my own metric\" under 5 ms'`?"),
        ("- {metric: '*attn*', max: 5 ms}", "write `'*attn* at most 5 ms'`"),
        ('- {metric: "it\'s mine", max: 5 ms}', "write `'\"it''s mine\" at most 5 ms'`"),
        ("- {metric: 'ops:', max: 5 ms}", "write `'ops: at most 5 ms'`"),
        ("- forward max 50 ms", "write `at most`"),
    ],
)
def test_the_problem_of_a_file_ends_with_the_proposal(text, end):
    [problem] = load_rules([("r.yaml", f"version: 1\nrules:\n{text}\n".encode())])[1]
    assert problem.message.endswith(end)

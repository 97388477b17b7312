"""Untrusted text: what is made visible, and what the runner of GitHub Actions would obey."""

import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.core.wording import clip, one_line, plural, shell_lines, short_call, without_commands

VISIBLE = [
    # text                what is shown          in ASCII
    ("forward p95", "forward p95", "forward p95"),
    ("\x1b[31mred", "\\u001b[31mred", "\\u001b[31mred"),
    ("a\nb\tc\rd", "a\\u000ab\\u0009c\\u000dd", "a\\u000ab\\u0009c\\u000dd"),
    ("\x7f\x85\x9b", "\\u007f\\u0085\\u009b", "\\u007f\\u0085\\u009b"),
    ("a\u202eb\u200bc\ufeff", "a\\u202eb\\u200bc\\ufeff", "a\\u202eb\\u200bc\\ufeff"),
    ("\ud800\uffff", "\\ud800\\uffff", "\\ud800\\uffff"),
    ("\U000e0041", "\\U000e0041", "\\U000e0041"),
    ("3 µs → 4 µs, ±5%", "3 µs → 4 µs, ±5%", "3 us -> 4 us, +-5%"),
    ("漢", "漢", "\\u6f22"),
]


@pytest.mark.parametrize(("text", "shown", "in_ascii"), VISIBLE)
def test_what_cannot_be_seen_is_made_visible(text, shown, in_ascii):
    assert one_line(text) == shown
    assert one_line(text, ascii_only=True) == in_ascii


@given(st.text(st.characters()))
def test_one_line_is_printable_and_changes_nothing_twice(text):
    once = one_line(text)
    assert once.isprintable()
    assert one_line(once) == once
    assert one_line(text, ascii_only=True).isascii()


COMMANDS = [
    ("::stop-commands::x", "\\:stop-commands::x"),
    ("  ::error::x", "  \\:error::x"),
    ("\x1b[1m::error::x", "\x1b[1m\\:error::x"),
    ("first\n::error::x", "first\n\\:error::x"),
    ("a ##[add-mask]b", "a #\\[add-mask]b"),
    ("a ##vso[task.complete result=Succeeded]", "a #\\vso[task.complete result=Succeeded]"),
    ("##teamcity[buildStatus status='SUCCESS']", "#\\teamcity[buildStatus status='SUCCESS']"),
    ("aten::mm at::native::x", "aten::mm at::native::x"),
]


@pytest.mark.parametrize(("text", "harmless"), COMMANDS)
def test_commands_of_ci_systems_are_broken_without_a_change_in_width(text, harmless):
    assert without_commands(text) == harmless
    assert len(harmless) == len(text)


def test_clip_says_how_much_is_missing():
    assert clip("abc", 3) == "abc"
    assert clip("abcdef", 3) == "abc… (3 more characters)"


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("kernel.void at::native::(anonymous namespace)::reduce<4, f<int>>(f<int>*)", "kernel.at::native::reduce"),
        (
            "kernel.ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>) median",
            "kernel.ncclDevKernel_Generic_1 median",
        ),
        ("kernel.void f<(lambda()#1)", "kernel.f<"),
        ("time (train)", "time (train)"),
    ],
)
def test_the_short_name_of_a_kernel_has_no_arguments(name, short):
    assert short_call(name) == short


def test_plural():
    assert [plural(0, "run"), plural(1, "run"), plural(2, "run")] == ["0 runs", "1 run", "2 runs"]


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_a_command_over_several_lines_is_the_same_command(width):
    command = "perfgate baseline approve 'my runs/a.log' --reason \"it's slower, and that's fine\" --pr 12"
    lines = shell_lines(command, width)
    assert all(line.endswith(" \\") for line in lines[:-1])
    shell = ["sh", "-c", "printf '%s\\n' " + "\n".join(lines)]
    words = subprocess.run(shell, capture_output=True, text=True, check=True).stdout.splitlines()
    assert words == shlex.split(command)

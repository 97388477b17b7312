import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.core.resource_limits import DEFAULT, Limits
from perfgate.readers.text import InputFile, Source


def lines(data, *words, chunk=None):
    size = chunk or len(data) or 1
    document = InputFile(Source("f", [data[at : at + size] for at in range(0, len(data), size)]))
    found = [(number, line, ended) for number, line, _, ended in document.lines(words or ("",))]
    return found, [str(problem) for problem in document.problems]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"a\nb\n", [(1, "a", True), (2, "b", True)]),
        (b"a\r\nb\r\n", [(1, "a", True), (2, "b", True)]),
        (b"a\rb\nc", [(1, "a", True), (1, "b", True), (2, "c", False)]),
        (b"a\nb\r", [(1, "a", True), (2, "b", True)]),
        (b"\xef\xbb\xbfa\n\n", [(1, "a", True), (2, "", True)]),
        (b"\xff\xfea\0\n\0", [(1, "a", True)]),
        (b"\xfe\xff\0a\0\n\0b", [(1, "a", True), (2, "b", False)]),
        (b"a\0\0b\x1b[1;32mc\x1b]0;title\x1b\\d\n", [(1, "abcd", True)]),
        (b"a\xffb\n", [(1, "a\ufffdb", True)]),
        (b"", []),
    ],
)
def test_lines(data, expected):
    assert lines(data) == (expected, [])


def test_words_choose_lines_and_keep_their_numbers():
    data = b"one\ntwo\nthree\rtwo\n" * 3 + b"two"
    found, _ = lines(data, "two", "nine")
    assert found == [*((number, "two", True) for number in (2, 3, 5, 6, 8, 9)), (10, "two", False)]


@given(
    data=st.lists(st.sampled_from([b"a", b" ", b"\n", b"\r", b"\0", b"\x1b[3m", b"\xc3\xa9", b"\xff"])),
    chunk=st.integers(1, 9),
)
def test_chunks_do_not_matter(data, chunk):
    joined = b"".join(data)
    assert lines(joined, chunk=chunk) == lines(joined)
    packed = gzip.compress(joined)
    assert lines(packed, chunk=chunk) == lines(joined)


def test_a_long_line_comes_in_pieces_with_its_number():
    longest = DEFAULT.line_bytes
    long = b"ab " * (longest // 2)
    found, problems = lines(b"x\n" + long + b"\ny\n", chunk=1000)
    assert {number for number, _, _ in found} == {1, 2, 3}
    assert all(len(line) <= longest for _, line, _ in found)
    assert all(ended for _, _, ended in found)
    assert b"".join(line.encode() + b" " for number, line, _ in found if number == 2).split() == long.split()
    assert len(problems) == 1
    assert problems[0].startswith(
        "f:2: warning: a line is read in pieces because it is longer than the limit line_bytes="
    )


def test_a_long_line_without_blanks_is_never_cut_in_a_character():
    found, _ = lines("é".encode() * DEFAULT.line_bytes + b"\n")
    assert {*"".join(line for _, line, _ in found)} == {"é"}
    assert not found[0][2]


def test_several_gzip_members_are_one_text():
    data = gzip.compress(b"a\n") + gzip.compress(b"b\n") + b"\0" * 10
    assert lines(data) == ([(1, "a", True), (2, "b", True)], [])


@given(repeats=st.integers(1, 400_000), chunk=st.integers(1, 3000))
def test_all_of_a_gzip_stream_is_inflated(repeats, chunk):
    packed = gzip.compress(b"ab\n" * repeats)
    source = Source("f", [packed[at : at + chunk] for at in range(0, len(packed), chunk)])
    inflation = InputFile(source)
    assert sum(map(len, inflation.blocks())) == 3 * repeats
    assert not inflation.problems


def test_a_cut_gzip_stream_keeps_what_it_has():
    data = gzip.compress(b"".join(b"line %d\n" % number for number in range(100_000)))
    found, problems = lines(data[: len(data) // 2])
    assert found[:2] == [(1, "line 0", True), (2, "line 1", True)]
    assert len(found) > 1000
    assert problems[0].startswith(f"f:{found[-1][0]}: error: the gzip stream is cut off; everything after line")


def test_a_damaged_gzip_stream_is_an_error():
    data = bytearray(gzip.compress(bytes(range(256)) * 100))
    data[-6] ^= 0xFF
    assert "the gzip stream is damaged" in lines(bytes(data))[1][0]
    assert "the gzip stream is damaged" in lines(gzip.compress(b"a\n") + b"garbage")[1][0]


@pytest.mark.parametrize("limit", ["inflated_bytes", "inflation"])
def test_a_gzip_bomb_is_stopped(limit):
    packer = zlib.compressobj(9, wbits=31)
    bomb = packer.compress(b"\n" * (80 << 20)) + packer.flush()
    document = InputFile(Source("f", [bomb], Limits(inflated_bytes=1 << 20) if limit == "inflated_bytes" else DEFAULT))
    assert [*document.lines(("x",))] == []
    assert f"than the limit {limit}=" in document.problems[0].message


def test_the_head_is_not_consumed():
    document = InputFile(Source("f", [b"ab\n" * 100_000]))
    assert document.head(4) == b"ab\na"
    assert len(document.head(1 << 20)) == 300_000
    assert len([*document.lines()]) == 100_000


def test_a_whole_document_is_bounded():
    document = InputFile(Source("f", [b"a" * 1001], Limits(document_bytes=1000)))
    assert document.whole() is None
    assert document.problems[0].severity == "error"
    assert "PERFGATE_LIMITS=document_bytes=2000" in document.problems[0].message

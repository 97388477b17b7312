"""The output of `go test -bench`, the format of the Go benchmarks that benchstat reads.

    goos: linux
    pkg: example.com/codec
    cpu: AMD Ryzen 7 7800X3D 8-Core Processor
    BenchmarkDecode/size=1024-8         1000000     1114 ns/op   918.42 MB/s     512 B/op      3 allocs/op

Source: golang/go `src/testing/benchmark.go` (Go 1.25), and golang.org/design/14313-benchmark-format. The metric is the
name without `Benchmark`, labelled with `procs` (GOMAXPROCS, the number at its end), and `pkg` if there are several:
`_UNITS` has the units. What a benchmark reports itself (`p99-ms`) is `NAME.UNIT`. A benchmark that ran several times
(`-count`) has samples. A benchmark that failed is an error.
"""

from __future__ import annotations

import re

from perfgate.readers.kit import Format, InputFile, Key, Run, RunBuilder, unit_of_name, unit_of_text

NAME = "go-test"
METRICS = "`NAME`, `NAME.throughput`, `.allocated`, `.allocations` and own metrics, labelled with `procs`"
CHECKED = "Go 1.25's `testing/benchmark.go`: generated output; public outputs"
FORMAT = Format(
    NAME, __name__, markers={"Benchmark": r"^Benchmark\S{1,300}[ \t]+\d{1,18}[ \t]+[\d.e+-]{1,30} [^\s\"]{1,60}"}
)
#: Not read: parameters in the name of a benchmark.
BESIDE = r"(?:Benchmark\S*)?/\S+"
_LINE = re.compile(r"Benchmark(\S{1,300}?)(?:-(\d{1,6}))?[ \t]+\d{1,18}((?:[ \t]+\S{1,40} \S{1,60})+)\s*")
_VALUE = re.compile(r"[ \t]+(\S{1,40}) (\S{1,60})")
_FACT = re.compile(r"(goos|goarch|pkg|cpu): (\S.{0,199}?)\s*")
_CLOSING = re.compile(r"(?:PASS|FAIL|ok )\b|ok\s")
_FAILED = re.compile(r"\s*--- FAIL: (Benchmark\S{1,300})")
#: By the printed unit: the end of the metric, its base unit, and how many printed units are one base unit.
_UNITS = {
    "ns/op": ("", "s", 1e9),
    "MB/s": (".throughput", "B/s", 1e-6),
    "B/op": (".allocated", "B", 1.0),
    "allocs/op": (".allocations", "1", 1.0),
}


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the one run of an output."""
    run, package = RunBuilder(file, NAME), ""
    found: list[tuple[str, re.Match[str], int]] = []  # the package, the line of a benchmark, and its number
    begun = 0  # the first line of a package whose end has not come
    for number, line, _, ended in file.lines(("Benchmark", ": ", "PASS", "FAIL", "ok ")):
        if match := _LINE.fullmatch(line):
            if ended:
                found.append((package, match, number))
            else:
                run.say("warning", "the last record is cut off; left out", number)
        elif _CLOSING.match(line):
            begun = 0
        elif fact := _FACT.fullmatch(line):
            begun = begun or number
            if fact[1] == "pkg":
                package = fact[2]
            else:
                run.fact(fact[1], fact[2], number)
        elif failed := _FAILED.match(line):
            run.say("error", f"{failed[1]} failed", number)
    if begun:
        run.say("warning", "the output of a package has no PASS or FAIL at its end: benchmarks may be missing", begun)
    _add(run, found)
    run.single_values(re.compile(""))  # whatever its name is, a benchmark that ran once has one value
    return (run.run(),)


def _add(run: RunBuilder, found: list[tuple[str, re.Match[str], int]]) -> None:
    """Add the values of all lines: package, match and number of each."""
    several = len({package for package, _, _ in found}) > 1
    for package, match, number in found:
        labels = {"procs": match[2]} if match[2] else {}
        if several and package:
            labels["pkg"] = package
        for text, printed in _VALUE.findall(match[3]):
            known = unit_of_text(printed) or unit_of_name(printed.replace("-", "_"))
            end, unit, per = _UNITS.get(printed) or (f".{printed}", *known)
            run.sample(Key.of(match[1] + end, **labels), unit, text, number, per=per)

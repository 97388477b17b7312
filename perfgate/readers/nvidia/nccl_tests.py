"""nccl-tests and rccl-tests: the printed tables, or the document of `-J`; and the printed benchmark of bigscience.

    # Collective test starting: all_reduce_perf
    # nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 graph: 0
    #  Rank  0 Group  0 Pid   6899 on node device  0 [0000:04:00] NVIDIA H100 80GB HBM3
    #       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
    #        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
         1048576        262144     float     sum      -1    78.12   13.42   12.61      0    77.90   13.46   12.65      0
    # Avg bus bandwidth    : 12.63

Source: NVIDIA/nccl-tests `src/util.cu`, `src/common.cu` (v2.0 to v2.18, JSON versions 1 and 2). A time is a mean over
all iterations, so it is a single value; GB is 1e9 bytes. The collective is the program's name without `_perf`, or
`collective` if no name is printed. `redop` and `root` are blank for some collectives.

| metric | unit | labels |
|---|---|---|
| `COLLECTIVE.time` (`COLLECTIVE.cpu_time` with `-C`) | s | size (bytes), place (`out`, `in`) |
| `COLLECTIVE.algbw`, `COLLECTIVE.busbw` | B/s | size, place |
| `COLLECTIVE.avg_busbw` | B/s | |

If the rows differ in type, operation or root, these are labels, too (type, redop, root). A size that is measured
several times (`--run_cycles`) has several samples. A measurement with a wrong result is left out.

**A log of several programs** has a section for each, with its own name, ranks and average. Sections that differ in
what they print about themselves (ranks, threads, aggregated iterations, graph, variables such as NCCL_ALGO in their
command lines) have it as labels. Equal sections are several runs. The tags of `mpirun --tag-output` and the prefixes of
launchers are dropped.

`all_reduce_bench` reads the benchmark of bigscience, which has the same name of format.
"""

from __future__ import annotations

from collections.abc import Iterator

from perfgate.readers.kit import Format, InputFile, JsonSource, Key, Run, RunBuilder, checked, items, load_json, mapping
from perfgate.readers.nvidia.nccl_log import NAME, PROGRAM, NcclLog
from perfgate.readers.nvidia.nccl_rows import DETAILS, NcclValue, add_values, varying_details

METRICS = "`COLLECTIVE.time`, `.algbw`, `.busbw`, `.avg_busbw`, labelled with `size` and `place`"
CHECKED = "nccl-tests' sources to 2.17; generated tables and files; public logs of NCCL 2.20 and 2.22"
#: What the library says about the network.
BESIDE = ".*Internode latency set at"
#: `results` of nccl-tests: sizes, measured out of place and in place.
FORMAT = Format(
    NAME,
    __name__,
    markers={
        "algbw": r"#[ \t]{1,99}size[ \t].{0,300}\balgbw[ \t]+busbw",
        "algo throughput: ": r"algo throughput: \S{1,40} bps, \S{1,40} Gbps",
    },
    json=("of nccl-tests results", "results.*.size", "results.*.out_of_place|results.*.in_place"),
)
_IN_JSON = {"time": "time", "cpu_time": "cpu_time", "alg_bw": "algbw", "bus_bw": "busbw"}


def read(document: InputFile) -> tuple[Run, ...]:
    """The runs of a file: one, or several if programs with the same name and settings ran one after another."""
    return (_of_json(document),) if document.is_json() else NcclLog(document).read()


def _of_json(document: InputFile) -> Run:
    """Read `{"args": ["./all_reduce_perf", ...], "results": [{"size": 8, "out_of_place": {"time": 78.12, ...}, ...}]}`.

    `env` contains all environment variables of the job, so only the listed fields are used.
    """
    loaded = load_json(document.whole() or "{}", document.name, document.limits)
    run = RunBuilder(document, NAME, JsonSource(loaded))
    data = mapping(loaded.data)
    config = mapping(data.get("config"))
    program = str(next(iter(items(data.get("args"))), ""))
    found = PROGRAM.search(program.rpartition("/")[2])
    collective = found[1] if found else "collective"
    values = [*_json_values(data.get("results"))]
    add_values(run, collective, values, varying_details(values))
    average, bounds = mapping(data.get("average_bus_bandwidth")), mapping(data.get("out_of_bounds"))
    if "bandwidth" in average:
        path = ("average_bus_bandwidth", "bandwidth")
        run.value(Key(f"{collective}.avg_busbw"), "B/s", average["bandwidth"], path, per=1e-9)
    if checked(bounds.get("count"), "1")[0]:
        run.say("error", f"{bounds['count']} values are out of bounds", ("out_of_bounds",))
    # `devices` has one entry for each process, and each process has `nthreads` times `ngpus` GPUs.
    named = [mapping(device).get("device_info") for device in items(config.get("devices"))]
    threads, gpus = checked(config.get("nthreads"), "s")[0], checked(config.get("ngpus"), "s")[0]
    if named and isinstance(named[0], str):
        run.facts["gpu"] = named[0]
    if named and 0 < threads * gpus < 1 << 20:
        run.facts["gpu_count"] = run.facts["world_size"] = len(named) * int(threads * gpus)
    run.report_problems(numbers=False)
    return run.run()


def _json_values(results: object) -> Iterator[NcclValue]:
    for index, row in enumerate(map(mapping, items(results))):
        details = {name: str(row[name]).strip() for name in DETAILS if name in row}
        for side in ("out_of_place", "in_place"):
            cells, path = mapping(row.get(side)), ("results", index, side)
            wrong = checked(cells.get("nwrong"), "1")[0] > 0
            for name, metric in _IN_JSON.items():
                if name in cells:
                    per = 1e6 if metric.endswith("time") else 1e-9
                    place, size = side.partition("_")[0], str(row.get("size"))
                    yield NcclValue(size, details, place, metric, cells[name], per, path, wrong)

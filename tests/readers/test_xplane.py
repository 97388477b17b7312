"""Profiles of JAX and XLA: one that JAX wrote (`fixtures/xplane`), and files made from the fields of xplane.proto."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done
from hypothesis import given
from hypothesis import strategies as st
from reading import FIXTURES, SHARED, errors, run_of, said, steps_of, values_of
from xplane_files import HOST, LAUNCHES, MS, STREAM, Event, plane, step

from perfgate.core.resource_limits import parse_limits
from perfgate.readers import Source, read

FILE = FIXTURES / "xplane" / "steps.xplane.pb"
#: `stepTimeMs` of the overview page that XProf 2.24.2 makes of this file.
OF_XPROF = [1.344951, 0.969874, 0.814512, 0.668735, 0.767062]
Command = Callable[..., Done]


def test_a_profile_of_jax_on_a_cpu() -> None:
    run = run_of(FILE.read_bytes())
    values = values_of(run)
    assert (run.format, said(run), steps_of(run)["step.time"]) == ("xplane", [], [0, 1, 2, 3, 4])
    assert [round(value * 1000, 6) for value in values["step.time"]] == OF_XPROF
    assert values["op.ynn_fusion.1"][0] == pytest.approx(552.382e-6, abs=0)
    assert {name for name in values if name.startswith("op.")} == {
        "op.ynn_fusion",
        "op.ynn_fusion.1",
        "op.wrapped_tanh",
    }
    sums = [sum(values[f"op.{name}"][at] for name in ("ynn_fusion", "ynn_fusion.1", "wrapped_tanh")) for at in range(5)]
    assert values["step.device_compute"] == pytest.approx(sums)  # they run one after the other
    assert len(values["range.PjitFunction(step)"]) == 5  # JAX writes each twice, one in the other


def test_a_profile_of_gpus() -> None:
    streams = {
        "Stream #13(Compute)": [
            ("gemm", 0, 4 * MS),
            ("gemm", 2 * MS, 4 * MS),
            ("tanh", 12 * MS, MS),
            ("late", 90 * MS, MS),
        ],
        "Stream #14(MemcpyH2D)": [("MemcpyH2D", MS, 7 * MS)],
        "Source": [("not read", 0, MS)],
    }
    run = run_of(HOST + plane("/device:GPU:0", streams, "NVIDIA H100") + plane("/device:GPU:1", {}))
    assert (said(run), dict(run.environment)) == ([], {"gpu": "NVIDIA H100"})
    assert values_of(run) == {
        "step.time": [0.010, 0.012],
        "range.data": [0.001],
        'kernel.gemm{device="0"}': [0.004],
        'kernel.tanh{device="0"}': [0.001],
        'kernel.MemcpyH2D{device="0"}': [0.007],
        'step.device_compute{device="0"}': [0.008, 0.001],
    }
    assert steps_of(run)['kernel.tanh{device="0"}'] == [4]


def test_the_exact_work_of_steps_on_a_gpu() -> None:
    run = run_of(plane("/host:CPU", {"python": LAUNCHES}) + plane("/device:GPU:0", {"Stream #13(Compute)": STREAM}))
    none = {
        f'work.{name}{{device="0", kind="{kind}"}}': [0, 0]
        for name in ("copies", "copied_bytes")
        for kind in ("HtoD", "DtoD")
    }
    assert {name: values for name, values in values_of(run).items() if name.startswith("work.")} == none | {
        "work.launches": [1, 0],
        "work.graph_launches": [0, 1],
        'work.kernels{device="0"}': [1, 3],
        'work.blocks{device="0"}': [24, 15],
        'work.memsets{device="0"}': [0, 1],
        'work.copies{device="0", kind="DtoH"}': [0, 1],
        'work.copied_bytes{device="0", kind="DtoH"}': [0, 64],
        'work.device_time{device="0"}': [0.001, 0.005],
    }
    assert steps_of(run)["work.launches"] == [3, 4]


def test_kernels_without_launches_are_no_exact_work() -> None:
    for host in (HOST, plane("/host:CPU", {"python": LAUNCHES[2:]})):
        run = run_of(host + plane("/device:GPU:0", {"Stream #13(Compute)": [("gemm", 0, MS)]}))
        assert not [name for name in values_of(run) if name.startswith("work.")]


@pytest.mark.shared
def test_the_exact_work_of_a_real_profile_of_a_gpu() -> None:
    profile = SHARED / "score/gpu/others/jax/plugins/profile/run/vm.xplane.pb"
    values = values_of(run_of(profile.read_bytes()))
    counts = {"kernels": 14, "memsets": 5, "blocks": 232074}
    found = {name: values[f'work.{name}{{device="0"}}'] for name in counts}
    assert found == {name: [count] * 8 for name, count in counts.items()}
    assert (values["work.launches"], values["work.graph_launches"]) == ([0] * 8, [1] * 8)


def test_a_profile_of_a_tpu_without_steps_of_the_host() -> None:
    lines: dict[str, list[Event]] = {
        "Steps": [("0", 0, 9 * MS), ("1", 10 * MS, 11 * MS)],
        "XLA Modules": [("jit_step(1234567)", 0, 8 * MS)],
        "XLA Ops": [("%fusion.3 = f32[8]{0} fusion(%p)", 0, 5 * MS), ("copy.1", 5 * MS, MS)],
    }
    run = run_of(plane("/device:TPU:1", lines, "TPU v5 lite"))
    assert (said(run), dict(run.environment)) == ([], {"gpu": "TPU v5 lite"})
    assert values_of(run) == {
        'step.device_time{device="1"}': [0.009, 0.011],
        'module.jit_step{device="1"}': [0.008],
        'op.fusion.3{device="1"}': [0.005],
        'op.copy.1{device="1"}': [0.001],
    }


def test_a_profile_without_steps_says_so() -> None:
    run = run_of(plane("/device:GPU:0", {"Stream #1": [("gemm", 0, MS), ("gemm", 5 * MS, MS)]}))
    assert values_of(run) == {'kernel.gemm{device="0"}': [0.001, 0.001]}
    assert "this profile has no steps: annotate them" in said(run)[0]


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**12)), min_size=1, max_size=20))
def test_steps_that_were_written_are_read(steps: list[tuple[int, int]]) -> None:
    at, events = 0, []
    for index, duration in steps:
        events.append(step(index, at, duration))
        at += duration + 1
    run = run_of(plane("/host:CPU", {"python": events}))
    assert values_of(run)["step.time"] == [duration / 1e12 for _, duration in steps]
    assert steps_of(run)["step.time"] == [index for index, _ in steps]


def test_a_negative_duration_is_refused() -> None:
    assert "step.time: -1000" in errors(run_of(plane("/host:CPU", {"python": [step(0, 0, -1000)]})))[0]


def test_damaged_profiles() -> None:
    data, chance = FILE.read_bytes(), random.Random(1)
    assert "is damaged or cut off, and cannot be read" in errors(run_of(data[:5000]))[0]
    for _ in range(150):
        at = chance.randrange(40, len(data))
        run = run_of(data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :], "xplane")
        assert all(value >= 0 for values in values_of(run).values() for value in values)


def test_a_profile_beyond_a_limit() -> None:
    (run,) = read(Source("a.xplane.pb", [FILE.read_bytes()], parse_limits("document_bytes=1KiB")))
    assert "a.xplane.pb: error: this profile is larger than the limit document_bytes=1KiB allows" in errors(run)[0]


#: What jax.profiler writes beside a profile, for viewers.
VIEWER = (
    b'{"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"traceEvents":['
    b'{"ph":"M","pid":701,"name":"process_name","args":{"name":"/host:CPU"}},'
    b'{"ph":"X","pid":701,"tid":1,"ts":42.5,"dur":17.25,"name":"PjitFunction(step)"},{}]}'
)


def test_the_trace_for_viewers_is_refused() -> None:
    run = run_of(VIEWER)
    assert (run.format, run.series) == ("xplane", ())
    assert "this is a copy for trace viewers: give the *.xplane.pb beside it" in errors(run)[0]


@pytest.mark.parametrize("copy", ["vm.trace.json.gz", "perfetto_trace.json.gz"])
def test_a_folder_of_jax_is_read_from_its_profile(perfgate: Command, folder: Path, copy: str) -> None:
    inner = folder / "jax/plugins/profile/run"
    inner.mkdir(parents=True)
    (inner / copy).write_bytes(gzip.compress(VIEWER))
    assert "give the *.xplane.pb" in perfgate("inspect", "jax").said
    (inner / "vm.xplane.pb").write_bytes(FILE.read_bytes())
    (run,) = json.loads(perfgate("inspect", "--json", "jax").out)["runs"]
    assert (run["format"], {series["metric"] for series in run["series"]} >= {"step.time"}) == ("xplane", True)


@pytest.mark.frameworks
def test_what_jax_writes_now(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    script = (FILE.parent / "make.py").read_text().replace("Path(__file__).with_name(", f"Path({str(tmp_path)!r}, ")
    subprocess.run([sys.executable, "-c", script], check=True)
    run = run_of((tmp_path / "steps.xplane.pb").read_bytes())
    values = values_of(run)
    assert (run.format, errors(run), steps_of(run)["step.time"]) == ("xplane", [], [0, 1, 2, 3, 4])
    assert all(
        0 < compute <= time for compute, time in zip(values["step.device_compute"], values["step.time"], strict=True)
    )

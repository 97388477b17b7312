"""A Recorder watches the machine: one sampler a host, which outlives the program; and it tells when steps began."""

import json
import os
import signal
import subprocess
import sys
import time
import warnings

import pytest

from perfgate.integrations.callback import RecordingCallback
from perfgate.recorder import RecorderWarning, watch
from perfgate.recorder.recorder import Recorder
from perfgate.recorder.watch import WATCHED, is_first_of_host

PLACES = ("LOCAL_RANK", "RANK", "WORLD_SIZE", "SLURM_LOCALID", "SLURM_PROCID", WATCHED)


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch):
    for name in PLACES:
        monkeypatch.delenv(name, raising=False)


def read(path):
    document = json.loads(path.read_text())
    return document["schema"], {one["metric"]: one for one in document["series"]}


def test_the_machine_is_recorded_beside_the_results(tmp_path):
    child = 0
    with Recorder(tmp_path / "r.json", machine=True) as recorder:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python 3.12 warns of threads
            child = os.fork()  # a worker that loads data keeps what is open
        if not child:
            time.sleep(60)
            os._exit(0)
        for _ in range(3):
            recorder.step()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    schema, machine = read(tmp_path / "r.json.machine")
    assert schema == "perfgate.results/1"  # complete
    assert "machine.cpu.busy" in machine
    marks = read(tmp_path / "r.json")[1]["machine.elapsed"]
    assert marks["steps"] == [1, 3]  # one a second, and the last one
    assert 0 <= marks["values"][0] <= marks["values"][1]


def test_the_sampler_completes_its_file_if_the_program_is_killed(tmp_path):
    program = "import os, perfgate; perfgate.Recorder('r.json', machine=True); os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=False)
    beside, ends = tmp_path / "r.json.machine", time.monotonic() + 20
    while b'"perfgate.results/1"' not in beside.read_bytes()[:40] and time.monotonic() < ends:
        time.sleep(0.05)
    assert "machine.cpu.busy" in read(beside)[1]


def test_nothing_is_started_unless_it_is_asked_for(tmp_path):
    with Recorder(tmp_path / "r.json") as recorder:
        recorder.step()
        recorder.record("loss", 1.0, unit="1")
    assert os.listdir(tmp_path) == ["r.json"]
    assert set(read(tmp_path / "r.json")[1]) == {"loss"}


def test_under_perfgate_run_no_second_sampler_starts(tmp_path, monkeypatch):
    monkeypatch.setenv(WATCHED, f"{os.uname().nodename} {time.monotonic_ns() - 2_000_000_000}")
    with Recorder(tmp_path / "r.json", machine=True) as recorder:
        recorder.step()
    assert os.listdir(tmp_path) == ["r.json"]
    assert 2 <= read(tmp_path / "r.json")[1]["machine.elapsed"]["values"][0] < 60


@pytest.mark.parametrize(
    "driver",
    [
        "time.sleep(60)",
        "os.write(1, b'half a li'); time.sleep(60)",
        "os.write(1, b'a line\\n'); time.sleep(60)",
        "[os.write(1, b'x' * 9999) for _ in iter(int, 1)]",
    ],
)
def test_a_driver_that_hangs_does_not_stop_the_program(tmp_path, monkeypatch, driver):
    (tmp_path / "pynvml.py").write_text(f"import os, time\n{driver}\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setattr(watch, "_START_S", 0.1)
    monkeypatch.setattr(watch, "_PATIENCE_S", 0.1)
    process = watch.SamplerProcess(str(tmp_path / "r.json.machine"))
    process.end()
    assert not process.is_ready


@pytest.mark.parametrize("said", ["half a li", "a line\\n"])
def test_a_driver_that_prints_does_not_end_the_sampler(tmp_path, monkeypatch, said):
    (tmp_path / "pynvml.py").write_text(f"import os, time\nos.write(1, b'{said}')\ntime.sleep(0.2)\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    with Recorder(tmp_path / "r.json", machine=True) as rec:
        rec.value("loss", 1.0, unit="1")
        time.sleep(0.3)
    assert any(metric.startswith("machine.") for metric in read(tmp_path / "r.json.machine")[1])


def test_a_sampler_that_cannot_write_is_a_warning(tmp_path):
    (tmp_path / "r.json.machine").mkdir()
    with (
        pytest.warns(RecorderWarning, match="the machine is not watched"),
        Recorder(tmp_path / "r.json", machine=True) as rec,
    ):
        rec.value("loss", 1.0, unit="1")


def test_the_callbacks_pass_it_on(tmp_path):
    callback = RecordingCallback(tmp_path / "r.json", machine=True)
    callback._open(0, 1, ())
    callback.recorder.value("loss", 1.0, unit="1")
    callback._close()
    assert (tmp_path / "r.json.machine").exists()


@pytest.mark.parametrize(
    ("rank", "environment", "is_first"),
    [
        (None, {}, True),
        (0, {}, True),
        (3, {}, False),
        (8, {"RANK": "8", "LOCAL_RANK": "0"}, True),
        (9, {"RANK": "9", "LOCAL_RANK": "1"}, False),
        (8, {"SLURM_PROCID": "8", "SLURM_LOCALID": "0"}, True),
        (3, {"SLURM_PROCID": "0", "SLURM_LOCALID": "0"}, False),  # the program started its ranks itself
    ],
)
def test_one_process_of_a_host_watches(rank, environment, is_first, monkeypatch):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert is_first_of_host(rank) is is_first


def test_the_files_of_all_hosts_of_a_job_are_read(folder, perfgate):
    (folder / "run").mkdir()
    for rank, host in ((0, "gpu-03"), (8, "gpu-04")):
        for end, series in (
            ("", {"metric": "step.time", "labels": {"rank": str(rank)}, "unit": "s", "values": [0.1, 0.2, 0.1]}),
            (".machine", {"metric": "machine.energy", "labels": {"device": "0"}, "unit": "J", "value": 600.0}),
        ):
            environment = {"host": host} if end else {}
            document = {"schema": "perfgate.results/1", "environment": environment, "series": [series]}
            (folder / f"run/results-rank{rank}.json{end}").write_text(json.dumps(document))
    (run,) = json.loads(perfgate("inspect", "--json", "run").out)["runs"]
    found = [one["labels"] for one in run["series"] if one["metric"] == "machine.energy"]
    assert found == [{"device": "0", "host": "gpu-03"}, {"device": "0", "host": "gpu-04"}]
    (energy,) = [one for one in run["series"] if one["metric"] == "energy.step"]
    assert energy["statistics"]["value"] == 400  # 1,200 J in 3 steps
    assert run["environment"]["host"] == "gpu-03, gpu-04"

"""Recorders of several processes, and of processes that die."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from perfgate import Recorder, RecorderError
from perfgate.workspace.inputs import read_runs

EAGER = "import perfgate.recorder.writer as writer; writer._WRITE_EVERY = 0"


def run_program(folder: Path, program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own."""
    clean = {name: value for name, value in os.environ.items() if name not in ("RANK", "LOCAL_RANK", "WORLD_SIZE")}
    text = f"import os, signal, sys\nfrom perfgate import Recorder\n{textwrap.dedent(program)}"
    return subprocess.run(
        [sys.executable, "-c", text],
        cwd=folder,
        env={**clean, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def read(path: Path) -> tuple[dict[str, list[float]], list[str]]:
    (run,) = read_runs([str(path)], as_given=True)
    return {str(series.key): series.values.tolist() for series in run.series}, [str(each) for each in run.problems]


pytestmark = pytest.mark.usefixtures("folder")

ENDS = {
    "killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "raised": "raise SystemExit(3)",
    "interrupted": "os.kill(os.getpid(), signal.SIGINT)",
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_what_was_recorded_survives_the_program(tmp_path: Path, end: str) -> None:
    done = run_program(
        tmp_path,
        f"""
        {EAGER}
        with Recorder("run.json", environment={{"gpu": "H200"}}) as rec:
            for number in range(5):
                rec.record("loss", number, unit="1")
                rec.step()
            {end}
        """,
    )
    assert done.returncode != 0
    found, problems = read(tmp_path / "run.json")
    assert found == {"loss": [0.0, 1.0, 2.0, 3.0, 4.0]}
    assert [text.split(": ")[1:3] for text in problems] == [["warning", "the recording was not closed"]]


def test_a_recorder_that_nobody_closes_keeps_everything(tmp_path: Path) -> None:
    done = run_program(tmp_path, 'rec = Recorder("run.json")\nrec.record("a", 1, unit="1")\ndel rec')
    assert (done.returncode, done.stderr) == (0, "")
    found, problems = read(tmp_path / "run.json")
    assert found == {"a": [1.0]}
    assert "the recording was not closed" in problems[0]


def test_exit_with_zero_is_an_end_like_any_other(tmp_path: Path) -> None:
    run_program(tmp_path, 'with Recorder("run.json") as rec:\n    rec.record("a", 1, unit="1")\n    sys.exit()')
    assert read(tmp_path / "run.json") == ({"a": [1.0]}, [])


def test_a_signal_handler_may_close(tmp_path: Path) -> None:
    done = run_program(
        tmp_path,
        f"""
        {EAGER}
        rec = Recorder("run.json")
        write = os.write
        def interrupted(file, data):
            os.kill(os.getpid(), signal.SIGTERM)
            return write(file, data)
        def close(number, frame):
            os.write = write
            rec.close()
            os._exit(0)
        signal.signal(signal.SIGTERM, close)
        rec.record("a", 1, unit="1")
        os.write = interrupted
        rec.record("a", 2, unit="1")
        """,
    )
    assert done.returncode == 0
    assert read(tmp_path / "run.json") == ({"a": [1.0, 2.0]}, [])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_cannot_use_it_and_harms_nothing(tmp_path: Path) -> None:
    done = run_program(
        tmp_path,
        """
        with Recorder("run.json") as rec:
            rec.record("a", 1, unit="1")
            child = os.fork()
            if child == 0:
                try:
                    with rec.span("load"):
                        pass
                except RuntimeError as error:
                    print(error)
                with Recorder("child.json") as own:
                    own.record("b", 2, unit="1")
                rec.close()
                sys.exit()
            os.waitpid(child, 0)
            rec.record("a", 3, unit="1")
        """,
    )
    assert done.stdout == "run.json is recorded by the parent process: create another Recorder in the forked process\n"
    assert done.stderr == ""
    assert read(tmp_path / "run.json") == ({"a": [1.0, 3.0]}, [])
    assert read(tmp_path / "child.json") == ({"b": [2.0]}, [])


@pytest.mark.skipif(sys.platform == "win32", reason="no locks")
def test_two_processes_cannot_record_one_file(tmp_path: Path) -> None:
    with Recorder(tmp_path / "run.json") as rec:
        rec.record("a", 1, unit="1")
        done = run_program(tmp_path, 'Recorder("run.json")')
        assert "run.json: another Recorder writes this file: close it first" in done.stderr
    assert read(tmp_path / "run.json") == ({"a": [1.0]}, [])


@pytest.mark.skipif(sys.platform == "win32", reason="no limit on the size of files")
def test_a_full_disk_is_a_warning_and_loses_nothing_that_was_written(tmp_path: Path) -> None:
    done = run_program(
        tmp_path,
        f"""
        import resource, time
        {EAGER}
        writer._TRY_AGAIN_AFTER = 0
        with Recorder("run.json") as rec:
            rec.record("a", 1, unit="1")
            unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize("run.json") + 20, unlimited[1]))
            for number in range(2, 9):
                rec.record("a", number, unit="1")
            print(open("run.json").read().splitlines()[-1])
        """,
    )
    assert done.returncode == 0
    assert done.stdout == '{"metric":"a","unit":"1","values":[1.0]}\n'
    assert done.stderr.count("RecorderWarning") == 1
    assert "run.json: cannot be written, so values may be missing; the program continues: File too large" in done.stderr
    found, problems = read(tmp_path / "run.json")
    assert found == {"a": [1.0]}
    assert "the recording was not closed" in problems[0]


def test_values_that_waited_are_written_when_there_is_room_again(tmp_path: Path) -> None:
    done = run_program(
        tmp_path,
        f"""
        import warnings
        {EAGER}
        writer._TRY_AGAIN_AFTER = 0
        warnings.simplefilter("ignore")
        write = os.write
        def full(file, data):
            write(file, data[:5])
            raise OSError(28, "No space left on device")
        with Recorder("run.json") as rec:
            rec.record("a", 1, unit="1")
            os.write = full
            rec.record("a", 2, unit="1")
            os.write = write
            rec.record("a", 3, unit="1")
        """,
    )
    assert done.stderr == ""
    assert read(tmp_path / "run.json") == ({"a": [1.0, 2.0, 3.0]}, [])


def test_values_that_found_no_room_are_counted_in_the_recording(tmp_path: Path) -> None:
    done = run_program(
        tmp_path,
        f"""
        {EAGER}
        writer._TRY_AGAIN_AFTER = 0
        writer._MOST_WAITING = 2
        write = os.write
        def full(file, data):
            raise OSError(28, "No space left on device")
        with Recorder("run.json") as rec:
            os.write = full
            for number in range(5):
                rec.record("a", number, unit="1")
            os.write = write
        """,
    )
    assert (done.returncode, done.stderr.count("RecorderWarning")) == (0, 1)
    found, problems = read(tmp_path / "run.json")
    assert found == {"a": [0.0, 1.0]}
    assert [text.split(": ", 1)[1] for text in problems] == [
        "warning: the recording is incomplete: 3 values could not be written"
    ]


@pytest.mark.parametrize("change", ["os.truncate('run.json', 0)", "open('run.json', 'a').write('other')"])
def test_another_program_that_changes_the_file_does_not_stop_this_one(tmp_path: Path, change: str) -> None:
    done = run_program(tmp_path, f'with Recorder("run.json") as rec:\n    rec.record("a", 1, unit="1")\n    {change}')
    assert (done.returncode, done.stderr.count("RecorderWarning")) == (0, 1)
    assert "another program has written to it" in done.stderr
    assert read(tmp_path / "run.json")[1] != []


def test_no_room_for_the_document_leaves_a_closed_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from perfgate.recorder import journal

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    rec = Recorder(tmp_path / "run.json")
    rec.record("a", 1, unit="1")
    monkeypatch.setattr(journal.tempfile, "mkstemp", full)
    with pytest.warns(
        UserWarning, match="could not become a results document; perfgate reads it as it is: No space left"
    ):
        rec.close()
    assert read(tmp_path / "run.json") == ({"a": [1.0]}, [])


@pytest.mark.parametrize(
    ("variables", "name", "label"),
    [
        ({}, "run.json", None),
        ({"RANK": "3", "WORLD_SIZE": "8"}, "run-rank3.json", "3"),
        ({"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "8"}, "run-rank3.json", "3"),
        ({"LOCAL_RANK": "1"}, "run-rank1.json", "1"),
        ({"RANK": "0", "WORLD_SIZE": "1"}, "run.json", None),
    ],
)
def test_the_rank_is_in_the_name_and_on_every_series(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], name: str, label: str | None
) -> None:
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    with Recorder(tmp_path / "run.json") as rec:
        rec.record("a", 1, unit="1")
    assert rec.path == str(tmp_path / name)
    document = json.loads(Path(rec.path).read_text())
    assert document.get("environment") == ({"world_size": int(variables["WORLD_SIZE"])} if len(variables) > 1 else None)
    assert document["series"][0].get("labels") == (None if label is None else {"rank": label})


def test_the_ranks_of_a_job_are_one_run(tmp_path: Path) -> None:
    for rank in range(2):
        with Recorder(tmp_path / "run" / "r{rank}.json", rank=rank, world_size=2) as rec:
            rec.record("a", rank, unit="1")
    found, problems = read(tmp_path / "run")
    assert (found, problems) == ({'a{rank="0"}': [0.0], 'a{rank="1"}': [1.0]}, [])


@pytest.mark.parametrize(
    ("variables", "arguments", "said"),
    [
        ({"RANK": "first"}, {}, "RANK is 'first', not a number: give rank="),
        ({"WORLD_SIZE": "8"}, {}, "the job has 8 processes, but the rank of this one is unknown: give rank="),
        ({}, {"rank": 8, "world_size": 8}, "rank 8 of 8 processes is impossible: ranks count from 0"),
        ({}, {"rank": -1}, "rank -1 is impossible: ranks count from 0"),
    ],
)
def test_a_rank_that_is_not_clear_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], arguments: dict[str, int], said: str
) -> None:
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    with pytest.raises(RecorderError) as refused:
        Recorder(tmp_path / "run.json", **arguments)  # type: ignore[arg-type]
    assert said in str(refused.value)


def test_a_given_rank_needs_no_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("RANK", "WORLD_SIZE"):
        monkeypatch.setenv(variable, "first")
    with Recorder(tmp_path / "run.json", rank=1, world_size=2) as rec:
        rec.record("a", 1, unit="1")
    assert (rec.rank, rec.world_size) == (1, 2)

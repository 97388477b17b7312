"""The examples of the pages about runners, clusters and containers, with stand-ins for the machines."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import Repository, steady, write_log, write_rules
from pages import DOCS, ROOT, blocks

Done = subprocess.CompletedProcess[str]


def example(page: str, name: str) -> str:
    [found] = [block.text for block in blocks((DOCS / "how-to" / page).read_text()) if block.file == name]
    return found


def program(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/bash\n{script}\n")
    path.chmod(0o755)


def bash(script: str, bin: Path, **variables: str) -> Done:
    environment = {**os.environ, "PATH": f"{bin}:{os.environ['PATH']}", **variables}
    return subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "script", [example("self-hosted-runner.md", "before-job.sh"), example("slurm.md", "ci/perf-nodes.sbatch")]
)
def test_shellcheck_finds_nothing(script: str) -> None:
    found = shutil.which("shellcheck")
    if found is None:
        pytest.skip("shellcheck is not installed")
    # $perfgate is two words on purpose.
    words = [found, "--exclude=SC2086", "-"]
    done = subprocess.run(words, input=script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(("users", "code"), [("", 0), ("4711, python", 1)])
def test_a_job_begins_on_an_idle_gpu_without_kernels_of_another_job(folder: Path, users: str, code: int) -> None:
    program(folder / "bin/nvidia-smi", f"echo -n '{users}'")
    (folder / "triton").mkdir()
    places = {"TRITON_CACHE_DIR": str(folder / "triton"), "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
    done = bash(example("self-hosted-runner.md", "before-job.sh"), folder / "bin", **places)
    assert (done.returncode, users in done.stdout) == (code, True), done.stderr
    assert not (folder / "triton").exists()


@pytest.mark.parametrize(("milliseconds", "code"), [(100, 0), (200, 1)])
def test_the_ranks_of_a_slurm_job_are_judged_by_the_rules_of_the_target(
    folder: Path, milliseconds: int, code: int
) -> None:
    repository = Repository(folder)
    write_rules(folder, "forward p95 under 150 ms")
    repository.git("add", "rules")
    repository.git("commit", "-q", "-m", "base")
    repository.git("branch", "-M", "main")
    repository.git("remote", "add", "origin", ".")
    write_rules(folder, "forward p95 under 1 h")
    write_log(folder / "rank.txt", forward=steady(milliseconds))
    place = '"$(echo "${1#--output=}" | sed "s/%t/$rank/")"'
    program(folder / "bin/srun", f'for rank in 0 1; do sed "s/Rank 0/Rank $rank/" rank.txt > {place}; done')
    script = example("slurm.md", "ci/perf-nodes.sbatch")
    variables = {"SLURM_JOB_ID": "7", "PERFGATE": sys.executable, "PYTHONPATH": str(ROOT)}
    done = bash(script, folder / "bin", **variables)
    assert done.returncode == code, done.stdout + done.stderr
    assert {path.name for path in (folder / "results-7").iterdir()} == {"rank-0.log", "rank-1.log"}
    assert (folder / "perfgate.xml").is_file()


@pytest.fixture
def job() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(example("kubernetes.md", "perf-gate.yaml"))
    return found


def test_a_job_of_kubernetes_is_tried_once_and_has_no_rights(job: dict[str, Any]) -> None:
    assert (job["apiVersion"], job["kind"], job["spec"]["backoffLimit"]) == ("batch/v1", "Job", 0)
    pod = job["spec"]["template"]["spec"]
    assert (pod["restartPolicy"], pod["automountServiceAccountToken"]) == ("Never", False)
    user = re.search(r"^USER (\d+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert user is not None
    assert pod["securityContext"]["runAsUser"] == int(user[1])
    volumes = {volume["name"] for volume in pod["volumes"]}
    for container in [*pod["initContainers"], *pod["containers"]]:
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes


@pytest.mark.parametrize(("run", "code"), [("change", 0), ("slow", 1)])
def test_the_arguments_of_the_judge_judge(folder: Path, job: dict[str, Any], run: str, code: int) -> None:
    [judge] = job["spec"]["template"]["spec"]["containers"]
    shutil.copytree(ROOT / "examples" / "tiny-gpt", folder / "policy")
    shutil.copy(folder / "policy" / "runs" / f"{run}.log", folder / "train.log")
    (folder / "env.json").write_text("{}")
    words = [word.replace("/policy", str(folder / "policy")) for word in judge["args"]]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "perfgate", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr

"""Trainings in two spawned processes, for real: the callback is pickled, and each process writes its own file."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from recorded import recorded

pytestmark = pytest.mark.frameworks
HERE = Path(__file__).parent

LIGHTNING = """\
import importlib, sys, warnings
import models
import torch
package = importlib.import_module(sys.argv[1])
Model = models.lightning_model(package)
Model.__module__, Model.__qualname__ = "__main__", "Model"

if __name__ == "__main__":
    from perfgate.integrations.lightning import RecorderCallback

    trainer = package.Trainer(accelerator="cpu", devices=2, strategy="ddp_spawn", max_steps=4, logger=False,
                              enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
                              callbacks=[RecorderCallback("run/results.json")])
    trainer.fit(Model(), torch.utils.data.DataLoader(models.Texts(100), batch_size=2))
"""

TRANSFORMERS = """\
import os, sys
import models
import torch
import transformers

def train(rank, callback, port):
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2",
                   "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    arguments = transformers.TrainingArguments(
        output_dir="out", use_cpu=True, ddp_backend="gloo", report_to=[], disable_tqdm=True, max_steps=4,
        per_device_train_batch_size=2, save_strategy="no", include_num_input_tokens_seen=True)
    transformers.Trainer(models.Plain(), arguments, train_dataset=models.Texts(100), callbacks=[callback]).train()

if __name__ == "__main__":
    from perfgate.integrations.transformers import RecorderCallback

    torch.multiprocessing.spawn(train, args=(RecorderCallback("run/results.json"), sys.argv[1]), nprocs=2)
"""


def run_program(text: str, *words: str) -> None:
    Path("train.py").write_text(text)
    paths = os.pathsep.join([str(HERE), str(HERE.parent.parent)])
    done = subprocess.run(
        [sys.executable, "train.py", *words],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "RecorderWarning" not in done.stderr


def check_two_ranks(tokens: int) -> None:
    assert sorted(path.name for path in Path("run").iterdir()) == ["results-rank0.json", "results-rank1.json"]
    for rank in (0, 1):
        run = recorded(f"run/results-rank{rank}.json")
        assert (run.problems, run.environment["world_size"]) == ((), 2)
        found = {series.key.metric: series for series in run.series}
        assert found["step.time"].key.labels == (("rank", str(rank)),)
        assert found["step.time"].steps is not None
        assert found["step.time"].steps.tolist() == [0, 1, 2, 3]
        seconds = found["step.time"].values + found["data_time"].values
        assert (found["tokens_per_second"].values <= 1.01 * tokens / seconds).all()  # of this rank alone


@pytest.mark.parametrize("package", ["lightning.pytorch", "pytorch_lightning"])
def test_lightning(package: str, folder: Path) -> None:
    pytest.importorskip("torch", reason="needs torch")
    pytest.importorskip(package, reason=f"needs {package}")
    run_program(LIGHTNING, package)
    check_two_ranks(tokens=14)


def test_transformers(folder: Path) -> None:
    pytest.importorskip("torch", reason="needs torch")
    pytest.importorskip("transformers", reason="needs transformers")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    run_program(TRANSFORMERS, port)
    check_two_ranks(tokens=14)

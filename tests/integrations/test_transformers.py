"""The callback in a real Trainer of transformers, on the CPU."""

from __future__ import annotations

from pathlib import Path
from time import sleep
from typing import Any

import pytest
from recorded import recorded

torch = pytest.importorskip("torch", reason="needs torch")
transformers = pytest.importorskip("transformers", reason="needs transformers")
pytest.importorskip("accelerate", reason="needs accelerate")
pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.filterwarnings("ignore"),  # the framework's own
]

#: Milliseconds that each part sleeps: every one is to be found in its own metric.
LOAD, FORWARD, OPTIMIZER, EVALUATION = 3, 5, 13, 50


class Numbers(torch.utils.data.Dataset):
    """Twelve numbers, each slow to get."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> dict[str, Any]:
        sleep(LOAD / 1000)
        return {"x": torch.tensor([float(index)]), "labels": torch.tensor([1.0])}


class Model(torch.nn.Module):
    """A model of one weight, slow forward and slower to evaluate."""

    def __init__(self, fail_at: int | None = None) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.fail_at = fail_at
        self.batches = 0

    def forward(self, x: Any, labels: Any = None) -> dict[str, Any]:
        if self.batches == self.fail_at:
            raise KeyError("the model failed")
        self.batches += self.training
        sleep((FORWARD if self.training else EVALUATION) / 1000)
        found = self.layer(x)
        return {"loss": ((found - labels) ** 2).mean(), "logits": found}


class SlowSGD(torch.optim.SGD):
    """Steps slowly."""

    def step(self, closure: Any = None) -> Any:
        loss = super().step(closure)
        sleep(OPTIMIZER / 1000)
        return loss


def train(callback: Any, model: Any, **options: Any) -> None:
    arguments = transformers.TrainingArguments(
        output_dir="out",
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        per_device_train_batch_size=1,
        per_device_eval_batch_size=6,
        num_train_epochs=1,
        **options,
    )
    optimizer = SlowSGD(model.parameters(), lr=0.001)
    trainer = transformers.Trainer(
        model,
        arguments,
        train_dataset=Numbers(),
        eval_dataset=Numbers(),
        callbacks=[callback],
        optimizers=(optimizer, torch.optim.lr_scheduler.ConstantLR(optimizer)),
    )
    trainer.train()


def test_every_part_of_a_step_is_found_in_its_metric(folder: Path) -> None:
    from perfgate.integrations.transformers import RecorderCallback

    callback = RecorderCallback("run/results.json", environment={"machine": "ours"}, commit="4f2a9c1")
    train(callback, Model(), eval_strategy="steps", eval_steps=3, logging_steps=1)
    run = recorded("run/results.json")
    assert run.problems == ()
    assert (run.commit, run.environment["machine"], run.environment["world_size"]) == ("4f2a9c1", "ours", 1)
    found = {str(series.key): series for series in run.series}
    least = {
        "data_time": LOAD,
        "forward_backward": FORWARD,
        "optimizer_step": OPTIMIZER,
        "step.time": FORWARD + OPTIMIZER,
    }
    parts = {f"time.{part}" for part in ("start", "step", "data", "other", "total")}
    known = {*found} - {"evaluation_time", "time.evaluation", "checkpoint_time", "time.checkpoint"}
    assert known == {*least, "epoch", "samples_per_second", "goodput", *parts}
    for metric, milliseconds in least.items():
        assert found[metric].steps.tolist() == [*range(12)], metric
        # of the data, the last batch was loaded before: accelerate is one ahead
        assert sorted(found[metric].values)[metric == "data_time"] >= milliseconds / 1000, metric
    assert (found["forward_backward"].values + found["optimizer_step"].values <= found["step.time"].values).all()
    assert len(found["epoch"].values) == 1
    assert sorted(found["data_time"].values)[8] < EVALUATION / 1000  # four evaluations are not in it


def test_accumulated_gradients_are_values_of_one_step(folder: Path) -> None:
    from perfgate.integrations.transformers import RecorderCallback

    train(RecorderCallback("run.json"), Model(), gradient_accumulation_steps=4)
    found = {
        str(series.key): series.steps.tolist() for series in recorded("run.json").series if series.steps is not None
    }
    assert found["step.time"] == [0, 1, 2]
    assert found["forward_backward"] == [step for step in range(3) for _ in range(4)]


def test_a_training_that_fails_is_not_closed(folder: Path) -> None:
    from perfgate.integrations.transformers import RecorderCallback

    callback = RecorderCallback("run.json")
    with pytest.raises(KeyError, match="the model failed"):
        train(callback, Model(fail_at=4))
    callback.recorder.abort()  # as the end of the program does
    run = recorded("run.json")
    assert {str(series.key): len(series.values) for series in run.series}["step.time"] == 4
    assert "the recording was not closed" in str(run.problems)

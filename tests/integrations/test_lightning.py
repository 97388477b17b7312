"""The callback in real Lightning trainers, of both packages, on the CPU."""

from __future__ import annotations

from pathlib import Path
from time import sleep
from types import ModuleType
from typing import Any

import pytest
from recorded import recorded

torch = pytest.importorskip("torch", reason="needs torch")
pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.filterwarnings("ignore"),  # the framework's own
]

#: Milliseconds that each part of the model sleeps: every one is to be found in its own metric.
LOAD, FORWARD, BACKWARD, OPTIMIZER, VALIDATION = 3, 5, 8, 13, 50


@pytest.fixture(params=["lightning.pytorch", "pytorch_lightning"])
def lightning(request: pytest.FixtureRequest, folder: Path) -> ModuleType:
    return pytest.importorskip(request.param, reason=f"needs {request.param}")


class Slow(torch.autograd.Function):
    """Passes a number on, and takes its time on the way back."""

    @staticmethod
    def forward(context: Any, x: Any) -> Any:
        return x.clone()

    @staticmethod
    def backward(context: Any, gradient: Any) -> Any:
        sleep(BACKWARD / 1000)
        return gradient


class Numbers(torch.utils.data.Dataset):
    """Six numbers, each slow to get."""

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> Any:
        sleep(LOAD / 1000)
        return torch.tensor([float(index)])


class SlowSGD(torch.optim.SGD):
    """Steps slowly."""

    def step(self, closure: Any = None) -> Any:
        loss = super().step(closure)
        sleep(OPTIMIZER / 1000)
        return loss


def model_of(lightning: ModuleType, fail_at: int | None = None) -> Any:
    """A model of one weight, slow everywhere."""

    class Model(lightning.LightningModule):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            if batch_idx == fail_at:
                raise KeyError("the model failed")
            sleep(FORWARD / 1000)
            return Slow.apply(self.layer(batch)).sum()

        def validation_step(self, batch: Any, batch_idx: int) -> None:
            sleep(VALIDATION / 1000)

        def configure_optimizers(self) -> Any:
            return SlowSGD(self.parameters(), lr=0.01)

    return Model()


def fit(lightning: ModuleType, callback: Any, model: Any, **options: Any) -> None:
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = lightning.Trainer(
        accelerator="cpu", devices=1, enable_checkpointing=False, callbacks=[callback], **{**quiet, **options}
    )
    loader = torch.utils.data.DataLoader(Numbers(), batch_size=1)
    trainer.fit(model, loader, torch.utils.data.DataLoader(torch.zeros(2, 1)))


def test_every_part_of_a_step_is_found_in_its_metric(lightning: ModuleType) -> None:
    from perfgate.integrations.lightning import RecorderCallback

    callback = RecorderCallback("run/results.json", environment={"machine": "ours"}, commit="4f2a9c1")
    assert isinstance(callback, lightning.Callback)
    fit(lightning, callback, model_of(lightning), max_epochs=2, val_check_interval=3)
    run = recorded("run/results.json")
    assert run.problems == ()
    assert (run.commit, run.environment["machine"], run.environment["world_size"]) == ("4f2a9c1", "ours", 1)
    found = {str(series.key): series for series in run.series}
    least = {
        "data_time": LOAD,
        "forward": FORWARD,
        "backward": BACKWARD,
        "optimizer_step": OPTIMIZER,
        "step.time": FORWARD + BACKWARD + OPTIMIZER,
    }
    parts = {f"time.{part}" for part in ("start", "step", "data", "evaluation", "other", "total")}
    assert set(found) == {*least, "epoch", "samples_per_second", "evaluation_time", "goodput", *parts}
    assert found["evaluation_time"].values.min() >= 2 * VALIDATION / 1000  # of two batches
    assert len(found["evaluation_time"].values) == 4  # without the sanity check
    assert found["time.start"].values[0] >= 2 * VALIDATION / 1000
    assert found["time.other"].values[0] < 0.5 * found["time.total"].values[0]
    for metric, milliseconds in least.items():
        assert found[metric].steps.tolist() == [*range(12)], metric
        assert found[metric].values.min() >= milliseconds / 1000, metric
    whole = found["forward"].values + found["backward"].values + found["optimizer_step"].values
    assert (whole <= found["step.time"].values).all()
    assert found["epoch"].values.min() >= (6 * sum(least.values()) - 6 * least["step.time"] + 4 * VALIDATION) / 1000
    assert sorted(found["data_time"].values)[6] < VALIDATION / 1000  # validation is not in it


def test_accumulated_gradients_have_batches_without_an_optimizer_step(lightning: ModuleType) -> None:
    from perfgate.integrations.lightning import RecorderCallback

    callback = RecorderCallback("run.json")
    fit(lightning, callback, model_of(lightning), max_epochs=1, accumulate_grad_batches=3)
    found = {
        str(series.key): series.steps.tolist() for series in recorded("run.json").series if series.steps is not None
    }
    assert found["optimizer_step"] == [2, 5]
    assert found["backward"] == [*range(6)]


def test_a_fit_that_fails_is_not_closed(lightning: ModuleType) -> None:
    from perfgate.integrations.lightning import RecorderCallback

    with pytest.raises(KeyError, match="the model failed"):
        fit(lightning, RecorderCallback("run.json"), model_of(lightning, fail_at=4), max_epochs=1)
    run = recorded("run.json")
    assert {str(series.key): len(series.values) for series in run.series}["step.time"] == 4
    assert "the recording was not closed" in str(run.problems)


def test_values_of_ones_own_and_subclasses(lightning: ModuleType) -> None:
    from perfgate.integrations.lightning import RecorderCallback

    class Mine(RecorderCallback):
        def on_train_batch_end(self, trainer: Any, pl_module: Any, *rest: Any) -> None:
            self.recorder.record("weight", float(pl_module.layer.weight), unit="1")
            super().on_train_batch_end(trainer, pl_module, *rest)

    fit(lightning, Mine("run.json"), model_of(lightning), max_steps=3)
    assert {str(series.key): len(series.values) for series in recorded("run.json").series}["weight"] == 3

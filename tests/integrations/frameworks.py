"""Trainings for the tests of the callbacks: six steps of 2 samples with 7 tokens each, two checkpoints, one callback.

Each framework is there twice: as a stand-in, which calls the hooks in the order of the real one and is always tested,
and for real, for `pytest -m frameworks`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from time import sleep
from types import ModuleType, SimpleNamespace
from typing import Any, Protocol

import pytest

STEPS, SAMPLES, TOKENS, SAVE_EVERY = 6, 2, 7, 3

#: Milliseconds that saving a checkpoint takes at least.
SAVING = 40


class Framework(Protocol):
    """A framework as the tests use it."""

    #: The callback's class.
    callback: Any

    def train(self, callback: Any, *, fail_at: int | None = None) -> Any:
        """Train from the start; return the trainer."""

    def resume(self, callback: Any) -> None:
        """Resume a training of 3 steps from its checkpoint, up to step 6."""

    def evaluate(self, callback: Any) -> Any:
        """Evaluate without training; return the trainer."""

    def train_again(self, trainer: Any) -> None:
        """Train with a trainer that has evaluated or trained before."""


# --- stand-ins ----------------------------------------------------------------------------------------------------


def stand_in(monkeypatch: pytest.MonkeyPatch, ours: str, **modules: ModuleType) -> Any:
    """Import a callback of perfgate anew, with these modules as its framework."""
    for name in ("transformers", "lightning", "lightning.pytorch", "pytorch_lightning"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, f"perfgate.integrations.{ours}", raising=False)
    module = import_module(f"perfgate.integrations.{ours}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module.RecorderCallback


def module_of(name: str, **contents: Any) -> ModuleType:
    module = ModuleType(name)
    module.__dict__.update(contents)
    return module


class Hooks:
    """As transformers.TrainerCallback and lightning.Callback: hooks that do nothing."""

    def on_sanity_check_end(self, trainer: Any, model: Any) -> None:
        pass


class StandInTransformers:
    """Calls the hooks of transformers.TrainerCallback as Trainer does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        module = module_of("transformers", TrainerCallback=Hooks)
        self.callback = stand_in(monkeypatch, "transformers", transformers=module)

    def train(self, callback: Any, *, fail_at: int | None = None, start: int = 0) -> Any:
        trainer = SimpleNamespace(callback=callback, fail_at=fail_at, start=start)
        self.train_again(trainer)
        return trainer

    def resume(self, callback: Any) -> None:
        self.train(callback, start=SAVE_EVERY)

    def evaluate(self, callback: Any) -> Any:
        trainer = SimpleNamespace(callback=callback, fail_at=None, start=0)
        for event in ("on_prediction_step", "on_log", "on_evaluate"):
            getattr(callback, event, lambda *_, **__: None)(self.arguments(), SimpleNamespace(global_step=0), None)
        return trainer

    def arguments(self) -> Any:
        device = SimpleNamespace(type="cpu")
        return SimpleNamespace(process_index=0, world_size=1, device=device, train_batch_size=SAMPLES)

    def train_again(self, trainer: Any) -> None:
        arguments = self.arguments()
        state = SimpleNamespace(global_step=trainer.start, num_input_tokens_seen=trainer.start * SAMPLES * TOKENS)

        def call(event: str) -> None:
            getattr(trainer.callback, event)(arguments, state, None, model=None)

        call("on_train_begin")
        call("on_epoch_begin")
        for step in range(trainer.start, STEPS):
            state.num_input_tokens_seen += SAMPLES * TOKENS
            call("on_step_begin")
            if step == trainer.fail_at:
                raise KeyError("the model failed")
            call("on_pre_optimizer_step")
            call("on_optimizer_step")
            state.global_step += 1
            call("on_step_end")
            call("on_log")
            if state.global_step % SAVE_EVERY == 0:
                sleep(SAVING / 1000)
                call("on_save")
        call("on_epoch_end")
        call("on_train_end")


class StandInTrainer:
    """As lightning.Trainer, as far as the callback knows it."""

    def __init__(self, callback: Any, fail_at: int | None, start: int) -> None:
        self.callback, self.fail_at, self.start = callback, fail_at, start
        self.strategy = SimpleNamespace(root_device=SimpleNamespace(type="cpu"))
        self.global_rank, self.world_size = 0, 1
        total = SimpleNamespace(ready=start)
        self.fit_loop = SimpleNamespace(epoch_loop=SimpleNamespace(batch_progress=SimpleNamespace(total=total)))

    def save_checkpoint(self, path: str, weights_only: bool = False) -> str:
        sleep(SAVING / 1000)
        return path


class StandInLightning:
    """Calls the hooks of lightning.Callback as Trainer does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        module = module_of("pytorch_lightning", Callback=Hooks)
        self.callback = stand_in(monkeypatch, "lightning", pytorch_lightning=module)

    def train(self, callback: Any, *, fail_at: int | None = None, start: int = 0) -> Any:
        trainer = StandInTrainer(callback, fail_at, start)
        self.train_again(trainer)
        return trainer

    def resume(self, callback: Any) -> None:
        self.train(callback, start=SAVE_EVERY)

    def evaluate(self, callback: Any) -> Any:
        trainer = StandInTrainer(callback, None, 0)
        callback.on_validation_end(trainer, None)
        return trainer

    def train_again(self, trainer: Any) -> None:
        try:
            self._fit(trainer)
        except KeyError as error:
            trainer.callback.on_exception(trainer, None, error)
            raise

    def _fit(self, trainer: Any) -> None:
        batch = {"input_ids": SimpleNamespace(shape=(SAMPLES, TOKENS)), "name": ["a", "b"]}

        def call(event: str, *rest: Any) -> None:
            getattr(trainer.callback, event)(trainer, None, *rest)

        call("on_fit_start")
        call("on_validation_end")
        call("on_train_start")
        call("on_train_epoch_start")
        for step in range(trainer.start, STEPS):
            call("on_train_batch_start", batch, step)
            if step == trainer.fail_at:
                raise KeyError("the model failed")
            call("on_before_backward", None)
            call("on_after_backward")
            call("on_before_optimizer_step", None)
            call("on_train_batch_end", None, batch, step)
            if (step + 1) % SAVE_EVERY == 0:
                assert trainer.save_checkpoint("last.ckpt") == "last.ckpt"
        call("on_train_epoch_end")
        call("on_fit_end")


# --- the real ones ------------------------------------------------------------------------------------------------


class RealTransformers:
    """A Trainer of transformers, on the CPU."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pytest.importorskip("torch", reason="needs torch")
        pytest.importorskip("transformers", reason="needs transformers")
        pytest.importorskip("accelerate", reason="needs accelerate")
        monkeypatch.delitem(sys.modules, "perfgate.integrations.transformers", raising=False)
        self.callback = import_module("perfgate.integrations.transformers").RecorderCallback

    def train(self, callback: Any, *, fail_at: int | None = None, out: str = "out") -> Any:
        trainer = self._trainer(callback, fail_at, STEPS, out)
        trainer.train()
        return trainer

    def resume(self, callback: Any) -> None:
        self._trainer(None, None, SAVE_EVERY, "out").train()
        self._trainer(callback, None, STEPS, "out").train(resume_from_checkpoint=True)

    def evaluate(self, callback: Any) -> Any:
        trainer = self._trainer(callback, None, STEPS, "out")
        trainer.evaluate()
        return trainer

    def train_again(self, trainer: Any) -> None:
        trainer.train()

    def _trainer(self, callback: Any, fail_at: int | None, steps: int, out: str) -> Any:
        import models
        import transformers

        arguments = transformers.TrainingArguments(
            output_dir=out,
            use_cpu=True,
            report_to=[],
            disable_tqdm=True,
            per_device_train_batch_size=SAMPLES,
            max_steps=steps,
            logging_steps=1,
            save_strategy="steps",
            save_steps=SAVE_EVERY,
            include_num_input_tokens_seen=True,
        )
        return transformers.Trainer(
            models.Plain(fail_at),
            arguments,
            train_dataset=models.Texts(100),
            eval_dataset=models.Texts(4),
            callbacks=[models.slow_saving(transformers.TrainerCallback), *([] if callback is None else [callback])],
        )


class RealLightning:
    """A Trainer of Lightning, on the CPU."""

    def __init__(self, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
        pytest.importorskip("torch", reason="needs torch")
        self._package = pytest.importorskip(package, reason=f"needs {package}")
        monkeypatch.delitem(sys.modules, "perfgate.integrations.lightning", raising=False)
        self.callback = import_module("perfgate.integrations.lightning").RecorderCallback

    def train(self, callback: Any, *, fail_at: int | None = None) -> Any:
        trainer = self._trainer(callback, STEPS)
        self._fit(trainer, fail_at)
        return trainer

    def resume(self, callback: Any) -> None:
        self._fit(self._trainer(None, SAVE_EVERY))
        (checkpoint,) = Path("checkpoints").glob("*.ckpt")
        self._fit(self._trainer(callback, STEPS), ckpt_path=str(checkpoint))

    def evaluate(self, callback: Any) -> Any:
        trainer = self._trainer(callback, STEPS)
        trainer.validate(self._model(), self._loader(4), verbose=False)
        return trainer

    def train_again(self, trainer: Any) -> None:
        trainer.fit_loop.max_epochs, trainer.fit_loop.epoch_loop.max_steps = 10, trainer.global_step + STEPS
        self._fit(trainer)

    def _fit(self, trainer: Any, fail_at: int | None = None, **options: Any) -> None:
        trainer.fit(self._model(fail_at), self._loader(100), self._loader(4), **options)

    def _model(self, fail_at: int | None = None) -> Any:
        import models

        return models.lightning_model(self._package)(fail_at)

    def _loader(self, size: int) -> Any:
        import models
        import torch

        return torch.utils.data.DataLoader(models.Texts(size), batch_size=SAMPLES)

    def _trainer(self, callback: Any, steps: int) -> Any:
        saving = self._package.callbacks.ModelCheckpoint("checkpoints", every_n_train_steps=SAVE_EVERY)
        return self._package.Trainer(
            accelerator="cpu",
            devices=1,
            max_steps=steps,
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            callbacks=[saving, *([] if callback is None else [callback])],
        )


FRAMEWORKS: dict[str, Callable[[pytest.MonkeyPatch], Framework]] = {
    "transformers": RealTransformers,
    "lightning.pytorch": lambda monkeypatch: RealLightning("lightning.pytorch", monkeypatch),
    "pytorch_lightning": lambda monkeypatch: RealLightning("pytorch_lightning", monkeypatch),
}
STAND_INS: dict[str, Callable[[pytest.MonkeyPatch], Framework]] = {
    "stand-in of transformers": StandInTransformers,
    "stand-in of lightning": StandInLightning,
}

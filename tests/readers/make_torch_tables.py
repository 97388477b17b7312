"""Write `real_torch_tables.json`: tables that torch prints, with the numbers that it printed them from.

python tests/readers/make_torch_tables.py      (in an environment with torch and lightning; the tests need neither)
"""

import json
import logging
import tempfile
from pathlib import Path

import torch
from lightning import LightningModule, Trainer
from lightning.pytorch.profilers import AdvancedProfiler, PyTorchProfiler, SimpleProfiler
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import ProfilerActivity, profile, record_function

TRUTH = ("self_cpu_time_total", "cpu_time_total", "cpu_memory_usage", "self_cpu_memory_usage", "flops", "count")


def work():
    x = torch.randn(64, 64)
    with record_function("a region  of two blanks, with <commas>"):
        for _ in range(3):
            x = torch.relu(x @ x) + 1
    return x.sum()


def table(name, profiling, averaging, **printing):
    with profile(activities=[ProfilerActivity.CPU], **profiling) as profiler:
        work()
    averages = profiler.key_averages(**averaging)
    text = averages.table(sort_by="self_cpu_time_total", row_limit=3, **printing)
    rows = sorted(averages, key=lambda row: row.self_cpu_time_total, reverse=True)[:3]
    truth = [{field: getattr(row, field) for field in TRUTH} | {"name": row.key} for row in rows]
    return {"name": name, "torch": torch.__version__, "text": text, "rows": truth}


class Tiny(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def training_step(self, batch, index):
        return self.layer(batch).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def report(name, make):
    with tempfile.TemporaryDirectory() as folder:
        profiler = make(dirpath=folder, filename="report")
        trainer = Trainer(
            profiler=profiler,
            max_epochs=1,
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=folder,
        )
        trainer.fit(Tiny(), torch.utils.data.DataLoader(torch.randn(4, 8)))
        text = next(Path(folder).glob("*.txt")).read_text()
    text = text[: text.rfind("Profile stats for: ", 0, 2500)] if len(text) > 2500 and "ncalls" in text else text
    rows = []
    if isinstance(profiler, SimpleProfiler):
        rows = [
            {"name": key, "count": len(d), "total": sum(d)} for key, d in [*profiler.recorded_durations.items()][:12]
        ]
    return {"name": name, "text": text, "rows": rows}


def main():
    logging.getLogger("lightning").setLevel(logging.ERROR)
    memory, shapes = {"profile_memory": True}, {"record_shapes": True}
    stack = {"with_stack": True, "experimental_config": _ExperimentalConfig(verbose=True)}
    documents = [
        table("plain", {}, {}),
        table("memory and flops", memory | shapes | {"with_flops": True}, {}),
        table("shapes", shapes, {"group_by_input_shape": True}),
        table("stack and flops", shapes | stack | {"with_flops": True}, {"group_by_stack_n": 2}),
        table("fixed unit, narrow names", {}, {}, time_unit="s", max_name_column_width=20, header="a title"),
        report("simple", SimpleProfiler),
        report("advanced", lambda **where: AdvancedProfiler(line_count_restriction=2, **where)),
        report("pytorch", lambda **where: PyTorchProfiler(row_limit=3, **where)),
    ]
    lines = ",\n".join(json.dumps(document, separators=(",", ":")) for document in documents)
    Path(__file__).with_name("real_torch_tables.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()

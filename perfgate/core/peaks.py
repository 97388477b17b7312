"""The peak FLOP/s of accelerators, dense (without sparsity), by the name that the driver gives a card and by dtype.

Each card has the public file or page where its figures were read (in November 2026); nearly all of them quote the data
sheet of the vendor. `note` says where another source differs, and why this figure was chosen. Where only the figure
with sparsity is published, the dense one is half of it. For consumer cards the figure is the one with accumulation in
fp32, as training does it. A figure that no source confirmed is left out: an unknown card is an error with advice. A
name must match in full: a slice of a card (MIG), a laptop version or `A10G` is another card, with other figures.
"""

from __future__ import annotations

import re

from msgspec import Struct

#: Every dtype of the table, with the other names that people give it.
DTYPES = {
    "fp32": ("float32", "float", "single"),
    "tf32": ("tensorfloat32",),
    "bf16": ("bfloat16",),
    "fp16": ("float16", "half"),
    "fp8": ("float8", "e4m3", "e5m2"),
}
#: The files of public repositories that several rows were read from.
LEVANTER = "Levanter, `levanter/utils/flop_utils.py`"
LIGHTNING = "Lightning, `lightning/fabric/utilities/throughput.py`"
ML_ENGINEERING = "stas00/ml-engineering, `compute/accelerator/README.md`"


class Card(Struct, frozen=True):
    """The peaks of one accelerator, as software sees it: half of a module in the case of AMD's MI250X.

    `names` is a pattern of the whole name that the driver gives it, `tflops` has TFLOP/s by dtype, and `source` is the
    file or page where they were read.
    """

    title: str
    names: str
    tflops: dict[str, float]
    source: str
    #: Other sources that differ, and why their figure was not taken.
    note: str = ""


_HOPPER = {"fp32": 66.9, "tf32": 494.7, "bf16": 989.4, "fp16": 989.4, "fp8": 1978.9}
_CDNA3 = {"fp32": 163.4, "tf32": 653.7, "bf16": 1307.4, "fp16": 1307.4, "fp8": 2614.9}
_ROUNDED_MI300 = "torchtitan rounds bf16 to 1300"
CARDS = (
    Card("V100 SXM2", r"(Tesla )?V100-SXM2-(16|32)GB.*", {"fp32": 15.7, "fp16": 125.0}, LEVANTER),
    Card("V100 PCIe", r"(Tesla )?V100-PCIE-(16|32)GB", {"fp32": 14.0, "fp16": 112.0}, LEVANTER),
    Card("T4", r"Tesla T4", {"fp32": 8.1, "fp16": 65.0}, LIGHTNING),
    Card("A10", r"A10", {"fp32": 31.2, "tf32": 62.5, "bf16": 125.0, "fp16": 125.0}, LEVANTER),
    Card(
        "A30",
        r"A30",
        {"fp32": 10.3, "bf16": 165.0, "fp16": 165.0},
        "feifeibear/LLMRoofline, `hardware_dict.py`; fp32 https://huggingface.co/hardware/a30",
        "no source was found for tf32",
    ),
    Card("A40", r"A40", {"fp32": 37.4, "tf32": 74.8, "bf16": 149.7, "fp16": 149.7}, LIGHTNING),
    Card(
        "A100, SXM or PCIe",
        r"A100-(SXM4?|PCIE)-(40|80)GB|A100 80GB PCIe",
        {"fp32": 19.5, "tf32": 156.0, "bf16": 312.0, "fp16": 312.0},
        LIGHTNING,
        "ml-engineering prints fp8 624 in one of its tables, which is the figure of int8: the A100 has no fp8",
    ),
    Card(
        "L4",
        r"L4",
        {"fp32": 30.3, "tf32": 60.0, "bf16": 121.0, "fp16": 121.0, "fp8": 242.5},
        f"{LIGHTNING}; fp8 half of 485 with sparsity, https://grokipedia.com/page/NVIDIA_L4_vs_L40S",
        "https://hmc-tech.com computes 125.3 for bf16 from the highest clock; the vendor's figure is lower",
    ),
    Card("L40S", r"L40S", {"fp32": 91.6, "tf32": 183.0, "bf16": 362.0, "fp16": 362.0, "fp8": 733.0}, ML_ENGINEERING),
    Card(
        "H100 SXM",
        r"H100 80GB HBM3",
        _HOPPER,
        ML_ENGINEERING,
        "it computes 989.43 from the clock of 1830 MHz and rounds it to 989",
    ),
    Card(
        "H100 PCIe",
        r"H100 PCIe",
        {"fp32": 51.2, "tf32": 378.0, "bf16": 756.0, "fp16": 756.0, "fp8": 1513.0},
        f"{LIGHTNING}; fp8 {ML_ENGINEERING}",
    ),
    Card(
        "H100 NVL",
        r"H100 NVL",
        {"fp32": 60.0, "tf32": 417.5, "bf16": 835.5, "fp16": 835.5, "fp8": 1670.5},
        f"{LIGHTNING}; fp8 as its int8, as on every Hopper card",
        "an older table of Lightning has 1978.8 for bf16, which is of a pair of cards",
    ),
    Card("H200", r"H200", _HOPPER, ML_ENGINEERING, "the figures of the H100 SXM"),
    Card(
        "H200 NVL",
        r"H200 NVL",
        {"fp32": 60.0, "tf32": 420.0, "bf16": 840.0, "fp16": 840.0},
        LIGHTNING,
        "no source was found for fp8",
    ),
    Card(
        "B200",
        r"B200",
        {"tf32": 1100.0, "bf16": 2250.0, "fp16": 2250.0, "fp8": 4500.0},
        "https://glennklockwood.com/garden/processors/B200, column HGX",
        "ml-engineering has tf32 1125, from the DGX sheet; fp32 is 75 or 80 in different sheets",
    ),
    Card(
        "GB200, one GPU",
        r"GB200",
        {"tf32": 1250.0, "bf16": 2500.0, "fp16": 2500.0, "fp8": 5000.0},
        ML_ENGINEERING,
        "NVIDIA's sheet prints them with sparsity: 2.5, 5 and 10 PFLOP/s",
    ),
    Card(
        "RTX 4090",
        r"GeForce RTX 4090",
        {"fp32": 82.6, "tf32": 82.6, "bf16": 165.2, "fp16": 165.2, "fp8": 330.3},
        "https://hmc-tech.com/gpu/nvidia-gb10-vs-nvidia-6x-geforce-rtx-4090, a sixth; accumulation in fp32",
        "Lightning has 82.6 for bf16, which is without tensor cores; LLMRoofline has 330, with accumulation in fp16",
    ),
    Card(
        "MI210",
        r"Instinct MI210",
        {"fp32": 22.6, "bf16": 181.0, "fp16": 181.0},
        "https://www.anandtech.com/show/17326; bf16 half of the MI250 in " + ML_ENGINEERING,
        "fp32 is the figure of vectors; that of matrices is 45.3",
    ),
    Card(
        "MI250X, one of its two dies",
        r"Instinct MI250X",
        {"fp32": 23.95, "bf16": 191.5, "fp16": 191.5},
        "torchtitan, `torchtitan/tools/utils.py`; fp32 half of the module in " + ML_ENGINEERING,
    ),
    Card("MI300X", r"Instinct MI300X( OAM| VF)?", _CDNA3, ML_ENGINEERING, _ROUNDED_MI300),
    Card("MI325X", r"Instinct MI325X( OAM| VF)?", _CDNA3, ML_ENGINEERING, _ROUNDED_MI300),
    Card(
        "MI355X",
        r"Instinct MI355X( OAM| VF)?",
        {"fp32": 157.3, "bf16": 2516.6, "fp16": 2516.6, "fp8": 5033.2},
        ML_ENGINEERING,
        "it computes 2516.6 from the clock; torchtitan rounds bf16 to 2500; 10.1 PFLOP/s of fp8 is with sparsity",
    ),
    Card("Gaudi 2", r"(Intel )?Gaudi ?2|HL-225.*", {"bf16": 432.0}, ML_ENGINEERING),
    Card(
        "Gaudi 3",
        r"(Intel )?Gaudi ?3|HL-325.*",
        {"bf16": 1835.0, "fp8": 1835.0},
        f"{ML_ENGINEERING}, from Intel's white paper",
        "it says that cards of 2026 reach 1677, at 1600 MHz; Intel's own figure was taken",
    ),
    Card("TPU v4", r"TPU v4", {"bf16": 275.0}, LEVANTER),
    # JAX calls a v5e `TPU v5 lite`, and a v5p `TPU v5`.
    Card("TPU v5e", r"TPU v5( lite|e)", {"bf16": 197.0}, LEVANTER),
    Card("TPU v5p", r"TPU v5p?", {"bf16": 459.0}, LEVANTER),
    Card("TPU v6e", r"TPU v6( lite|e)", {"bf16": 918.0}, LEVANTER),
)
_VENDOR = re.compile(r"(NVIDIA|AMD) +", re.IGNORECASE)


class UnknownPeak(ValueError):
    """The peak of a card is not in the table; the message says what is missing and how to give it."""


def canonical_dtype(text: str) -> str | None:
    """Return the dtype as the table has it (`bf16` for `torch.bfloat16`), or None for an unknown one."""
    name = text.strip().lower().removeprefix("torch.")
    return next((one for one, others in DTYPES.items() if name in (one, *others)), None)


def peak_flops(gpu: str, dtype: str) -> float:
    """Return the peak in FLOP/s of one card, such as 989.4e12 for `NVIDIA H100 80GB HBM3` and `bf16`.

    Raises UnknownPeak for a card or a dtype that is not in the table.
    """
    name = _VENDOR.sub("", gpu.strip(), count=1)
    card = next((one for one in CARDS if re.fullmatch(one.names, name, re.IGNORECASE)), None)
    if card is None:
        raise UnknownPeak(f"the peak FLOP/s of the GPU {gpu!r} is unknown")
    if dtype not in card.tflops:
        raise UnknownPeak(f"the {dtype} peak of the GPU {gpu!r} is unknown (known: {', '.join(card.tflops)})")
    return card.tflops[dtype] * 1e12

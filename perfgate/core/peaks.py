"""The peak FLOP/s of accelerators, dense (without sparsity), by the name that the driver gives a card and by dtype.

Each card has the document of its vendor with the figures. If a vendor prints only the figure with sparsity, the
dense one is half of it. For consumer cards the figure is the one with accumulation in fp32, as training does it. A
name must match in full: a slice of a card (MIG), a laptop version or `A10G` is another card, with other figures.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

#: Every dtype of the table, with the other names that people give it.
DTYPES = {
    "fp32": ("float32", "float", "single"),
    "tf32": ("tensorfloat32",),
    "bf16": ("bfloat16",),
    "fp16": ("float16", "half"),
    "fp8": ("float8", "e4m3", "e5m2"),
}


@dataclass(frozen=True, slots=True)
class Card:
    """The peaks of one accelerator, as software sees it: of AMD's MI250 and MI250X that is half of a module.

    `tflops` has TFLOP/s by dtype; `source` is the vendor's document; `names` is a pattern of the whole name.
    """

    title: str
    names: str
    tflops: dict[str, float]
    source: str


_HOPPER = {"fp32": 66.9, "tf32": 494.7, "bf16": 989.4, "fp16": 989.4, "fp8": 1978.9}
_CDNA3 = {"fp32": 163.4, "tf32": 653.7, "bf16": 1307.4, "fp16": 1307.4, "fp8": 2614.9}

CARDS = (
    Card(
        "V100 SXM2", r"(Tesla )?V100-SXM2-(16|32)GB.*", {"fp32": 15.7, "fp16": 125.0}, "NVIDIA V100 data sheet (2020)"
    ),
    Card("V100 PCIe", r"(Tesla )?V100-PCIE-(16|32)GB", {"fp32": 14.0, "fp16": 112.0}, "NVIDIA V100 data sheet (2020)"),
    Card("T4", r"Tesla T4", {"fp32": 8.1, "fp16": 65.0}, "NVIDIA T4 data sheet (2019)"),
    Card("A10", r"A10", {"fp32": 31.2, "tf32": 62.5, "bf16": 125.0, "fp16": 125.0}, "NVIDIA A10 data sheet (2021)"),
    Card("A30", r"A30", {"fp32": 10.3, "tf32": 82.0, "bf16": 165.0, "fp16": 165.0}, "NVIDIA A30 data sheet (2022)"),
    Card("A40", r"A40", {"fp32": 37.4, "tf32": 74.8, "bf16": 149.7, "fp16": 149.7}, "NVIDIA A40 data sheet (2022)"),
    Card(
        "A100, SXM or PCIe",
        r"A100-(SXM4?|PCIE)-(40|80)GB|A100 80GB PCIe",
        {"fp32": 19.5, "tf32": 156.0, "bf16": 312.0, "fp16": 312.0},
        "NVIDIA A100 data sheet (2022)",
    ),
    Card(
        "L4",
        r"L4",
        {"fp32": 30.3, "tf32": 60.0, "bf16": 121.0, "fp16": 121.0, "fp8": 242.5},
        "NVIDIA L4 data sheet (2023); half of the figures with sparsity",
    ),
    Card(
        "L40S",
        r"L40S",
        {"fp32": 91.6, "tf32": 183.0, "bf16": 362.05, "fp16": 362.05, "fp8": 733.0},
        "NVIDIA L40S data sheet (2023)",
    ),
    Card("H100 SXM", r"H100 80GB HBM3", _HOPPER, "NVIDIA H100 Tensor Core GPU Architecture, V1.04, Appendix A"),
    Card(
        "H100 PCIe",
        r"H100 PCIe",
        {"fp32": 51.2, "tf32": 378.0, "bf16": 756.0, "fp16": 756.0, "fp8": 1513.0},
        "NVIDIA H100 Tensor Core GPU Architecture, V1.04, Appendix A",
    ),
    Card(
        "H100 NVL",
        r"H100 NVL",
        {"fp32": 60.0, "tf32": 417.5, "bf16": 835.5, "fp16": 835.5, "fp8": 1670.5},
        "NVIDIA H100 data sheet (2024); half of the figures with sparsity",
    ),
    Card("H200", r"H200", _HOPPER, "NVIDIA H200 data sheet (2024): the figures of H100 SXM"),
    Card(
        "H200 NVL",
        r"H200 NVL",
        {"fp32": 60.0, "tf32": 417.5, "bf16": 835.5, "fp16": 835.5, "fp8": 1670.5},
        "NVIDIA H200 data sheet (2024); half of the figures with sparsity",
    ),
    Card(
        "B200",
        r"B200",
        {"tf32": 1100.0, "bf16": 2250.0, "fp16": 2250.0, "fp8": 4500.0},
        "NVIDIA Blackwell data sheet (2024), HGX B200; half of the figures with sparsity",
    ),
    Card(
        "GB200",
        r"GB200",
        {"tf32": 1250.0, "bf16": 2500.0, "fp16": 2500.0, "fp8": 5000.0},
        "NVIDIA Blackwell data sheet (2024), GB200, of one GPU; half of the figures with sparsity",
    ),
    Card(
        "RTX 4090",
        r"GeForce RTX 4090",
        {"fp32": 82.6, "tf32": 82.6, "bf16": 165.2, "fp16": 165.2, "fp8": 330.3},
        "NVIDIA Ada GPU Architecture, V2, Appendix A; with accumulation in fp32",
    ),
    Card(
        "RTX 6000 Ada",
        r"RTX 6000 Ada Generation",
        {"fp32": 91.1, "tf32": 182.1, "bf16": 364.2, "fp16": 364.2, "fp8": 728.5},
        "NVIDIA Ada GPU Architecture, V2, Appendix B",
    ),
    Card(
        "MI210", r"Instinct MI210", {"fp32": 22.6, "bf16": 181.0, "fp16": 181.0}, "AMD Instinct MI210 data sheet (2022)"
    ),
    Card(
        "MI250X, one of its two dies",
        r"Instinct MI250X",
        {"fp32": 23.95, "bf16": 191.5, "fp16": 191.5},
        "AMD Instinct MI250X product page; half of the module",
    ),
    Card("MI300X", r"Instinct MI300X( OAM| VF)?", _CDNA3, "AMD Instinct MI300X data sheet (2023)"),
    Card("MI325X", r"Instinct MI325X( OAM| VF)?", _CDNA3, "AMD Instinct MI325X data sheet (2024)"),
    Card(
        "MI355X",
        r"Instinct MI355X( OAM| VF)?",
        {"fp32": 157.3, "bf16": 2516.6, "fp16": 2516.6, "fp8": 5033.2},
        "AMD Instinct MI355X data sheet (2025)",
    ),
    Card(
        "Gaudi 2",
        r"(Intel )?Gaudi ?2|HL-225.*",
        {"bf16": 432.0},
        "Intel Gaudi 3 at Hot Chips 2024, product generations",
    ),
    Card(
        "Gaudi 3",
        r"(Intel )?Gaudi ?3|HL-325.*",
        {"bf16": 1835.0, "fp8": 1835.0},
        "Intel Gaudi 3 at Hot Chips 2024, product generations",
    ),
    Card("TPU v4", r"TPU v4", {"bf16": 275.0}, "Google Cloud documentation, page TPU v4"),
    Card("TPU v5e", r"TPU v5( lite|e)", {"bf16": 197.0}, "Google Cloud documentation, page TPU v5e"),
    Card("TPU v5p", r"TPU v5p?", {"bf16": 459.0}, "Google Cloud documentation, page TPU v5p"),
    Card("TPU v6e", r"TPU v6( lite|e)", {"bf16": 918.0}, "Google Cloud documentation, page TPU v6e"),
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

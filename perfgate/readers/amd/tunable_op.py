"""Results of PyTorch's TunableOp (`tunableop_results0.csv`): the time of the fastest solution of each GEMM.

    Validator,PT_VERSION,2.10.0
    Validator,GCN_ARCH_NAME,gfx942:sramecc+:xnack-
    GemmTunableOp_BFloat16_TN,tn_1024_512_2048_ld_2048_2048_1024,Gemm_Hipblaslt_52565,0.0653662

Source: pytorch/pytorch `aten/src/ATen/cuda/tunable/README.md`, `Tunable.cpp` (2.2 to 2.10). The metric is the operator,
labelled with its `shape`, one value in s (printed in ms). The solution is not a label: another may be faster.
"""

from __future__ import annotations

from perfgate.readers.kit import Format, InputFile, Key, Run, RunBuilder, cells_of

NAME = "tunable-op"
METRICS = "the operator, labelled with its `shape`"
CHECKED = "PyTorch's documentation of 2.2 to 2.10: generated files; public files"
FORMAT = Format(NAME, __name__, markers={"Validator,PT_VERSION,": r"^Validator,PT_VERSION,"})
_FACTS = {"PT_VERSION": "torch", "ROCM_VERSION": "rocm", "HIP_VERSION": "hip", "GCN_ARCH_NAME": "gpu_arch"}


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the one run of a file."""
    run = RunBuilder(file, NAME)
    for number, line, _, ended in file.lines():
        cells = cells_of(line.strip()) or []
        if not ended and line.strip():
            run.say("warning", "the last record is cut off; left out", number)
        elif cells[:1] == ["Validator"]:
            if len(cells) > 2 and cells[1] in _FACTS:
                run.fact(_FACTS[cells[1]], cells[2], number)
        elif len(cells) > 3:
            key = run.unique(Key.of(cells[0], shape=cells[1]), number)
            run.value(key, "s", cells[3], number, per=1e3)
    return (run.run(),)

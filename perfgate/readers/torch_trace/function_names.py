"""Names of Python functions in traces with stacks.

Kineto writes `train.py(31): loop` for a function of Python, with the path below the entry of `sys.path`, `<built-in
method ...>` for one of C, and `nn.Module: Linear_0` for a module (torch/csrc/autograd/profiler_python.cpp).
"""

from __future__ import annotations

import re
import sys
from functools import cache

#: Packages whose functions are called by a program: where they are slow, the line of the program is of more use.
_LIBRARIES = frozenset(("torch", "torchvision", "torchaudio", "numpy", "triton", "site-packages"))
_FUNCTION = re.compile(r"(.{1,500})\((\d+)\): .+", re.DOTALL)


@cache
def _is_library(part: str) -> bool:
    return part in _LIBRARIES or part.removesuffix(".py") in sys.stdlib_module_names


def is_own_function(name: object) -> bool:
    """True for a function of the program itself: not of C, of Python's library, or of torch."""
    if not isinstance(name, str) or name[:1] == "<" or (match := _FUNCTION.match(name)) is None:
        return False
    parts = match[1].replace("\\\\", "/").strip("/").split("/")
    return not any(map(_is_library, (parts[0], *parts[1:-1]) if len(parts) > 1 else parts)) and parts[0][:1] != "<"

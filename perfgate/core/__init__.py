"""The types that all rooms share: runs, baselines, verdicts and reports. Nothing here reads, computes or prints.

| module | contains |
|---|---|
| `runs`, `outlines`, `coverage`, `conditions` | series, runs, and problems with them; what was read of a file |
| `baseline` | the stored runs that new runs are compared with |
| `results`, `calculations`, `verdicts` | answers of the judge, verdicts, and the report that contains them |
| `next_steps` | what to do after a verdict, and the commands for it |
| `call_trees`, `packed_trees`, `causes` | the calls of a trace, and what changed between two sides of traces |
| `remembered_runs`, `run_history`, `history_events` | the remembered runs of main, and where levels and facts changed |
| `details` | the runs behind the verdicts, as reports draw them |
| `summaries`, `advice`, `runner` | what `inspect`, `baseline`, `rules`, `doctor` and `init` show |
| `units`, `wording`, `resource_limits` | quantities, names and words, limits on input |
| `file_mappings`, `peaks`, `goodput` | files of own tools, the peaks of GPUs, the parts of the time of a job |

All types but `goodput.Attempt` are frozen, and numbers are in the base units of `units`. The types of the rule language
are in `perfgate.rules.syntax.sentence` and `perfgate.rules.ruleset`.

Modules are imported at the first use of one of their names. So a program with a Recorder loads few of them, and starts
60 ms earlier.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perfgate.core.baseline import *
    from perfgate.core.next_steps import *
    from perfgate.core.runs import *
    from perfgate.core.summaries import *
    from perfgate.core.verdicts import *

#: The modules whose names can be imported from here; each imports only those before it.
_MODULES = ("runs", "next_steps", "baseline", "verdicts", "summaries")


def __getattr__(name: str) -> object:
    """Import a name at its first use. Names that begin with an underscore are Python's own: no module has them."""
    for module in _MODULES if not name.startswith("_") else ():
        if (found := getattr(import_module(f"perfgate.core.{module}"), name, None)) is not None:
            globals()[name] = found
            return found
    raise AttributeError(f"module 'perfgate.core' has no attribute {name!r}")

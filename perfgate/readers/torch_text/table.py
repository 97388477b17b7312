"""Text with tables of torch's `key_averages().table()`: a script's output, a log, a note.

    OP.self_cpu_time  OP.cpu_time  OP.self_device_time  OP.device_time  OP.cpu_memory  OP.self_cpu_memory
    OP.device_memory  OP.self_device_memory  OP.flops  OP.calls

of every row that is printed, a name that comes again being `OP#2`, in the same table or in a later one. The sums under
a table are not read: they leave out idle time, and what they count has changed with the version.
"""

from __future__ import annotations

from perfgate.core import Run
from perfgate.readers.aggregates import AggregateRun
from perfgate.readers.text import Document
from perfgate.readers.torch_text.op_table import OpTable

NAME = "torch-table"


def read(document: Document) -> tuple[Run, ...]:
    """The one run of a document, with every row of its tables."""
    run = AggregateRun(document, NAME)
    table = OpTable(run, {})
    for number, line, _, ended in document.lines():
        table.line(number, line, ended)
    table.close()
    return (run.run(),)

"""The kinds of calls of a runtime or driver, by their names in CUDA, HIP, and Level Zero or Unified Runtime (XPU).

On an XPU, Kineto records each submission as `ur...` of the runtime and as `ze...` of the driver inside it: the former
counts. Waits are calls of the driver. Source: pytorch/kineto `libkineto/src/plugin/xpupti/XpuptiActivityApi.cpp`.
"""

from __future__ import annotations

import re

#: The name of a call of a runtime or driver begins so.
IS_RUNTIME = re.compile(r"(?:cu|cuda|hip|ur|pi|ze)[A-Z]")
#: Calls that launch one kernel; a callback of the host is none.
LAUNCHES = re.compile(
    r"(?:cu|cuda|hip|hipExt|hipDrv|hipModule|hipExtModule|hipHccModule)Launch(?!Host)\w*"
    r"|(?:ur|pi)Enqueue\w*KernelLaunch\w*"
)
GRAPH_LAUNCHES = re.compile(r"(?:cu|cuda|hip)GraphLaunch\w*")
#: Calls by which the host waits for a device, copies that are not `Async` included.
SYNCS = re.compile(
    r"(?:cu|cuda|hip|musa|ze)[A-Z]\w*Synchronize(?:_\w+)?|(?:cu|cuda|hip)Memcpy(?!\w*Async)\w*"
    r"|urQueueFinish|urEventWait|piQueueFinish|piEventsWait"
)
#: Calls that allocate or release memory of a device, or pinned memory.
ALLOCATIONS = re.compile(
    r"(?:cuda|hip)(?:(?:Host|Ext)?Malloc|Free|Host(?:Alloc|Free|Register|Unregister))\w*"
    r"|(?:cu|hip)Mem(?:Alloc|HostAlloc|HostRegister|HostUnregister|Free|Create|Release)\w*"
    r"|urUSM(?:Device|Host|Shared)Alloc|urUSMFree"
)
#: Rows of copies that take as long as the host's memory happens to need: only more of them are a change of the program.
PAGEABLE = re.compile(r"Memcpy .*Pageable")

"""Machines as files below /proc and /sys, at three times: before and after a pause, and at the end."""

from __future__ import annotations

from pathlib import Path

#: Jiffies are hundredths of a second. A pause takes one second, all of it four.
TIMES = (0.0, 1.0, 4.0)
CPU = "cpu  {busy} 0 0 9000 0 0 0 {steal} 0 0\ncpu0 {one} 0 0 4500 0 0 0 0 0 0\ncpu1 {other} 0 0 4500 0 0 0 0 0 0\n"


def written(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def stat(busy: int, one: int, other: int, steal: int = 0) -> str:
    return CPU.format(busy=busy, one=one, other=other, steal=steal)


def process(used: int, name: str) -> str:
    return f"77 ({name}) S 1 1 1 0 -1 0 0 0 0 0 {used} 0 0 0 20 0 1 0 0\n"


QUIET = [
    {
        "proc/stat": stat(100, 50, 50),
        "proc/loadavg": "0.05 0.10 0.20 1/99 1234\n",
        "proc/pressure/cpu": "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
        "proc/self/cgroup": "0::/job\n",
        "sys/fs/cgroup/job/cpu.stat": "throttled_usec 0\n",
        "sys/fs/cgroup/job/cpu.max": "max 100000\n",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
        "sys/devices/system/cpu/intel_pstate/no_turbo": "1\n",
        "sys/devices/system/cpu/smt/active": "0\n",
        "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count": "5\n",
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    }
] * 3

_SHARED = {
    "proc/loadavg": "3.50 2.00 1.00 4/99 1234\n",
    "proc/self/cgroup": "0::/job\n",
    "sys/fs/cgroup/job/cpu.max": "150000 100000\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
    "sys/devices/system/cpu/cpufreq/boost": "1\n",
    "sys/devices/system/cpu/smt/active": "1\n",
    "sys/devices/system/cpu/cpu0/topology/thread_siblings_list": "0-1\n",
    "sys/devices/system/node/node0/x": "",
    "sys/devices/system/node/node1/x": "",
}
BUSY = [
    {
        **_SHARED,
        "proc/stat": stat(busy, busy // 4, 3 * busy // 4, steal),
        "proc/pressure/cpu": f"some avg10=9 avg60=9 avg300=9 total={busy * 5000}\n",
        "sys/fs/cgroup/job/cpu.stat": f"throttled_usec {busy * 1000}\n",
        "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count": f"{busy}\n",
        "proc/77/stat": process(busy // 2, "train (eval)"),
        "proc/78/stat": process(busy // 4, "rustc"),
    }
    for busy, steal in ((0, 0), (100, 10), (400, 40))
]
BARE: list[dict[str, str]] = [{}, {}, {}]

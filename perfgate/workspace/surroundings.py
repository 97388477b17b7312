"""The surroundings that a command reads: the date, the limits, the commit, the user, and the machine.

Facts of NVIDIA GPUs come from NVML (through `nvidia-ml-py`, an optional package). Versions come from the metadata of
installed packages, which are not imported. Unknown facts are left out and never guessed. NVML does not show whether
clocks are locked: a user who locks them adds `--env clocks_locked=true`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import date, datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

from perfgate.core import Fact
from perfgate.core.resource_limits import DEFAULT, VARIABLE, Limits, parse_limits
from perfgate.core.runs import THROTTLE
from perfgate.workspace.options import Refused
from perfgate.workspace.runner_facts import CARD_FACTS, host_facts

#: With these, git replaces no object by another, takes no path for a pattern, and never asks for a password.
_GIT_VARIABLES = {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_LITERAL_PATHSPECS": "1", "GIT_TERMINAL_PROMPT": "0"}
#: A measured program can write to .git/config, and git would run the programs that these settings name.
_GIT_SETTINGS = ("core.fsmonitor=false", f"core.hooksPath={os.devnull}", "log.showSignature=false")

#: The most files and folders in a folder that is read: the runs of thousands of ranks have fewer.
MOST_PATHS = 100_000


def now() -> datetime:
    """Return the time of SOURCE_DATE_EPOCH, or else of the clock; in UTC, whole seconds. Raises Refused."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if not epoch:
        return datetime.now(timezone.utc).replace(microsecond=0)
    try:
        return datetime.fromtimestamp(int(epoch), timezone.utc)
    except (ValueError, OverflowError, OSError):
        raise Refused(f"SOURCE_DATE_EPOCH is {epoch!r}, not a number of seconds") from None


def limits() -> Limits:
    """Return the limits on input: the defaults, or those that PERFGATE_LIMITS sets. Raises Refused."""
    given = os.environ.get(VARIABLE)
    try:
        return parse_limits(given) if given else DEFAULT
    except ValueError as error:
        raise Refused(f"{VARIABLE}: {error}") from None


def not_too_many(paths: Iterable[Path], shown: str) -> Iterator[Path]:
    """Yield the paths in a folder. Raises Refused (3) for more than MOST_PATHS: such a folder was named by mistake."""
    for number, path in enumerate(paths):
        if number == MOST_PATHS:
            raise Refused(f"{shown} contains more than {MOST_PATHS} files and folders: name the right folder", 3)
        yield path


def refuse_link_out(path: str, option: str) -> None:
    """Refuse a path that `leads_out` of the repository. Raises Refused."""
    if leads_out(path):
        raise Refused(f"{path} is a link that leads out of the repository: name the folder itself with {option}")


def leads_out(path: str) -> bool:
    """Return whether a path is in the repository, but links lead it out of there or into `.git`.

    A pull request can commit such links. Without a repository, the working directory takes its place.
    """
    here = Path(os.path.realpath("."))
    named, real = Path(os.path.normpath(here / path)), Path(os.path.realpath(path))
    top = next((folder for folder in (here, *here.parents) if os.path.exists(folder / ".git")), here)
    if real == named or top not in (Path(os.path.realpath(folder)) for folder in named.parents):
        return False  # no link, or a path outside of the repository
    if real == top or not real.is_relative_to(top):  # `.git` is in `top`
        return True
    return ".git" in (part.casefold() for part in real.relative_to(top).parts)  # macOS and Windows know no case


def today() -> date:
    """Return the date that rules and allowances expire by."""
    return now().date()


def head_commit() -> str | None:
    """Return git's HEAD in the working directory, or None outside a repository."""
    return known_to_git("rev-parse", "HEAD")


def branch() -> str | None:
    """Return the branch that is measured: that of the job, or the one that is checked out; None for neither."""
    job = os.environ.get("GITHUB_REF", "")
    if job.startswith("refs/heads/"):
        return job.removeprefix("refs/heads/")
    return known_to_git("symbolic-ref", "--short", "-q", "HEAD")


def who() -> str:
    """Return the user who makes a decision: that of GitHub Actions, or else of git, or else of the login."""
    import getpass

    actor = os.environ.get("GITHUB_ACTOR") or known_to_git("config", "user.name")
    if actor:
        return actor
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without a passwd entry
        return "unknown"


def git(
    *arguments: str, what: str, stdin: bytes | None = None, cwd: Path | None = None, timeout_s: float = 120
) -> bytes:
    """Run git and return its output. Raises Refused (3) if it fails or needs more than `timeout_s` seconds.

    `what`: the beginning of that message, such as `main cannot be read`. `cwd`: git's working directory.
    """
    import subprocess

    words = ["git", *(word for setting in _GIT_SETTINGS for word in ("-c", setting)), *arguments]
    env = os.environ | _GIT_VARIABLES
    try:
        done = subprocess.run(words, input=stdin, capture_output=True, cwd=cwd, timeout=timeout_s, check=False, env=env)
    except FileNotFoundError:
        raise Refused(f"{what}: git is not installed", 3) from None
    except (OSError, ValueError, subprocess.SubprocessError) as error:  # a word with the byte 0 is a ValueError
        raise Refused(f"{what}: {error}", 3) from None
    if done.returncode == 0:
        return done.stdout
    message = " ".join(done.stderr.decode("utf-8", "backslashreplace").split())
    if "not a git repository" in message:
        message = "there is no git repository here; run the command in a clone of it"
    why = message or "there is no such commit in this clone; fetch it (actions/checkout: fetch-depth: 0)"
    raise Refused(f"{what}: {why}", 3)


def known_to_git(*arguments: str) -> str | None:
    """Return what git prints, without spaces at its ends; None if it prints nothing or fails."""
    try:
        return git(*arguments, what="git", timeout_s=10).decode("utf-8", "replace").strip() or None
    except Refused:
        return None


#: For each fact, the package whose version it is: the first of these names that is installed.
_VERSIONS = {
    "torch": ("torch",),
    "cuda": ("nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime-cu13", "nvidia-cuda-runtime"),
    "cudnn": ("nvidia-cudnn-cu12", "nvidia-cudnn-cu13"),
    "nccl": ("nvidia-nccl-cu12", "nvidia-nccl-cu13"),
    "triton": ("triton",),
    "deepspeed": ("deepspeed",),
    "lightning": ("lightning", "pytorch-lightning"),
    "transformers": ("transformers",),
}
#: The facts about packages. They are true for this process; a measured program may have other packages.
PACKAGE_FACTS = frozenset(_VERSIONS)
#: NVML's clocks event reasons in nvml.h, from bit 0 on.
_EVENT_REASONS = (
    *("gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown", "sync_boost", "sw_thermal_slowdown"),
    *("hw_thermal_slowdown", "hw_power_brake", "display_clock_setting"),
)


def machine_facts() -> tuple[dict[str, Fact], list[str]]:
    """Return the facts of this machine, sorted by name, and messages about missing facts and what to do."""
    import platform
    from importlib import metadata

    may_use = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    facts: dict[str, Fact] = {
        "cpu": _cpu(),
        "cpu_count": may_use,
        "host": platform.node(),
        "os": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        **host_facts(),
    }
    for fact, packages in _VERSIONS.items():
        for package in packages:
            with suppress(metadata.PackageNotFoundError):
                facts.setdefault(fact, metadata.version(package))
    world = os.environ.get("WORLD_SIZE", "")
    if world.isdecimal():
        facts["world_size"] = int(world)
    if any(Path(mark).exists() for mark in ("/.dockerenv", "/run/.containerenv")):
        facts["container"] = True
    gpus, hints = _gpus()
    return dict(sorted({**facts, **gpus}.items())), hints


def _cpu() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    import platform

    return platform.processor() or platform.machine()


def _gpus() -> tuple[dict[str, Fact], list[str]]:
    """Return the facts of NVIDIA GPUs, and messages as `machine_facts` does."""
    try:
        import pynvml
    except ImportError:
        present = Path("/proc/driver/nvidia/version").exists()
        return {}, ["the facts of the GPU are missing: pip install nvidia-ml-py"] if present else []
    try:
        pynvml.nvmlInit()
        try:
            devices = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
            return _facts_of(pynvml, devices), []
        finally:
            pynvml.nvmlShutdown()
    except Exception as error:  # of the driver, or of a binding that does not fit it
        return {}, [f"the facts of the GPU are missing: NVML failed: {error}"]


def _facts_of(nvml: Any, devices: list[Any]) -> dict[str, Fact]:
    """Return the facts of the devices through NVML's module. A fact in which devices differ is `A + B`.

    The temperature is the highest, and the reasons for throttling are those of all devices.
    """
    each = partial(_answers, nvml, devices)
    values_of = {
        "gpu": each(lambda d: _text(nvml.nvmlDeviceGetName(d))),
        "gpu_memory_gib": each(lambda d: round(nvml.nvmlDeviceGetMemoryInfo(d).total / 2**30)),
        "power_cap_w": each(lambda d: round(nvml.nvmlDeviceGetPowerManagementLimit(d) / 1000)),
        "sm_clock_max_mhz": each(lambda d: nvml.nvmlDeviceGetMaxClockInfo(d, nvml.NVML_CLOCK_SM)),
        "sm_clock_mhz": each(lambda d: nvml.nvmlDeviceGetClockInfo(d, nvml.NVML_CLOCK_SM)),
        "memory_clock_mhz": each(lambda d: nvml.nvmlDeviceGetClockInfo(d, nvml.NVML_CLOCK_MEM)),
        "persistence": _modes(each(nvml.nvmlDeviceGetPersistenceMode)),
        "mig": _modes(each(lambda d: nvml.nvmlDeviceGetMigMode(d)[0])),
        "ecc": _modes(each(lambda d: nvml.nvmlDeviceGetEccMode(d)[0])),
        **{name: each(partial(ask, nvml)) for name, ask in CARD_FACTS.items()},
    }
    distinct = {name: sorted(set(values)) for name, values in values_of.items()}
    facts: dict[str, Fact] = {name: values[0] for name, values in distinct.items() if len(values) == 1}
    facts |= {name: " + ".join(map(str, values)) for name, values in distinct.items() if len(values) > 1}
    heat = each(lambda d: nvml.nvmlDeviceGetTemperature(d, nvml.NVML_TEMPERATURE_GPU))
    if heat:
        facts["gpu_temperature_c"] = max(heat)
    # NVML renamed the query for throttling in 2023.
    query = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
    answers = each(query or nvml.nvmlDeviceGetCurrentClocksThrottleReasons)
    reasons = [word for i, word in enumerate(_EVENT_REASONS) if any(bits >> i & 1 for bits in answers)]
    facts |= {THROTTLE: ",".join(sorted(reasons)) or "none"} if answers else {}
    version = nvml.nvmlSystemGetCudaDriverVersion()
    facts["cuda_driver"] = f"{version // 1000}.{version % 1000 // 10}"  # 12040 is 12.4
    return {**facts, "gpu_count": len(devices), "driver": _text(nvml.nvmlSystemGetDriverVersion())}


def _answers(nvml: Any, devices: list[Any], ask: Callable[[Any], Any]) -> list[Any]:
    """Return the answers of all devices that have one: not every board or binding has every query."""
    answers = []
    for device in devices:
        with suppress(nvml.NVMLError, AttributeError):
            answers.append(ask(device))
    return [answer for answer in answers if answer is not None]


def _modes(answers: list[Any]) -> list[str]:
    return ["on" if answer else "off" for answer in answers]


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def memory_left() -> int | None:
    """Return the bytes of memory that processes can still use, of the machine or the container; None if unknown."""
    try:
        known = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        free = int(known["MemAvailable"].removesuffix("kB")) << 10
    except (OSError, ValueError, KeyError):
        return None
    with suppress(OSError, ValueError):
        most, used = (int(Path("/sys/fs/cgroup", name).read_text()) for name in ("memory.max", "memory.current"))
        free = min(free, most - used)
    return max(free, 0)

"""Attacks by live programs: `PYTHONPATH=tests python tests/attacks/live.py`; `--write` writes the table.

As `many.py`, but `perfgate run` starts a program that is three times as slow, or that makes twice the calls, and that
attacks what watches it: the sampler and its file, the library of the driver, the profiler. `doctor` meets the same
library. An attack works if the exit code is 0, or 4: perfgate itself failed.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from many import WORK_RULES, Document, document, exit_code, write_table

from perfgate.commands import doctor
from perfgate.recorder import watch

BEGIN, END = "<!-- generated: tests/attacks/live.py -->\n", "<!-- end of live.py -->\n"
#: A stand-in of NVML, for the sampler alone: COUNT and VALUE are what it answers.
LIBRARY = """
import os, sys, time
if IS_SAMPLER and "perfgate.machine.sampler" not in sys.orig_argv: raise ImportError
def value(*arguments):
    found = VALUE
    if isinstance(found, type): raise found("x")
    return found() if callable(found) else found
nvmlInit = nvmlShutdown = lambda: None
nvmlDeviceGetCount = lambda: COUNT
nvmlDeviceGetHandleByIndex = lambda index: index
class Answer:
    def __getattr__(self, name): return value()
def __getattr__(name):
    if name.startswith("__"): raise AttributeError(name)
    return (lambda *arguments: Answer()) if name.endswith(("Rates", "Status", "Info")) else value
"""
VALUES = (
    *("float('nan')", "float('inf')", "-1", "0", "1e308", "10 ** 400", "2 ** 64 - 1", "'9'", "None", "b'x'", "[]"),
    *(
        "ValueError",
        "KeyError",
        "MemoryError",
        "RecursionError",
        "NVMLError",
        "OSError",
        "StopIteration",
        "UnicodeError",
    ),
)
#: Only a process of its own survives these.
DEADLY = (
    *("lambda: os._exit(0)", "lambda: os.kill(os.getpid(), 9)", "lambda: os.close(1)", "lambda: os.close(0)"),
    *("lambda: os.write(1, b'ready' * 99)", "SystemExit", "KeyboardInterrupt", "lambda: time.sleep(99)"),
    "lambda: (os.write(1, b'no line'), time.sleep(99))",
)
COUNTS = ("2", "None")
#: What becomes of the file about the machine, $S, while the sampler writes it.
SIDECARS = (
    *("rm -f $S; mkfifo $S", "rm -f $S; mkdir $S", "rm -f $S; ln -s /dev/zero $S", "rm -f $S; ln -s $S $S", "rm -f $S"),
    *(": > $S", r"printf '\0\0' > $S", "head -c 99999 /dev/urandom > $S", "chmod 0 $S", "echo '[[[[' > $S"),
    *("rm -f $S; cp base-0.json $S", "rm -f $S; cp slow.json $S", "echo '{}' >> $S", "rm -f $S; ln -s base-0.json $S"),
    *("mv $S $S.old", "mv $S $R", "mv base-0.json $R", "rm -f $S; mkfifo $S $R/more.json"),
)
ENDS = (
    *(f"for p in $(pgrep -P $PPID); do [ $p = $$ ] || kill -{name} $p; done" for name in ("KILL", "STOP", "TERM")),
    *("kill -9 $$", "kill -15 $$", "exit 3", "exec 0<&- 1>&- 2>&-"),
)
#: A loop of steps with exact work, whose program changes torch, the profiler or the recording first.
PROGRAM = """
import json, os, subprocess, sys, types
from perfgate import Recorder
from perfgate.recorder import profiled_work, writer
def fail(*arguments, **named): raise RuntimeError("no")
class Mark:
    def __init__(self, name): pass
    def __enter__(self): return self
    def __exit__(self, *arguments): pass
class profile:
    def __init__(self, **named): pass
    def start(self): pass
    def stop(self): pass
    def export_chrome_trace(self, path): open(path, "w").write(TRACE)
TRACE = "{}"
torch = types.ModuleType("torch")
torch.profiler = types.SimpleNamespace(
    profile=profile, record_function=Mark, ProfilerActivity=types.SimpleNamespace(CPU=0, CUDA=1))
torch.autograd = types.SimpleNamespace(_profiler_enabled=lambda: False, profiler=types.SimpleNamespace(profile=profile))
torch.cuda = types.SimpleNamespace(is_initialized=lambda: False, is_available=lambda: False)
sys.modules["torch"] = torch
PATH = os.environ["PERFGATE_RESULTS"] + "/new.json"
def say(**one):
    with open(PATH, "a") as file: file.write(json.dumps(one) + chr(10))
WAY
with Recorder(PATH, work=True) as recorder:
    for i in range(20):
        with recorder.step_span(): recorder.record("step", 0.3, unit="s")
    recorder.flush()
    AFTER
"""
WORK = (
    *(
        "torch.profiler.profile = fail",
        "torch.profiler.record_function = fail",
        "profile.start = fail",
        "profile.stop = fail",
    ),
    *("profile.export_chrome_trace = fail", "profile.export_chrome_trace = lambda *a: None", "torch.profiler = None"),
    *("torch.autograd = None", "torch.autograd._profiler_enabled = lambda: True", "del sys.modules['torch']"),
    *("TRACE = ''", "TRACE = '['", "TRACE = '[]'", "TRACE = '{\"traceEvents\": []}'", "TRACE = '[' * 9999"),
    "TRACE = json.dumps({'traceEvents': [dict(ph='X', name=f'ProfilerStep#{i}', ts=i, dur=1) for i in range(9)]})",
    *("profile.export_chrome_trace = lambda self, path: os.mkfifo(path)", "profile.stop = lambda self: os._exit(0)"),
    *("profile.export_chrome_trace = lambda self, path: os.symlink('/dev/zero', path)", "subprocess.run = fail"),
    *("profiled_work._read = lambda *a: {'series': [], 'call_tree': ''}", "profiled_work._read = lambda *a: None"),
    *("profiled_work.LoopWork.step = lambda *a: None", "subprocess.Popen = fail", "os.environ['PATH'] = ''"),
    *(
        f"profiled_work._read = lambda *a: dict(call_tree='', series=[dict(metric='work.syncs', unit='count', "
        f"labels={{}}, values={values}, steps=[6, 7, 8])])"
        for values in (
            "[-1, -1, -1]",
            "[0.5, 0.5, 0.5]",
            "[float('nan')] * 3",
            "[1e308] * 3",
            "[]",
            "['3'] * 3",
            "None",
        )
    ),
)
#: Records twice the counts.
TWICE = "[recorder.record(f'work.{name}', value, unit='count', step=i) for name, of in "
TWICE += "(('syncs', [6, 8] * 30), ('kernels', [500, 500, 620] * 20)) for i, value in enumerate(of)]"
#: The program without an attack.
HONEST = PROGRAM.replace("WAY", "").replace("AFTER", TWICE)
#: What a program writes at the end of its recording.
LINES = (
    *(
        "say(metric='work.syncs', unit='count', values=[-1])",
        "say(metric='work.syncs', unit='count', values=[0.5, 0.5])",
    ),
    *("say(metric='work.syncs', unit='s', values=[3, 4])", "say(metric='work.syncs', unit='count', value=3.5)"),
    *("say(metric='work', unit='count', values=[3])", "say(metric='work.syncs', unit='count', values=[], steps=[])"),
    *("open(PATH, 'a').write('{')", "os.truncate(PATH, 99)", "os.truncate(PATH, 0)", "os.remove(PATH)"),
)


def ways() -> Iterator[tuple[str, str, str]]:
    """Yield the kind, the rule and the script of each attack that `perfgate run` meets."""
    within = "step within 10% of baseline"
    for count in COUNTS:
        for value in (*VALUES, *(DEADLY if count == COUNTS[0] else ())):
            yield "the library of the driver lies, fails or hangs", within, f"library {count} {value}"
    for rule in (within, "st* p90 under 150 ms"):
        for script in SIDECARS:
            yield "the program changes the file about the machine", rule, script
        for script in ENDS:
            yield "the program kills the sampler, or itself", rule, script
    for rule in WORK_RULES[:2]:
        for way, after in (
            *((way, "pass") for way in WORK),
            *(("", f"{TWICE}; recorder.flush(); {one}") for one in LINES),
        ):
            script = PROGRAM.replace("WAY", way).replace("AFTER", after)
            yield "the program changes torch.profiler, the recorder or its counts", rule, f"program {script}"


def recorded(seed: int) -> Document:
    """Return a run of the baseline as the program would record it: of one process, with its counts."""
    run = document(1, seed)
    of_first = [
        one for one in run["series"] if one["labels"]["rank"] == "0" and one["metric"] not in ("other", "speed")
    ]
    return {**run, "environment": {}, "series": [{**one, "labels": {}} for one in of_first]}


def library(count: str, value: str, *, is_sampler: bool) -> str:
    begin = f"COUNT, IS_SAMPLER = {count}, {is_sampler}\nimport os, time\nclass NVMLError(Exception): pass\n"
    return f"{begin}VALUE = {value}\n{LIBRARY}"


def attacked(script: str) -> int:
    """The exit code of `perfgate run` with a program that does the work, and attacks."""
    Path("site/pynvml.py").unlink(missing_ok=True)
    shutil.rmtree("perfgate-runs", ignore_errors=True)
    kind, _, rest = script.partition(" ")
    if kind == "program":
        Path("program.py").write_text(rest)
        return exit_code("run", "--runs", "1", "--timeout", "60 s", "--", sys.executable, "program.py")
    if kind == "library":
        count, _, value = rest.partition(" ")
        Path("site/pynvml.py").write_text(library(count, value, is_sampler=True))
        script = ":"
    program = f"cp slow.json $PERFGATE_RESULTS/new.json; R=$PERFGATE_RESULTS; S=$R.machine; sleep 0.2; {script}; true"
    return exit_code("run", "--runs", "1", "--timeout", "60 s", "--", "sh", "-c", program)


def doctored(count: str, value: str) -> tuple[str, int]:
    """The exit code of `perfgate doctor` beside such a library, in words, and 4 if it is none of its own."""
    module = ModuleType("pynvml")
    exec(library(count, value, is_sampler=False), vars(module))
    sys.modules["pynvml"] = module
    try:
        code = exit_code("doctor", "--json", "-")
        return f"{count} {value}: exit {code}", 3 if code in (0, 3) else 4
    finally:
        del sys.modules["pynvml"]


def tried() -> dict[str, list[tuple[str, int]]]:
    """Try every attack in a scratch folder; return the script and the exit code of each, by kind."""
    watch._PATIENCE_S, watch._START_S = 1.0, 3.0
    doctor._IDLE_S, doctor._LOADS_S = 0.05, 0.1
    found: dict[str, list[tuple[str, int]]] = {}
    Path("rules").mkdir()
    Path("site").mkdir()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path("site").resolve()), os.environ.get("PYTHONPATH", "")])
    approved = set[str]()
    for kind, rule, script in ways():
        is_program = script.startswith("program")
        for number in range(4):  # the attack before may have changed them
            base = recorded(number) if is_program else document(1, number)
            Path(f"base-{number}.json").write_text(json.dumps(base))
        Path("slow.json").write_text(json.dumps(document(3, 9)))
        suite = f"{'p' if is_program else 's'}{len(rule)}"
        Path("rules/rules.yaml").write_text(f"version: 1\nsuite: {suite}\nrules:\n  - {rule}\n")
        if suite not in approved:
            words = [f"base-{one}.json" for one in range(4)]
            assert exit_code("baseline", "approve", *words, "--reason", "first") == 0
            assert attacked(f"program {HONEST}" if is_program else ":") in ((1,) if is_program else (1, 3)), rule
            approved.add(suite)
        code = attacked(script)
        found.setdefault(kind, []).append((f"{rule}: {script[-200:]}", code))
    kind = "`perfgate doctor` beside such a library"
    found[kind] = [doctored(count, value) for value in VALUES for count in COUNTS]
    return found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        results = tried()
        os.chdir("/")
    sys.exit(write_table(results, "attacked while it runs", BEGIN, END))

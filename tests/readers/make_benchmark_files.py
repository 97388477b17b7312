"""Writes files/pytest_benchmark.json, files/pytest_benchmark_stats.json and files/pyperf.json with the real tools.

    python -m venv /tmp/tools && /tmp/tools/bin/pip install pytest-benchmark==5.3.1 pyperf==2.10.0
    /tmp/tools/bin/python tests/readers/make_benchmark_files.py

Not run by the tests: their expected values are those of the files as they were written on 2026-11-21.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FILES = Path(__file__).parent / "files"

BENCHMARKS = """\
import pytest

@pytest.mark.parametrize("n", [8, 64])
def test_sum(benchmark, n):
    benchmark.pedantic(sum, args=(range(n),), rounds=5, iterations=10)

def test_once(benchmark):
    benchmark.pedantic(sorted, args=([3, 1, 2],), rounds=1)
"""
#: The tool's own hook: a list of processor flags would be most of the file.
CONFTEST = """\
def pytest_benchmark_update_machine_info(config, machine_info):
    machine_info["node"] = "host"
    machine_info["cpu"].pop("flags", None)
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "test_bench.py").write_text(BENCHMARKS)
        (folder / "conftest.py").write_text(CONFTEST)

        def run(*words: str) -> None:
            subprocess.run([sys.executable, "-m", *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)

        run("pytest", "--benchmark-json=all.json", "--benchmark-save=stats")
        timing = ["pyperf", "timeit", "--quiet", "-p3", "-n2", "-w1", "--min-time=0.001"]
        run(*timing, "--name=sum", "-o", "pyperf.json", "sum(range(100))")
        run(*timing, "--name=sorted", "--append", "pyperf.json", "sorted([3, 1, 2])")
        shutil.copy(folder / "all.json", FILES / "pytest_benchmark.json")
        shutil.copy(next(folder.glob(".benchmarks/*/*.json")), FILES / "pytest_benchmark_stats.json")
        suite = json.loads((folder / "pyperf.json").read_text())
        for fact in ("python_config_args", "python_executable", "hostname"):  # of the machine that wrote the file
            suite["metadata"].pop(fact, None)
        (FILES / "pyperf.json").write_text(json.dumps(suite, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()

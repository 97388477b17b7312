"""The files of perfgate are read by programs that nobody here wrote: `pytest -m clients`."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import write_results, write_rules
from installed import HERE, PATIENCE, ROOT, chromium, node_modules, python_programs

from perfgate import __version__
from perfgate.schemas import FOLDER
from perfgate.workspace.ci_files import SYSTEMS, ci_file

pytestmark = pytest.mark.clients

GOLDEN = ROOT / "tests" / "reporters" / "golden"
EXAMPLE = ROOT / "examples" / "tiny-gpt"
#: Words of the first and the last line of each card of the example.
CARDS = [
    ("slower forward", "undecided: forward median on rank 1 +25.9%"),
    ("step median on rank 1 went", "rules/training.yaml:11:5"),
    ("backward median on rank 0 went", "rules/training.yaml:10:5"),
]
#: The schemas of other systems, which check-jsonschema brings along.
SCHEMA_OF = {"gitlab": "vendor.gitlab-ci", "buildkite": "vendor.buildkite"}
Done = subprocess.CompletedProcess[str]
Client = Callable[..., Done]
#: axe gives its violations as JSON in a `pre`.
AXE = """
document.querySelectorAll("details").forEach(one => one.open = true);
axe.run(document).then(found => {
  const said = document.createElement("pre");
  said.id = "axe";
  said.textContent = JSON.stringify(found.violations.map(
    one => [one.id, one.nodes.map(node => node.target.join(" ") + ": " + node.failureSummary)]));
  document.body.appendChild(said);
});
"""


@pytest.fixture
def client(tmp_path: Path) -> Client:
    """Run an installed program, in the test's folder if no other is given."""
    places = [str(python_programs()), str(node_modules() / ".bin"), os.environ["PATH"]]

    def run(*words: str | Path, cwd: Path = tmp_path) -> Done:
        command, environment = [str(word) for word in words], {**os.environ, "PATH": os.pathsep.join(places)}
        program = shutil.which(command[0], path=environment["PATH"])
        assert program, f"{command[0]} was not installed"
        return subprocess.run(
            [program, *command[1:]],
            cwd=cwd,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )

    return run


def report(form: str, place: Path) -> Path:
    """A report of the example's slower run, as `perfgate check` writes it."""
    words = ["check", "runs/slow.log", f"--{form}", str(place), "--no-github", "--quiet"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-m", "perfgate", *words], cwd=EXAMPLE, env=environment, check=False)
    assert done.returncode == 1
    return place


def counted() -> dict[str, int]:
    """The numbers that the JUnit report with every outcome says of itself."""
    [head] = re.findall(r"<testsuite [^>]*>", (GOLDEN / "every_outcome.xml").read_text(encoding="utf-8"))
    found = {name: int(number) for name, number in re.findall(r'(errors|failures|skipped|tests)="(\d+)"', head)}
    return {**found, "passed": 2 * found["tests"] - sum(found.values())}


# --- JUnit -------------------------------------------------------------------------------------------------------


def test_junitparser_counts_the_cases_and_finds_the_evidence_of_a_pass(client: Client, tmp_path: Path) -> None:
    report("junit", tmp_path / "perfgate.xml")
    assert client("junitparser", "verify", "perfgate.xml").returncode == 1  # it has failures
    shutil.copy(GOLDEN / "all_pass.xml", tmp_path / "pass.xml")
    assert client("junitparser", "verify", "pass.xml").returncode == 0
    program = (
        "from junitparser import JUnitXml; [suite] = JUnitXml.fromfile('perfgate.xml');"
        "print([case.system_out for case in suite if case.is_passed])"
    )
    done = client("python", "-c", program)
    assert "measured: " in done.stdout, done.stderr
    assert "allowed: under 30 ms" in done.stdout


def test_xunit_viewer_shows_every_case(client: Client, tmp_path: Path) -> None:
    source = GOLDEN / "every_outcome.xml"
    done = client("xunit-viewer", "--results", source, "--output", "page.html", "--console", "--no-color")
    expected = "{passed} passed, {failures} failure, {errors} error, {skipped} skipped".format(**counted())
    assert expected in done.stdout, done.stderr
    assert "warning, does not block: MESSAGE of memory.peak_allocated" in done.stdout
    assert (tmp_path / "page.html").stat().st_size > 10_000


def test_junit2html_shows_every_case(client: Client, tmp_path: Path) -> None:
    assert client("junit2html", GOLDEN / "every_outcome.xml", "page.html").returncode == 0
    page = html.unescape((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert "measured: 448 ms [442.1, 455]" in page
    matrix = client("junit2html", "--summary-matrix", GOLDEN / "every_outcome.xml").stdout
    numbers = {name: int(number) for name, number in re.findall(r"(Failed|Passed|Skipped) +: +(\d+)", matrix)}
    own = counted()
    bad = own["failures"] + own["errors"]
    assert numbers == {"Failed": bad, "Passed": own["passed"], "Skipped": own["skipped"]}


# --- SARIF -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["slow", "every_outcome", "all_pass", "nothing_judged"])
def test_sarif_multitool_finds_no_fault(client: Client, tmp_path: Path, name: str) -> None:
    source = tmp_path / "perfgate.sarif"
    if name == "slow":
        report("sarif", source)
    else:
        text = (GOLDEN / f"{name}.sarif").read_text(encoding="utf-8")
        source.write_text(text.replace('"VERSION"', f'"{__version__}"'), encoding="utf-8")
    done = client("sarif-multitool", "validate", source, "--output", "found.sarif")
    found = json.loads((tmp_path / "found.sarif").read_text(encoding="utf-8-sig"))
    assert [(one["ruleId"], one["message"]) for run in found["runs"] for one in run["results"]] == [], done.stdout


# --- the page ----------------------------------------------------------------------------------------------------


def many(folder: Path) -> Path:
    """The page of a glob with 40 metrics, some of which fail, beside two other rules."""
    write_rules(folder, "kernel.* under 50 ms", "step under 1 s", "optimizer within 5% of baseline")
    names = [f"kernel.k{i}" for i in range(40)]
    series = [{"metric": name, "unit": "ms", "values": [40.0 + i] * 8} for i, name in enumerate([*names, "step"])]
    write_results(folder / "new.json", *series)
    words = ["check", "new.json", "--html", "many.html", "--no-github", "--quiet"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-m", "perfgate", *words], cwd=folder, env=environment, check=False)
    return folder / "many.html"


def browse(folder: Path, page: Path, *options: str) -> str:
    command = [chromium(), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"]
    command += [*options, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout


def violations(folder: Path, page: Path, scheme: int) -> list[Any]:
    """Return the findings of axe on a page with all parts unfolded; its policy forbids scripts and is removed."""
    axe = (node_modules() / "axe-core" / "axe.min.js").read_text(encoding="utf-8").replace("</script", "<\\/script")
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text(encoding="utf-8"))
    probed = folder / f"probed-{scheme}.html"
    probed.write_text(text.replace("</body>", f"<script>{axe}</script><script>{AXE}</script></body>"))
    options = (f"--blink-settings=preferredColorScheme={scheme}", "--virtual-time-budget=100000", "--dump-dom")
    [said] = re.findall(r'<pre id="axe">(.*?)</pre>', browse(folder, probed, *options), re.DOTALL)
    found = json.loads(html.unescape(said))
    assert isinstance(found, list)
    return found


def trends(folder: Path) -> Path:
    """The page of trends of a history with a change."""
    rows = [f"2026-01-{1 + i:02}T09:00:00Z,{i:02}c0ffee,forward,{16 + (i > 12) + 0.1 * (i % 3)},ms" for i in range(28)]
    (folder / "old.csv").write_text("\n".join(["time,commit,metric,value,unit", *rows]))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for words in (("import", "old.csv"), ("report", "--html", "trends.html")):
        command = [sys.executable, "-m", "perfgate", "history", *words]
        subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    return folder / "trends.html"


@pytest.mark.browser
@pytest.mark.parametrize("scheme", [1, 0], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["slow", "many", "trends"])
def test_axe_finds_no_barrier(folder: Path, name: str, scheme: int) -> None:
    page = (
        report("html", folder / "slow.html") if name == "slow" else many(folder) if name == "many" else trends(folder)
    )
    assert violations(folder, page, scheme) == []


@pytest.mark.browser
def test_axe_sees_a_barrier(folder: Path) -> None:
    """The probe itself works: white text on white is a violation."""
    page = report("html", folder / "slow.html")
    page.write_text(page.read_text(encoding="utf-8").replace("<h2>", '<h2 style="color: #eee">'), encoding="utf-8")
    assert [name for name, _ in violations(folder, page, 1)] == ["color-contrast"]


@pytest.mark.browser
def test_print_keeps_the_card_of_a_verdict_on_one_page(folder: Path, client: Client) -> None:
    page, paper = report("html", folder / "slow.html"), folder / "slow.pdf"
    browse(folder, page, f"--print-to-pdf={paper}", "--no-pdf-header-footer")
    program = (
        f"import pypdf, json; print(json.dumps([p.extract_text() for p in pypdf.PdfReader({str(paper)!r}).pages]))"
    )
    done = client("python", "-c", program)
    sheets = [" ".join(text.split()) for text in json.loads(done.stdout)]
    for first, last in CARDS:
        assert any(first in sheet and last in sheet for sheet in sheets), sheets


# --- editors and linters -----------------------------------------------------------------------------------------


def diagnostics(path: Path, text: str) -> list[str]:
    """Return the problems of yaml-language-server in a rule file; its first line names the schema, as pages advise."""
    opened = {"uri": path.as_uri(), "languageId": "yaml", "version": 1, "text": text}
    root = {"processId": None, "rootUri": path.parent.as_uri(), "capabilities": {}}
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": root},
        {"method": "initialized", "params": {}},
        {"method": "textDocument/didOpen", "params": {"textDocument": opened}},
    ]
    program = node_modules() / ".bin" / "yaml-language-server"
    with subprocess.Popen([program, "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            for message in messages:
                body = json.dumps({"jsonrpc": "2.0", **message}).encode()
                server.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            server.stdin.flush()
            while True:
                length = 0
                while line := server.stdout.readline().strip():
                    length = int(line.split(b":")[1]) if line.lower().startswith(b"content-length") else length
                said = json.loads(server.stdout.read(length))
                if said.get("method") == "textDocument/publishDiagnostics":
                    return [one["message"] for one in said["params"]["diagnostics"]]
        finally:
            server.kill()


def test_yaml_language_server_accepts_the_rules_of_the_example() -> None:
    path = EXAMPLE / "rules" / "training.yaml"
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# yaml-language-server: $schema=")
    assert diagnostics(path, text) == []


def test_yaml_language_server_finds_a_misspelled_setting(tmp_path: Path) -> None:
    shutil.copy(FOLDER / "rules.schema.json", tmp_path)
    text = "# yaml-language-server: $schema=../rules.schema.json\nversion: 1\nrules:\n"
    text += "  - assert: forward under 1 s\n    severty: warning\n"
    assert any("severty" in message for message in diagnostics(tmp_path / "rules" / "rules.yaml", text))


def test_pre_commit_runs_the_hook_for_rules_at_any_depth(client: Client, tmp_path: Path) -> None:
    write_rules(tmp_path, "forward undr 1 s", name="train/rules/bad.yaml")
    write_rules(tmp_path, "forward under 1 s", name="rules/good.yaml")
    client("git", "init", "-q")
    client("git", "add", ".")
    done = client("pre-commit", "try-repo", ROOT, "perfgate-rules", "--all-files")
    assert done.returncode == 1, done.stderr
    assert "train/rules/bad.yaml:3" in done.stdout
    client("git", "rm", "-q", "-f", "train/rules/bad.yaml")
    done = client("pre-commit", "try-repo", ROOT, "perfgate-rules", "--all-files")
    assert (done.returncode, "Passed" in done.stdout) == (0, True), done.stdout


def test_a_job_of_kubernetes_follows_the_schema(client: Client, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "kubernetes.md").read_text(encoding="utf-8")
    [job] = re.findall(r"<!-- perf-gate\.yaml -->\n```yaml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "job.yaml").write_text(job)
    done = client("kubernetes-validate", "--strict", "-k", "1.32", "job.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("is_paired", [False, True])
def test_the_jobs_of_init_follow_the_schemas_of_their_systems(
    client: Client, tmp_path: Path, *, is_paired: bool
) -> None:
    """Jenkins has no schema: of its job, as of all, a linter of shells reads the script."""
    for system in SYSTEMS[1:]:
        text, script = ci_file(system, is_paired=is_paired, is_remembered=True).text, tmp_path / f"{system}.sh"
        if system in ("gitlab", "buildkite"):
            (tmp_path / f"{system}.yml").write_text(text)
            done = client("check-jsonschema", "--builtin-schema", SCHEMA_OF[system], f"{system}.yml")
            assert done.returncode == 0, done.stdout + done.stderr
        bodies = {
            "gitlab": lambda text: yaml.safe_load(text)["perf-gate"]["script"][0],
            "buildkite": lambda text: yaml.safe_load(text)["steps"][0]["command"].replace("$$", "$"),
            "jenkins": lambda text: text.split("'''")[1],
            "slurm": lambda text: text,
        }
        script.write_text("#!/bin/bash\n" + bodies[system](text).removeprefix("#!/bin/bash\n"))
        done = client("shellcheck", script)
        assert done.returncode == 0, done.stdout


def test_the_linters_of_workflows_run(client: Client) -> None:
    """Tests of the usual stage skip a linter that is absent; here all of them run."""
    done = client(
        sys.executable,
        *("-m", "pytest", "-n", "0", "-rs", ROOT / "tests/action/test_workflows.py"),
        *("-k", "zizmor or actionlint or schemas"),
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout
    assert "4 passed" in done.stdout
    assert "skipped" not in done.stdout


def test_the_recipes_name_every_program_that_the_tests_use() -> None:
    """A program without a fixed version would change what this stage says from one day to the next."""
    packages = json.loads((HERE / "package.json").read_text(encoding="utf-8"))["dependencies"]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in packages.values())
    recipes = [HERE / name for name in ("requirements.txt", "requirements-history.txt")]
    lines = [line for recipe in recipes for line in recipe.read_text(encoding="utf-8").splitlines()]
    assert all(re.fullmatch(r"#.*|[\w-]+==[\w.]+", line) for line in lines)

"""The shape of the code: who imports whom, where each package lives, and who may touch the world."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeGuard

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "perfgate"
MODULES = sorted(path for path in PACKAGE.rglob("*.py"))

#: The stages, and what each may import of perfgate beside itself. Everything flows one way.
MAY_IMPORT = {
    "version": set(),
    "core": set(),
    "documents": {"core"},
    "schemas": set(),
    "large_values": set(),
    "stats": {"core", "large_values"},
    "rules": {"core", "documents", "schemas"},
    "readers": {"core", "documents", "large_values"},
    "mappings": {"core", "documents", "rules", "schemas", "readers"},
    "words": {"core"},
    "judge": {"core", "rules", "stats", "words"},
    "causes": {"core", "stats"},
    "bisect": {"core", "documents", "stats", "rules", "judge", "workspace"},
    "editor": {"core", "documents", "rules", "mappings"},
    "analysis": {"core", "rules", "stats", "judge", "causes"},
    "workspace": {"core", "documents", "rules", "readers", "mappings", "large_values"},
    "baselines": {"core", "documents", "stats", "rules", "judge", "workspace", "causes", "words"},
    "history": {"core", "documents", "large_values", "stats", "rules", "judge", "readers", "workspace", "baselines"},
    "recorder": {"core"},
    "machine": {"core", "recorder"},
    "doctor": {"core", "machine", "measuring", "workspace", "stats", "judge", "analysis", "rules"},
    "measuring": {"core", "workspace", "judge", "words", "recorder", "machine"},
    "integrations": {"core", "recorder", "measuring"},
    "reporters": {"core", "documents", "words"},
    "cli": {"core", "rules", "judge", "workspace", "reporters"},
    "commands": {
        *("core", "documents", "schemas", "stats", "rules", "readers", "mappings", "judge", "causes", "analysis"),
        *("bisect", "baselines", "history", "workspace", "measuring", "machine", "doctor", "recorder", "editor"),
        *("reporters", "cli", "words"),
    },
    "__main__": {"cli"},
    "__init__": {"stats", "judge", "recorder", "measuring", "history"},
}

#: The home of each third-party package: the parts of perfgate that may import it.
HOMES = {
    "click": {"cli", "commands"},
    "scipy": {"stats"},
    "yaml": {"documents.yaml"},
    "jsonschema": {"rules.validate"},
    "junit_xml": {"reporters.junit"},
    "jinja2": {"reporters.html"},
    "markupsafe": {"reporters.html"},
    "rich": {"reporters"},
    "msgspec": {
        *("documents.structs", "documents.tree_texts", "baselines", "readers", "reporters", "history"),
        *("workspace.github", "core.details"),
    },
    #: The base class of types. A recorded program, the sampler and `--help` do without.
    "msgspec.structs": {
        *("analysis", "baselines", "bisect", "causes", "cli", "commands", "core", "doctor", "documents", "editor"),
        *("history", "judge", "mappings", "measuring", "readers", "reporters", "rules", "stats", "words", "workspace"),
    },
    "pandas": {"core.run_history"},
    "pyarrow": {"history.exports"},
    "mlflow": {"history.exports"},
    "wandb": {"history.exports"},
    "dask": {"workspace.cluster"},
    "distributed": {"workspace.cluster"},
    "fsspec": {"workspace.input_files"},
    "pygls": {"editor.server"},
    "lsprotocol": {"editor.server"},
    "pynvml": {"workspace.surroundings", "machine.gpus"},
    "amdsmi": {"machine.gpus"},
    "pytest": {"integrations.pytest_plugin"},
    "transformers": {"integrations.transformers"},
    "numpy": {
        *("core", "large_values", "stats", "readers", "judge", "analysis", "baselines", "causes", "history", "bisect"),
        *("workspace.env_facts", "documents.tree_texts", "commands"),
    },
}

#: What a recorded program may have, and must not be given by perfgate.
ON_DEMAND = {"numpy", "scipy", "click", "msgspec", "pytest", "torch", "lightning", "pytorch_lightning", "transformers"}

#: What reads or changes the world, and the only places that may.
WORLD = {
    *("workspace", "baselines.stores", "measuring", "commands", "cli", "recorder", "machine", "doctor"),
    *("readers.sqlite_file", "integrations.pytest_plugin"),
}
WORLDLY_NAMES = {"open", "print", "input"}
WORLDLY_ATTRIBUTES = {"os.environ", "os.getenv", "datetime.now", "date.today", "sys.argv", "sys.stdin"}
WORLDLY_MODULES = {"subprocess", "socket", "shutil", "tempfile", "getpass", "time"}


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1]) if parts[-1] == "__init__" and len(parts) > 1 else ".".join(parts)


def stage_of(path: Path) -> str:
    return name_of(path).split(".")[0]


class Facts(NamedTuple):
    """What the tests need to know of a file. It is parsed once for all of them."""

    #: The modules that it imports anywhere: in functions and under `TYPE_CHECKING`, too.
    imports: list[str]
    #: The modules of perfgate among them; of `from perfgate.core import runs` it is `core.runs`.
    files: set[str]
    #: The names of classes, of functions that are called, and of attributes, such as `os.environ`.
    classes: list[str]
    calls: set[str]
    attributes: set[str]
    #: The functions: their places, names, and lines without the docstring and the list of parameters.
    functions: list[tuple[str, str, int]]
    #: The places that use data without a type, or write into frozen values.
    untyped: list[str]


@cache
def facts() -> dict[Path, Facts]:
    """The facts of each file of perfgate."""
    names = {name_of(path) for path in MODULES}
    return {path: facts_of(path, names) for path in MODULES}


def facts_of(path: Path, names: set[str]) -> Facts:
    found = Facts([], set(), [], set(), set(), [], [])
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        found.imports.extend(imports(node, path))
        found.files.update(imported_files(node, names))
        if isinstance(node, ast.ClassDef):
            found.classes.append(node.name)
        if isinstance(node, ast.Call):
            found.calls.add(dotted(node.func))
        if isinstance(node, ast.Attribute):
            found.attributes.add(dotted(node))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) and len(node.body) > 1 else node.body
            found.functions.append((f"{path}:{node.lineno}", node.name, (node.end_lineno or 0) - body[0].lineno + 1))
        if is_untyped(node):
            found.untyped.append(f"{path}:{node.lineno}: {ast.unparse(node)}")
    return found


def dotted(node: ast.expr) -> str:
    """A name with its attributes, such as `os.environ`; what is before them is `?` if it is no name."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def imports(node: ast.AST, path: Path) -> Iterator[str]:
    """The modules that a statement imports."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"{path}: imports are absolute"
        module = node.module or ""
        if module == "msgspec" and {alias.name for alias in node.names} <= {"Struct", "field"}:
            module = "msgspec.structs"
        yield from (f"{module}.{alias.name}" for alias in node.names) if module == "perfgate" else [module]


def is_untyped(node: ast.AST) -> TypeGuard[ast.expr]:
    """Whether an expression is data without a type, or changes a frozen value."""
    if isinstance(node, ast.Subscript):
        return dotted(node.value) == "dict" and ast.unparse(node) == "dict[str, Any]"
    if isinstance(node, ast.Call):
        called = dotted(node.func)
        is_dataclass = called.rpartition(".")[2] in ("replace", "Verdict", "Report")
        has_splatted = is_dataclass and any(word.arg is None for word in node.keywords)
        return called in ("getattr", "setattr", "object.__setattr__") or has_splatted
    return isinstance(node, ast.Attribute) and node.attr == "__dict__"


def within(name: str, homes: set[str]) -> bool:
    return any(name == home or name.startswith(home + ".") for home in homes)


def test_imports_flow_one_way() -> None:
    for path, of_file in facts().items():
        stage = stage_of(path)
        for module in of_file.imports:
            parts = module.split(".")
            if parts[0] == "perfgate" and len(parts) > 1 and parts[1] != "version":
                assert parts[1] in MAY_IMPORT[stage] | {stage}, f"{path}: {stage} must not import {module}"


def test_third_party_packages_stay_at_home() -> None:
    for path, of_file in facts().items():
        for module in of_file.imports:
            package = module.split(".")[0]
            if package not in {"perfgate", *sys.stdlib_module_names}:
                assert package in HOMES, f"{path}: {package} is not a dependency"
                homes = HOMES.get(module, HOMES[package])
                assert within(name_of(path), homes), f"{path}: {module} belongs in {homes}"


def test_only_app_stores_and_cli_touch_the_world() -> None:
    for path, of_file in facts().items():
        if not within(name_of(path), WORLD):
            used = of_file.calls & WORLDLY_NAMES | set(of_file.imports) & WORLDLY_MODULES
            assert not used | of_file.attributes & WORLDLY_ATTRIBUTES, path


def imported_files(node: ast.AST, names: set[str]) -> set[str]:
    """The modules of perfgate that a statement names; `import perfgate` names `__init__`."""
    if isinstance(node, ast.Import):
        given = {alias.name for alias in node.names}
    elif isinstance(node, ast.ImportFrom):
        given = {f"{node.module}.{alias.name}" for alias in node.names}
        given = {name if name.removeprefix("perfgate.") in names else node.module or "" for name in given}
    else:
        given = set()
    inside = {name.removeprefix("perfgate").removeprefix(".") for name in given if name.split(".")[0] == "perfgate"}
    return {name or "__init__" for name in inside}


def test_every_kind_of_import_counts_for_circles() -> None:
    names = {"__init__", "version", "core", "core.runs"}
    kinds = {
        "import perfgate": "__init__",
        "import perfgate.core.runs": "core.runs",
        "from perfgate import __doc__": "__init__",
        "from perfgate import core": "core",
        "from perfgate.core import runs": "core.runs",
        "from perfgate.core import Run": "core",
    }
    for text, name in kinds.items():
        assert imported_files(ast.parse(text).body[0], names) == {name}, text


def test_no_file_imports_itself_through_others() -> None:
    left = {name_of(path): of_file.files for path, of_file in facts().items()}
    while free := [name for name, wanted in left.items() if not wanted & left.keys()]:
        for name in free:
            del left[name]
    assert not left, f"import circles among {sorted(left)}"


def test_a_class_name_means_one_thing() -> None:
    homes: dict[str, list[str]] = {}
    for path, of_file in facts().items():
        for name in of_file.classes if stage_of(path) != "readers" else ():
            homes.setdefault(name, []).append(name_of(path))
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


def test_a_file_name_is_in_two_folders_at_most() -> None:
    """The name of a command counts once in cli, commands and reporters."""
    folders: dict[str, set[str]] = {}
    for path in MODULES:
        if path.stem not in ("__init__", "__main__"):
            room = ".".join(name_of(path).split(".")[:-1])
            folders.setdefault(path.stem, set()).add("a command" if room in ("cli", "commands", "reporters") else room)
    assert {name: found for name, found in folders.items() if len(found) > 2} == {}


#: The rooms in which outcomes and exit codes are decided: no data without a type, no writing into frozen values.
DECIDING = ("judge", "analysis", "causes", "stats", "baselines", "history")


def test_decisions_are_typed_data() -> None:
    assert [place for path, found in facts().items() if stage_of(path) in DECIDING for place in found.untyped] == []


def loaded_by(code: str) -> set[str]:
    """The top-level modules that a fresh interpreter holds after running some code."""
    program = f"{code}\nimport sys; print(*{{m.split('.')[0] for m in sys.modules}}, *sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split()[-5000:])


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import perfgate", {"numpy", "scipy", "click"}),
        ("import perfgate; perfgate.Recorder", ON_DEMAND),
        (
            "from perfgate.cli.entry import run; run(['--version'])",
            {"numpy", "scipy", "rich", "yaml", "jsonschema", "msgspec", "perfgate.core"},
        ),
        (
            "from perfgate.cli.entry import run; run(['--help'])",
            {"numpy", "scipy", "rich", "yaml", "jsonschema", "msgspec", "perfgate.core", "perfgate.commands"},
        ),
        ("import perfgate.judge.verdicts", {"scipy.stats", "yaml", "rich"}),
        ("import perfgate.commands.check", {"scipy.stats", "junit_xml"}),
        ("import perfgate.commands.rules", {"scipy.stats", "perfgate.measuring"}),
    ],
    ids=["package", "recorder", "command line", "help", "judge", "check", "rules"],
)
def test_heavy_packages_are_imported_where_they_are_used(code: str, absent: set[str]) -> None:
    assert not loaded_by(code) & absent


def test_public_names_resolve() -> None:
    import perfgate

    assert dir(perfgate) == sorted(perfgate.__all__)
    for name in perfgate.__all__:
        found = getattr(perfgate, name)
        assert found.__doc__
        assert name == "__version__" or f"`{name}`" in (perfgate.__doc__ or "")
    assert (PACKAGE / "py.typed").exists()
    with pytest.raises(AttributeError):
        _ = perfgate.no_such_name  # type: ignore[attr-defined]


def test_public_functions_are_typed_as_they_are_described() -> None:
    import inspect

    import perfgate

    for name in set(perfgate.__all__) - {"__version__"}:
        found = getattr(perfgate, name)
        if inspect.isfunction(found):
            signature = inspect.signature(found)
            assert signature.return_annotation is not inspect.Signature.empty
            assert all(p.annotation is not inspect.Parameter.empty for p in signature.parameters.values()), name


def test_test_files_have_one_name_each() -> None:
    """Pytest collects nothing if two folders have a test file of the same name."""
    names = [path.name for path in Path(__file__).parent.rglob("test_*.py")]
    assert sorted(name for name in {*names} if names.count(name) > 1) == []


def test_files_are_short() -> None:
    lines = {name_of(path): len(path.read_text("utf-8").splitlines()) for path in MODULES}
    assert {name: count for name, count in lines.items() if count > 300} == {}


def test_functions_are_short() -> None:
    """At most 40 lines, without the docstring and the list of parameters."""
    assert [one for found in facts().values() for one in found.functions if one[2] > 40] == []

"""`perfgate lsp`, as an editor runs it: a process that is spoken to over standard input and output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Done, steady, write_log, write_rules

from perfgate.cli.entry import run

Command = Callable[..., Done]

RULES = "version: 1\nrules:\n  - forward under 50 ms\n"


class Editor:
    """A client of the protocol: messages have a header with their length."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "perfgate", "lsp"], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.folder = folder / "rules"
        self.uri = (self.folder / "rules.yaml").as_uri()
        self.number = 0

    def notify(self, method: str, params: object, **more: object) -> None:
        assert self.process.stdin is not None
        body = json.dumps({"jsonrpc": "2.0", "method": method, "params": params, **more}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()

    def receive(self, is_wanted: Callable[[dict[str, Any]], bool]) -> Any:
        """The next message that is wanted."""
        assert self.process.stdout is not None
        while True:
            length = 0
            while line := self.process.stdout.readline().strip():
                name, _, value = line.partition(b":")
                length = int(value) if name == b"Content-Length" else length
            assert length, "the server ended"
            message = json.loads(self.process.stdout.read(length))
            if is_wanted(message):
                return message

    def ask(self, method: str, params: object = None) -> Any:
        self.number += 1
        self.notify(method, params, id=self.number)
        return self.receive(lambda message: message.get("id") == self.number)["result"]

    def marks(self) -> Any:
        """The next published marks."""
        name = "textDocument/publishDiagnostics"
        return self.receive(lambda message: message.get("method") == name)["params"]["diagnostics"]

    def at(self, method: str, line: int, character: int) -> Any:
        place = {"line": line, "character": character}
        return self.ask(f"textDocument/{method}", {"textDocument": {"uri": self.uri}, "position": place})


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    """An editor whose server runs until the last test, beside stored runs with forward and backward."""
    pytest.importorskip("pygls")
    folder = tmp_path_factory.mktemp("editor")
    write_rules(folder, "forward within 5% of baseline")
    write_log(folder / "a.log", forward=steady(100), backward=steady(200))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert run(["baseline", "approve", "a.log", "--reason", "first"]) == 0
    editor = Editor(folder)
    editor.ask("initialize", {"processId": None, "rootUri": folder.as_uri(), "capabilities": {}})
    editor.notify("initialized", {})
    yield editor
    editor.ask("shutdown")
    editor.notify("exit", None)
    assert editor.process.wait(20) == 0
    for pipe in (editor.process.stdin, editor.process.stdout):
        assert pipe is not None
        pipe.close()


@pytest.fixture
def editor(started: Editor) -> Iterator[Editor]:
    """The editor with the rule file open."""
    document = {"uri": started.uri, "languageId": "yaml", "version": 1, "text": RULES}
    started.notify("textDocument/didOpen", {"textDocument": document})
    assert started.marks() == []
    yield started
    started.notify("textDocument/didClose", {"textDocument": {"uri": started.uri}})
    started.at("hover", 0, 0)  # its answer comes after all marks that are still under way


@pytest.mark.editor
def test_a_sentence_is_checked_while_it_is_typed(editor: Editor) -> None:
    place = {"start": {"line": 2, "character": 4}, "end": {"line": 2, "character": 11}}  # forward
    document = {"uri": editor.uri, "version": 2}
    change = {"range": place, "text": "🚀 forwrd undr"}
    editor.notify("textDocument/didChange", {"textDocument": document, "contentChanges": [change]})
    [mark] = editor.marks()
    assert "unexpected 'forwrd'" in mark["message"]
    assert (mark["severity"], mark["source"]) == (1, "perfgate")
    assert mark["range"] == {"start": {"line": 2, "character": 7}, "end": {"line": 2, "character": 13}}  # UTF-16
    document = {"uri": editor.uri, "version": 3}
    text = {"text": "version: 1\nrules:\n  - backwrd under 50 ms\n"}
    editor.notify("textDocument/didChange", {"textDocument": document, "contentChanges": [text]})
    [mark] = editor.marks()
    assert mark["message"] == "no stored run has backwrd: the nearest names are backward"
    assert mark["severity"] == 2


@pytest.mark.editor
def test_words_are_completed_and_rules_explained(editor: Editor) -> None:
    labels = [item["label"] for item in editor.at("completion", 2, 4)["items"]]
    assert labels[:2] == ["backward", "forward"] or labels[:2] == ["forward", "backward"]
    [item] = [item for item in editor.at("completion", 2, 7)["items"] if item["label"] == "forward"]
    assert item["textEdit"]["range"] == {"start": {"line": 2, "character": 4}, "end": {"line": 2, "character": 7}}
    hover = editor.at("hover", 2, 6)
    assert "passes if the whole confidence interval" in hover["contents"]["value"]
    assert editor.at("hover", 0, 0) is None


@pytest.mark.editor
def test_other_yaml_files_have_no_marks(editor: Editor) -> None:
    other = {"uri": editor.uri.replace("rules.yaml", "compose.yaml"), "languageId": "yaml", "version": 1}
    editor.notify("textDocument/didOpen", {"textDocument": {**other, "text": "services: {a: [}\n"}})
    assert editor.marks() == []


@pytest.mark.editor
def test_nothing_is_read_but_what_the_editor_has_open(editor: Editor) -> None:
    os.mkfifo(editor.folder / "pipe.yaml")
    (editor.folder / "zero.yaml").symlink_to("/dev/zero")
    closed = [(editor.folder / name).as_uri() for name in ("pipe.yaml", "zero.yaml", "none.yaml")]
    for uri in (
        *closed,
        "file:///dev/zero",
        "file:///../../etc/passwd",
        "untitled:rules.yaml",
        "http://127.0.0.1/x",
        "",
    ):
        document = {"textDocument": {"uri": uri}}
        editor.notify("textDocument/didSave", document)
        for method in ("hover", "completion"):
            found = editor.ask(f"textDocument/{method}", {**document, "position": {"line": 0, "character": 0}})
            assert not (found and found.get("items", True))


@pytest.mark.editor
def test_messages_of_another_form_do_not_end_the_server(editor: Editor) -> None:
    document, values = {"uri": editor.uri}, (None, 5, "x", [], {}, [[1]], -1, 10**12, 1.5, True, "\x00")
    for value in values:
        editor.notify("textDocument/didOpen", value)
        editor.notify("textDocument/didOpen", {"textDocument": value})
        for place in (value, {"line": value, "character": value}):
            editor.notify("textDocument/hover", {"textDocument": document, "position": place}, id=f"{value} {place}")
            change = {"range": {"start": place, "end": place}, "text": "x"}
            editor.notify("textDocument/didChange", {"textDocument": document, "contentChanges": [change]})
    assert "passes if" in editor.at("hover", 2, 6)["contents"]["value"]


@pytest.mark.editor
def test_a_message_of_very_many_errors_does_not_hang_the_server(editor: Editor) -> None:
    editor.notify("workspace/didChangeWatchedFiles", {"changes": "a" * 100_000})
    begun = time.monotonic()
    assert "passes if" in editor.at("hover", 2, 6)["contents"]["value"]
    assert time.monotonic() - begun < 10


@pytest.mark.editor
def test_a_document_of_one_very_long_line_does_not_hang_the_server(editor: Editor) -> None:
    begun = time.monotonic()
    document = {"uri": editor.uri, "languageId": "yaml", "version": 1, "text": "x" * 8_000_000}
    editor.notify("textDocument/didOpen", {"textDocument": document})
    [mark] = editor.marks()
    assert "rule_bytes=1MiB" in mark["message"]
    assert editor.at("hover", 0, 6) is None
    assert time.monotonic() - begun < 10


@pytest.mark.editor
@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"Content-Length: %d\r\n\r\n" % 10**12, "a message is larger than 64 MiB"),
        (b"Content-Length: %d\r\n\r\n" % 2**64, "a message is larger than 64 MiB"),
        (b"X: " + b"x" * 100_000, "a line of a header has more than 4096 bytes"),
        (b"X: " + b"x" * 4091 + b"\r\nContent-Length: %d\r\n\r\n" % 2**64, "a message is larger than 64 MiB"),
    ],
)
def test_a_length_that_cannot_be_ends_the_server(folder: Path, data: bytes, said: str) -> None:
    pytest.importorskip("pygls")
    words = [sys.executable, "-m", "perfgate", "lsp"]
    done = subprocess.run(words, cwd=folder, input=data, capture_output=True, timeout=60, check=False)
    assert done.returncode == 2
    assert said in done.stderr.decode()


@pytest.mark.editor
def test_a_path_with_a_space_has_marks(editor: Editor) -> None:
    document = {
        "uri": editor.uri.replace("rules.yaml", "my%20rules.yaml"),
        "languageId": "yaml",
        "version": 1,
        "text": RULES.replace("under", "undr"),
    }
    editor.notify("textDocument/didOpen", {"textDocument": document})
    [mark] = editor.marks()
    assert "unexpected 'undr'" in mark["message"]


def test_without_pygls_the_command_says_how_to_install_it(
    perfgate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith(("pygls", "lsprotocol", "perfgate.editor.server"))]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("pygls", "lsprotocol"):
        monkeypatch.setitem(sys.modules, name, None)
    done = perfgate("lsp")
    assert done.code == 2
    assert "pip install 'perfgate[lsp]'" in done.err

"""The language server of rule files, over standard input and output: `perfgate lsp`.

It speaks the Language Server Protocol 3.17 with pygls, for YAML documents that are rule files. Each change of a
document publishes its marks again; opening and saving one reads the stored baselines again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.protocol import default_converter
from pygls.workspace import TextDocument

from perfgate.core.resource_limits import DEFAULT
from perfgate.editor.rule_text import OfferKind, StoredMetrics, hint, is_mapping_file, is_rule_file, marks, offers
from perfgate.version import __version__

_SEVERITIES = {"error": types.DiagnosticSeverity.Error, "warning": types.DiagnosticSeverity.Warning}
_KINDS: dict[OfferKind, types.CompletionItemKind] = {
    "metric": types.CompletionItemKind.Variable,
    "statistic": types.CompletionItemKind.Function,
    "comparator": types.CompletionItemKind.Operator,
    "unit": types.CompletionItemKind.Unit,
    "reference": types.CompletionItemKind.Reference,
    "rank": types.CompletionItemKind.Keyword,
    "word": types.CompletionItemKind.Keyword,
}


class RuleServer(LanguageServer):
    """The server. `stored` has, for the URI of each open document, the stored metrics that its rules can use."""

    def __init__(self, read_stored: Callable[[str], StoredMetrics]) -> None:
        kind = types.TextDocumentSyncKind.Incremental
        super().__init__("perfgate", __version__, text_document_sync_kind=kind, converter_factory=_converter)
        self.read_stored = read_stored
        self.stored: dict[str, StoredMetrics] = {}

    def open_document(self, uri: str) -> TextDocument | None:
        """Return an open document. Its path is not opened, because it may be a pipe or a link.

        pygls keeps documents by their decoded URI: an editor writes `%20` for a space in a path.
        """
        document: TextDocument | None = self.workspace.text_documents.get(unquote(uri))
        return document

    def rules(self, uri: str) -> TextDocument | None:
        """Return an open document if it is a rule file, and not larger than one may be: pygls counts each character."""
        document = self.open_document(uri)
        if document is None or len(document.source) > DEFAULT.rule_bytes:
            return None
        return document if is_rule_file(document.path, document.source) else None

    def publish(self, uri: str, *, again: bool) -> None:
        """Publish the marks of a document; with `again`, read the stored baselines first."""
        found: list[types.Diagnostic] = []
        document = self.open_document(uri)
        if document is None:
            return
        path, text = document.path, document.source
        if is_mapping_file(path, text) or is_rule_file(path, text):
            if again or uri not in self.stored:
                self.stored[uri] = self.read_stored(path)
            for mark in marks(document.filename or "rules.yaml", text, self.stored[uri]):
                here, severity = _range(document, mark.line, mark.start, mark.end), _SEVERITIES[mark.severity]
                found.append(types.Diagnostic(here, mark.message, severity=severity, source="perfgate"))
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found))


def _converter() -> Any:
    """Return the converter of pygls, made to stop at the first wrong value: to list 100,000 of them takes a minute."""
    converter = default_converter()  # type: ignore[no-untyped-call]
    converter.detailed_validation = False
    return converter


def make_server(read_stored: Callable[[str], StoredMetrics]) -> RuleServer:
    """Return the server, ready to be started.

    `read_stored`: returns the metrics of the baselines that belong to a rule file, by its path.
    """
    server = RuleServer(read_stored)

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: types.DidOpenTextDocumentParams) -> None:
        server.publish(params.text_document.uri, again=True)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def saved(params: types.DidSaveTextDocumentParams) -> None:
        server.publish(params.text_document.uri, again=True)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(params: types.DidChangeTextDocumentParams) -> None:
        server.publish(params.text_document.uri, again=False)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: types.DidCloseTextDocumentParams) -> None:
        server.stored.pop(params.text_document.uri, None)
        server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(params.text_document.uri, []))

    @server.feature(types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(trigger_characters=[" ", "(", "{"]))
    def completed(params: types.CompletionParams) -> types.CompletionList:
        return types.CompletionList(is_incomplete=False, items=_items(server, params))

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hovered(params: types.HoverParams) -> types.Hover | None:
        document = server.rules(params.text_document.uri)
        if document is None:
            return None
        place = document.position_codec.position_from_client_units(document.lines, params.position)
        found = hint(document.filename or "rules.yaml", document.source, place.line, place.character)
        if found is None:
            return None
        text = types.MarkupContent(types.MarkupKind.PlainText, found.text)
        return types.Hover(text, _range(document, found.line, found.start, found.end))

    return server


def _items(server: RuleServer, params: types.CompletionParams) -> list[types.CompletionItem]:
    document = server.rules(params.text_document.uri)
    if document is None:
        return []
    place = document.position_codec.position_from_client_units(document.lines, params.position)
    stored = server.stored.get(params.text_document.uri, {})
    return [
        types.CompletionItem(
            label=offer.text,
            kind=_KINDS[offer.kind],
            detail=offer.meaning,
            sort_text=f"{number:05d}",  # editors sort by this text
            text_edit=types.TextEdit(_range(document, place.line, offer.start, place.character), offer.text),
        )
        for number, offer in enumerate(offers(document.source, place.line, place.character, stored))
    ]


def _range(document: TextDocument, line: int, start: int, end: int) -> types.Range:
    """Return a range of characters in the units of the client: UTF-16, unless it asked for another encoding."""
    found = types.Range(types.Position(line, start), types.Position(line, end))
    return document.position_codec.range_to_client_units(document.lines, found)

"""A service with a bad certificate gets no secret: no token, and no message for a webhook."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from urllib.request import build_opener

import pytest

from perfgate.workspace import github


def asked_with(folder: Path, *words: str, host: str, monkeypatch: pytest.MonkeyPatch, is_known: bool = True) -> str:
    """What `ask` says of a server whose certificate openssl makes with these words; its path if it was asked."""
    key, certificate, asked = folder / "a.key", folder / "a.pem", list[str]()
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "2"]
    made = [*command, *words, "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(made, check=True, capture_output=True)
    if is_known:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    monkeypatch.setattr(github, "_OPENER", build_opener(github._NoRedirects))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            self.send_response(204)
            self.end_headers()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        Thread(target=server.serve_forever, daemon=True).start()
        answer = github.ask("POST", f"https://{host}:{server.server_port}/secret", {}, {"text": "x"}, repeat=False)
        server.shutdown()
    assert "secret" not in str(answer)
    return asked[0] if asked else str(answer)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="it makes the certificates")
@pytest.mark.parametrize(
    ("san", "host", "said"),
    [
        ("DNS:localhost", "localhost", "/secret"),
        ("DNS:example.com", "localhost", "Hostname mismatch"),
        ("DNS:*.localhost", "localhost", "Hostname mismatch"),
        ("DNS:localhost", "127.0.0.1", "IP address mismatch"),
        ("IP:10.0.0.1", "127.0.0.1", "IP address mismatch"),
    ],
)
def test_a_certificate_of_another_host_gets_no_secret(
    tmp_path: Path, san: str, host: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert said in asked_with(tmp_path, "-addext", f"subjectAltName={san}", host=host, monkeypatch=monkeypatch)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="it makes the certificates")
def test_a_certificate_of_an_unknown_authority_gets_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("-addext", "subjectAltName=DNS:localhost")
    said = asked_with(tmp_path, *words, host="localhost", monkeypatch=monkeypatch, is_known=False)
    assert said.startswith("no answer (SSLCertVerificationError: self")

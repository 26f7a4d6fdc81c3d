"""What an editor shows of the package: completions and hovers, asked of pyright's language server over its pipe."""

import json
import subprocess
import sys
import threading

import pytest

import tilewright as tw
from tests.typing.installed import installed_in
from tilewright import lang as tl
from tilewright import lax
from tilewright import numpy as tnp

# Lines, with the namespace whose names complete after the last dot.
LINES = {"tnp.": tnp, "tl.": tl, "tw.": tw, "lax.linalg.": lax.linalg, "tl.mosaic_gpu.": tl.mosaic_gpu}
# Lines, with a part of what a hover over the end shows.
HOVERS = {
    "tw.jit": "def jit",
    "tnp.einsum": "einsum",
    "lax.linalg.cholesky": "cholesky",
    "tl.kernel_call": "kernel_call",
    "tnp.ones(3).T": "Array",
}
HEAD = "import tilewright as tw\nfrom tilewright import lang as tl, lax, numpy as tnp\n"


class Server:
    """A running language server, with one document open."""

    def __init__(self, folder, text):
        command = [sys.executable, "-m", "pyright.langserver", "--stdio"]
        pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nowhere)
        self.watch = threading.Timer(300, self.process.kill)
        self.watch.start()
        self.number, self.uri = 0, (folder / "script.py").as_uri()
        self.request("initialize", processId=None, rootUri=folder.as_uri(), capabilities={
            "textDocument": {"hover": {"contentFormat": ["markdown"]}, "completion": {}}},
            workspaceFolders=[{"uri": folder.as_uri(), "name": "script"}])  # fmt: skip
        self.send("initialized")
        self.send("textDocument/didOpen", textDocument={
            "uri": self.uri, "languageId": "python", "version": 1, "text": text})  # fmt: skip

    def _write(self, message):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def _read(self):
        length = 0
        while (line := self.process.stdout.readline()) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        assert length, "the language server has ended"
        return json.loads(self.process.stdout.read(length))

    def send(self, method, **params):
        self._write({"method": method, "params": params})

    def request(self, method, **params):
        """The result of a request; what the server asks meanwhile is answered with nothing."""
        self.number += 1
        self._write({"id": self.number, "method": method, "params": params})
        while True:
            message = self._read()
            if message.get("id") == self.number and "method" not in message:
                assert "error" not in message, message
                return message["result"]
            if "id" in message:
                items = message["params"].get("items", []) if message["method"] == "workspace/configuration" else None
                self._write({"id": message["id"], "result": None if items is None else [{} for _ in items]})

    def at(self, method, line, character):
        return self.request(f"textDocument/{method}", textDocument={"uri": self.uri},
                            position={"line": line, "character": character})  # fmt: skip

    def end(self):
        self.watch.cancel()
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("editor")
    installed_in(folder)
    text = HEAD + "\n".join([*LINES, *HOVERS]) + "\n"
    (folder / "script.py").write_text(text)
    running = Server(folder, text)
    yield running
    running.end()


def labels(found):
    return {item["label"] for item in (found["items"] if isinstance(found, dict) else found)}


@pytest.mark.parametrize("text", LINES)
def test_names_are_completed(server, text):
    line = HEAD.count("\n") + [*LINES].index(text)
    found = labels(server.at("completion", line, len(text)))
    assert set(dir(LINES[text])) <= found
    assert not {"annotations", "TYPE_CHECKING", "Callable"} & found  # what the module itself imports


@pytest.mark.parametrize("text", HOVERS)
def test_hovers_have_the_signature_and_the_docstring(server, text):
    line = HEAD.count("\n") + len(LINES) + [*HOVERS].index(text)
    found = server.at("hover", line, len(text) - 1)["contents"]["value"]
    assert HOVERS[text] in found and "Unknown" not in found.splitlines()[1]
    assert text.endswith(".T") or "\n---" in found, "no docstring"  # pyright puts a rule above the docstring

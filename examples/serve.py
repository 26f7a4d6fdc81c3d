"""Serve a kernel from its export: a server that has only the bytes answers predictions for batches of any size.

A softmax over rows, written as a kernel, is the end of a small classifier. It is exported with a symbolic batch to a
file; another process loads the file, which needs neither the kernel nor the weights' code, and answers JSON over HTTP
on this machine alone. `python examples/serve.py` exports, serves, asks twice and stops.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
from rich.console import Console

import tilewright as tw
from tilewright import export
from tilewright import lang as tl
from tilewright import numpy as tnp

FEATURES, CLASSES = 16, 10


def softmax_body(x, out):
    power = tnp.exp(x[...] - x[...].max(-1, keepdims=True))
    out[...] = power / power.sum(-1, keepdims=True)


def softmax(x):
    """The kernel, one row in each cell of its grid."""
    row = tl.BlockSpec((None, x.shape[1]), lambda i: (i, 0))
    result = tw.ShapeDtypeStruct(x.shape, x.dtype)
    return tl.kernel_call(softmax_body, result, grid=(x.shape[0],), in_specs=[row], out_specs=row)(x)


def weights(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(FEATURES, CLASSES)).astype(np.float32)


def exported() -> bytes:
    """The classifier, its weights among its constants, for any number of rows."""
    fixed = tnp.asarray(weights())
    (b,) = export.symbolic_shape("b")
    predict = tw.jit(lambda x: softmax(x @ fixed))
    return bytes(export.export(predict)(tw.ShapeDtypeStruct((b, FEATURES), np.float32)).serialize())


def make_server(data: bytes, port: int = 0) -> HTTPServer:
    """A server on this machine that answers POSTs of rows with the export's results."""
    program = export.deserialize(data)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            try:
                status, answer = 200, program.call(np.asarray(json.loads(body), np.float32)).tolist()
            except (ValueError, TypeError) as error:  # what export's own errors are too
                status, answer = 400, {"error": str(error).splitlines()[0]}
            text = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *args: object) -> None:
            pass

    return HTTPServer(("127.0.0.1", port), Handler)


def ask(port: int, rows: np.ndarray) -> np.ndarray:
    """What the server at a port predicts for some rows."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}", json.dumps(rows.tolist()).encode())
    with urllib.request.urlopen(request, timeout=60) as answer:
        return np.asarray(json.load(answer))


def wanted(rows: np.ndarray) -> np.ndarray:
    """The same, in NumPy."""
    power = np.exp(rows @ weights())
    return power / power.sum(1, keepdims=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve", type=Path, help="an export to serve, until the process is ended")
    options = parser.parse_args()
    if options.serve:
        server = make_server(options.serve.read_bytes())
        print(server.server_port, flush=True)
        server.serve_forever()
    console = Console()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "softmax.stablehlo"
        path.write_bytes(exported())
        console.print(f"exported: {path.stat().st_size:,} bytes")
        server = subprocess.Popen([sys.executable, __file__, "--serve", str(path)], stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            worst = 0.0
            for size in (1, 7):
                rows = np.random.default_rng(size).normal(size=(size, FEATURES)).astype(np.float32)
                worst = max(worst, float(np.abs(ask(port, rows) - wanted(rows)).max()))
                console.print(f"{size} rows answered, at most {worst:.1e} from NumPy")
        finally:
            server.terminate()
            server.wait()
    return 0 if worst < 1e-5 else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted")

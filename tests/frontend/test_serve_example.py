"""The example of a served export: what a server that has only the bytes answers is what NumPy computes."""

import threading
import urllib.error

import numpy as np
import pytest

from examples import serve


def test_a_served_kernel_answers_batches_of_any_size():
    server = serve.make_server(serve.exported())
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        for size in (1, 4):
            rows = np.random.default_rng(size).normal(size=(size, serve.FEATURES)).astype(np.float32)
            np.testing.assert_allclose(serve.ask(server.server_port, rows), serve.wanted(rows), 1e-5, 1e-6)
        with pytest.raises(urllib.error.HTTPError, match="400"):
            serve.ask(server.server_port, np.zeros((2, 3), np.float32))
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

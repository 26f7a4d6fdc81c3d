"""Checkpoints of arrays on a mesh, restored onto another one: right, and no byte read twice."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import checkpoints, random
from tilewright.checkpoints.reader import Reader
from tilewright.core.support.errors import DamagedCheckpointError
from tilewright.sharding import Mesh, NamedSharding, P

OLD = tw.make_mesh((4, 2), ("x", "y"))
NEW = Mesh(OLD.devices.reshape(-1)[::-1].reshape(2, 4), ("a", "b"))
SPECS = [P("x", "y"), P("x"), P(None, ("y", "x")), P()]
TO = [P("b", "a"), P(("a", "b")), P(None, "b"), P()]


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_onto_another_mesh(tmp_path, monkeypatch, spec):
    readers = []
    made = Reader.__init__

    def remembered(self, path):
        made(self, path)
        readers.append(self)

    monkeypatch.setattr(Reader, "__init__", remembered)
    for shape in ((16, 8), (10, 3)):
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        path = checkpoints.save(tmp_path / str(shape), [tw.device_put(x, NamedSharding(OLD, spec))]).wait()
        for to in TO:
            place = NamedSharding(NEW, to)
            (y,) = checkpoints.restore(path, [tw.ShapeDtypeStruct(shape, "float32", sharding=place)])
            assert y.sharding is place and np.array_equal(y, x)
            assert readers[-1].bytes_read == x.nbytes
    (y,) = checkpoints.restore(path, [tw.ShapeDtypeStruct(shape, "float32")], tw.devices()[3])
    assert y.device == tw.devices()[3] and np.array_equal(y, x)


def test_only_the_bytes_needed(tmp_path):
    x = np.arange(128, dtype=np.int32).reshape(16, 8)
    path = checkpoints.save(tmp_path / "a", x).wait()
    leaf, reader = checkpoints.metadata(path).leaves[""], Reader(path)
    wanted = [((2, 4), (0, 8)), ((5, 6), (3, 5))]
    found = reader.read(leaf, wanted)
    assert reader.bytes_read == (2 * 8 + 1 * 2) * 4
    assert all(np.array_equal(v, x[a:b, c:d]) for ((a, b), (c, d)), v in found.items())


def test_keys_and_damage(tmp_path):
    keys = tw.device_put(random.split(random.key(1), 8), NamedSharding(OLD, P("x")))
    path = checkpoints.save(tmp_path / "a", {"keys": keys}).wait()
    found = checkpoints.restore(path, {"keys": keys})["keys"]
    assert found.dtype == keys.dtype and np.array_equal(random.key_data(found), random.key_data(keys))
    file = tmp_path / "a" / "part-0.safetensors"
    data = bytearray(file.read_bytes())
    data[-3] ^= 8
    file.write_bytes(data)
    with pytest.raises(DamagedCheckpointError, match="was altered"):
        checkpoints.restore(path, {"keys": keys})

"""Checkpoints on one device: what is saved comes back; faults are named; nothing partial is taken for whole."""

import errno
import json
import os
import shutil
import struct
import subprocess
import sys
import threading

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tests.support.paths import ROOT
from tilewright import checkpoints, random
from tilewright import numpy as tnp
from tilewright.checkpoints import writer
from tilewright.checkpoints.safetensors import NAMES
from tilewright.core.support.errors import (
    ArgumentError,
    ArgumentTypeError,
    CheckpointMismatchError,
    CheckpointWriteError,
    DamagedCheckpointError,
    DtypeError,
    MeshError,
    NonArrayArgumentError,
)
from tilewright.sharding import AbstractMesh, NamedSharding, P


def state():
    return {
        "w": tnp.arange(6.0).reshape(2, 3), "b": tnp.ones((3,), "bfloat16"), "key": random.key(3), "none": None,
        "more": [np.arange(3), np.float64(2.5), 7, True, 1.5, tnp.zeros((0, 2)), np.zeros((2,), "complex128")],
    }  # fmt: skip


@pytest.fixture
def path(tmp_path):
    return checkpoints.save(tmp_path / "1", state(), notes={"loss": [0.1, 1e-30]}).wait()


def test_round_trip(path):
    want = state()
    found = checkpoints.restore(path, want)
    assert tw.tree.structure(found) == tw.tree.structure(want)
    for x, y in zip(tw.tree.leaves(found), tw.tree.leaves(want)):
        assert isinstance(x, type(y)) and (not hasattr(y, "dtype") or x.dtype == y.dtype)
        assert np.array_equal(*(random.key_data(v) if v is found["key"] or v is want["key"] else v for v in (x, y)))
    held = checkpoints.check(path)
    assert held == checkpoints.metadata(path) and held.notes == {"loss": [0.1, 1e-30]}
    assert held.leaves["['b']"].dtype == "bfloat16" and held.leaves["['key']"].key == "fry"
    with pytest.raises(DtypeError, match="int64"):
        checkpoints.restore(path)
    flat = checkpoints.save(path + "b", {"w": tnp.ones((2,))}).wait()
    assert checkpoints.restore(flat, shardings={"['w']": tw.devices()[0]})["['w']"].tolist() == [1, 1]
    assert checkpoints.latest(os.path.dirname(path)) == flat
    struct_ = tw.ShapeDtypeStruct((2,), "float32")
    assert checkpoints.restore(flat, {"w": struct_})["w"].tolist() == [1, 1]


def test_values_are_those_at_the_time_of_the_save(tmp_path):
    x = np.ones((100, 100))
    saving = checkpoints.save(tmp_path / "a", x)
    x[:] = 2
    assert (checkpoints.restore(saving.wait(), x) == 1).all() and saving.done()


CHANGES = {
    "another tree": ({"w": 1}, "has no ['b']"),
    "a leaf is missing": (state() | {"v": 1}, "it has no ['v']"),
    "a shape": (state() | {"w": tnp.ones((3, 2))}, "['w'] was saved as float32[2, 3], and `like` has float32[3, 2]"),
    "a dtype": (state() | {"w": tnp.ones((2, 3), "int32")}, "`like` has int32[2, 3]"),
    "no key": (state() | {"key": np.zeros((2,), "uint32")}, "fry keys"),
    "no number": (state() | {"w": 1.5}, "`like` has float64[]"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_not_alike(path, change):
    like, text = CHANGES[change]
    with pytest.raises(CheckpointMismatchError) as error:
        checkpoints.restore(path, like)
    assert text in str(error.value)


@pytest.mark.parametrize("leaf", ["text", object()], ids=["text", "object"])
def test_what_is_no_array_to_be_like(tmp_path, leaf):
    path = checkpoints.save(tmp_path / "one", [1.0]).wait()
    with pytest.raises(NonArrayArgumentError, match="`like` is of type") as error:
        checkpoints.restore(path, [leaf])
    assert "[0]" in str(error.value)


def rewritten(path, change):
    with open(path, "r+b") as file:
        data = bytearray(file.read())
        file.seek(0)
        file.truncate()
        file.write(change(data))


def flipped(at):
    def change(data):
        data[at] ^= 1
        return data

    return change


DAMAGES = {
    "truncated": ("part-0.safetensors", lambda d: d[:-1], "where its header says"),
    "no header": ("part-0.safetensors", lambda d: d[:100], "less than its header needs"),
    "empty": ("part-0.safetensors", lambda d: b"", "cannot be read"),
    "altered": ("part-0.safetensors", flipped(-1), "checksum"),
    "header altered": ("part-0.safetensors", flipped(8), "not of the format"),
    "manifest truncated": ("manifest.json", lambda d: d[:-5], "no complete checkpoint"),
    "manifest altered": ("manifest.json", lambda d: d.replace(b"float32", b"float16"), "checksum"),
    "another format": ("manifest.json", lambda d: d.replace(b"checkpoint 1", b"checkpoint 9"), "this version reads"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_named(path, damage):
    name, change, text = DAMAGES[damage]
    rewritten(os.path.join(path, name), change)
    for use in (checkpoints.check, lambda p: checkpoints.restore(p, state())):
        with pytest.raises(DamagedCheckpointError, match=text):
            use(path)
    assert (checkpoints.latest(os.path.dirname(path)) is None) == name.startswith("manifest")


def test_a_missing_part_or_checkpoint(path, tmp_path):
    os.remove(os.path.join(path, "part-0.safetensors"))
    with pytest.raises(DamagedCheckpointError, match="cannot be read"):
        checkpoints.restore(path, state())
    with pytest.raises(DamagedCheckpointError, match="no complete checkpoint"):
        checkpoints.restore(tmp_path / "nothing")
    assert checkpoints.latest(tmp_path / "nothing") is None


def test_a_file_where_a_folder_should_be(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointWriteError, match=r"file/3 cannot be written: File exists: .*file\n"):
        checkpoints.save(tmp_path / "file" / "3", state()).wait()


@pytest.mark.parametrize("call", ["fsync", "mkdir", "rename"])
def test_a_disk_that_cannot_be_written_to(tmp_path, monkeypatch, call):
    def fails(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fails)
        with pytest.raises(CheckpointWriteError, match="No space left") as error:
            checkpoints.save(tmp_path / "a", {"w": np.ones(3)}).wait()
        with pytest.warns(checkpoints.CheckpointWarning, match="without a `wait"):
            saving = checkpoints.save(tmp_path / "a", {"w": np.ones(3)})
            saving._thread.join()
            del saving
    assert isinstance(error.value, OSError) and __file__ in str(error.value)
    assert os.listdir(tmp_path) == []
    checkpoints.save(tmp_path / "a", {"w": np.ones(3)}).wait()


def test_what_cannot_be_saved(path):
    with pytest.raises(ArgumentError, match="already"):
        checkpoints.save(path, {})
    with pytest.raises(NonArrayArgumentError, match=r"\['name'\]"):
        checkpoints.save(path + "x", {"name": "text"})
    with pytest.raises(NonArrayArgumentError, match="dtype"):
        checkpoints.save(path + "x", {"name": np.array(["text"])})
    with pytest.raises(ArgumentTypeError, match="notes"):
        checkpoints.save(path + "x", {}, notes=object())


def test_killed_while_saving(tmp_path):
    command = [sys.executable, "-W", "ignore", "-m", "tests.checkpoints.killed", str(tmp_path), "50"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    killed, last = map(int, done.stdout.split())
    assert killed > 5 and last > 0


def test_files_of_safetensors(tmp_path):
    path = tmp_path / "x.safetensors"
    want = {f"a{n}": np.arange(1, 7).reshape(2, 3).astype(d) for n, d in enumerate(NAMES)}
    want |= {"scalar": np.float32(2), "none": np.zeros((0, 4), "int8")}
    checkpoints.write_safetensors(path, want, {"format": "np"})
    found = checkpoints.read_safetensors(path)
    assert list(found) == list(want)
    for name, x in want.items():
        assert found[name].dtype == x.dtype and np.array_equal(found[name], x), name
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    table = json.loads(data[8 : 8 + size])
    assert size % 8 == 0 and table["__metadata__"] == {"format": "np"}
    assert table["scalar"] == {"dtype": "F32", "shape": [], "data_offsets": table["scalar"]["data_offsets"]}
    with pytest.raises(DtypeError, match="complex128"):
        checkpoints.write_safetensors(path, {"z": np.zeros(1, "complex128")})
    assert path.read_bytes() == data and os.listdir(tmp_path) == ["x.safetensors"]
    strange = b'{"a":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}}'
    path.write_bytes(struct.pack("<Q", len(strange)) + strange + b"\0")  # an odd header, as others may write
    with pytest.raises(DtypeError, match="F4"):
        checkpoints.read_safetensors(path)
    odd = b'{"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}'
    path.write_bytes(struct.pack("<Q", len(odd)) + odd + np.array([1, 2], ml_dtypes.bfloat16).tobytes())
    assert checkpoints.read_safetensors(path)["a"].tolist() == [1, 2]
    for wrong in (b'{"a":{"dtype":"U8","shape":["x"],"data_offsets":[0,4]}}', b'{"a":1}', b"[]", b'{"a":'):
        path.write_bytes(struct.pack("<Q", len(wrong)) + wrong + bytes(4))
        with pytest.raises(DamagedCheckpointError, match="not of the format"):
            checkpoints.read_safetensors(path)
    shutil.rmtree(tmp_path)
    with pytest.raises(CheckpointWriteError, match="No such file"):
        checkpoints.write_safetensors(path, {"a": np.zeros(1)})


def test_types_are_enough_to_be_like(tmp_path):
    x = tnp.ones((4, 2))
    checkpoints.save(tmp_path / "one", {"w": x}, progress=False).wait()
    found = checkpoints.restore(tmp_path / "one", {"w": tw.typeof(x)})
    assert found["w"].tolist() == x.tolist()
    lying = NamedSharding(AbstractMesh((2,), ("x",)), P("x"))
    with pytest.raises(MeshError, match=r"the leaf \['w'\] has a sharding over .* no devices"):
        checkpoints.restore(tmp_path / "one", {"w": tw.ShapeDtypeStruct((4, 2), "float32", sharding=lying)})


def test_what_is_being_saved_is_waited_for(tmp_path, monkeypatch):
    begin, written = threading.Event(), writer._write

    def slowly(*args):
        begin.wait(60)
        written(*args)

    monkeypatch.setattr(writer, "_write", slowly)
    state = {"w": np.arange(4.0, dtype=np.float32)}
    checkpoints.save(tmp_path / "old", {"w": state["w"] * 0}, progress=False)
    begin.set()
    assert checkpoints.latest(tmp_path).endswith("old")
    begin.clear()
    saving = checkpoints.save(tmp_path / "new", state, progress=False)
    with pytest.raises(ArgumentError, match="under way"):
        checkpoints.save(tmp_path / "new", state)
    timer = threading.Timer(0.2, begin.set)
    timer.start()
    assert checkpoints.restore(tmp_path / "new", state)["w"].tolist() == [0, 1, 2, 3] and saving.done()
    assert checkpoints.latest(tmp_path).endswith("new")
    begin.clear()
    checkpoints.save(tmp_path / "old" / "manifest.json" / "no", state, progress=False)
    begin.set()
    with pytest.raises(CheckpointWriteError):
        checkpoints.restore(tmp_path / "old" / "manifest.json" / "no")

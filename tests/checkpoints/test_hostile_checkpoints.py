"""Checkpoints that are damaged or forged: each is `DamagedCheckpointError`, and what killed writers left is swept."""

import itertools
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.fuzzing import hostile
from tests.support.paths import ROOT
from tilewright import checkpoints
from tilewright import numpy as tnp
from tilewright.checkpoints import coverage, files, manifest
from tilewright.core.support.errors import CheckpointWriteError, DamagedCheckpointError

LEAF = "['w']"


@pytest.fixture
def saved(tmp_path):
    state = {"w": tnp.arange(12, dtype="float32").reshape(3, 4)}
    return Path(checkpoints.save(tmp_path / "1", state).wait()), state


def forge(path, edit):
    """Change the manifest, and make its checksum that of what it says then."""
    file = path / manifest.NAME
    table = json.loads(file.read_text())
    edit(table["body"])
    table["crc32"] = manifest._checksum(table["body"])
    file.write_text(json.dumps(table))


def refused(path, state, why):
    for read in (lambda: checkpoints.metadata(path), lambda: checkpoints.check(path),
                 lambda: checkpoints.restore(path, state), lambda: checkpoints.restore(path)):  # fmt: skip
        with pytest.raises(DamagedCheckpointError, match=why):
            read()


def piece(**changes):
    return lambda body: body["leaves"][LEAF]["pieces"][0].update(changes)


def leaf(**changes):
    return lambda body: body["leaves"][LEAF].update(changes)


def twice(body):
    body["leaves"][LEAF]["pieces"] *= 2


@pytest.mark.parametrize("edit, why", [
    (leaf(pieces=[]), r"\['w'\]: its pieces cover 0 of its 12 elements"), (twice, "its pieces overlap"),
    (piece(bounds=[[0, 3], [2, 6]]), r"its pieces reach from \[0, 2\] to \[3, 6\]"),
    (piece(bounds=[[0, 3]]), "have 1 dimensions"), (piece(bounds=[[0, 3], [0, 2]]), "cover 6 of its 12"),
    (piece(bounds=[[0, 3], [True, 4]]), "no pairs of integers"), (piece(bounds=[[-1, 3], [0, 4]]), "reach from"),
    (piece(bounds="all"), "'bounds' is of type str, not list"), (piece(file="../2/part-0.safetensors"), "'file' of a"),
    (piece(file="/etc/passwd"), "'file' of a piece is"), (piece(file="manifest.json"), "'file' of a piece is"),
    (piece(file=7), "'file' is of type int"), (piece(name=None), "'name' is of type NoneType"),
    (piece(crc32=-1), "'crc32' of a piece is -1"), (piece(crc32=1.5), "'crc32' is of type float"),
    (leaf(dtype="O"), "'O' is no dtype of numbers"), (leaf(dtype="finfo"), "'finfo' is no dtype"),
    (leaf(dtype="float64"), "holds .* as F32"), (leaf(dtype="int32"), "holds .* as F32"),
    (leaf(dtype="<f4"), "no dtype"),
    (leaf(shape=[4, 3]), "reach from"), (leaf(shape=[-3, 4]), r"'shape' is \[-3, 4\]"),
    (leaf(shape=[3, "4"]), "a size in 'shape' is of type str"), (leaf(shape=[1] * 65), "'shape' is"),
    (leaf(shape=[2**40, 2**40]), "'shape' is"), (leaf(key="mine"), "'key' is 'mine'"), (leaf(key=[]), "'key'"),
    (lambda body: body["leaves"][LEAF].pop("dtype"), "has no 'dtype'"),
    (lambda body: body.pop("notes"), "has no 'notes'"), (lambda body: body.update(time_ns="now"), "'time_ns'"),
    (lambda body: body.update(leaves=[]), "'leaves' is of type list"),
    (lambda body: body["leaves"].update({LEAF: 3}), "it is of type int"),
])  # fmt: skip
def test_each_wrong_field_of_a_manifest_is_named(saved, edit, why):
    path, state = saved
    forge(path, edit)
    if "holds" in why:  # the manifest agrees with itself, and not with the file
        with pytest.raises(DamagedCheckpointError, match=why):
            checkpoints.check(path)
        with pytest.raises(DamagedCheckpointError, match=why):
            checkpoints.restore(path, {"w": np.zeros((3, 4), json.loads((path / manifest.NAME).read_text())["body"]
                                                     ["leaves"][LEAF]["dtype"])})  # fmt: skip
    else:
        refused(path, state, why)


@pytest.mark.parametrize("text, why", [
    ("[" * 200_000, "nested too deeply"), ("[]", "the file is of type list"),
    ('{"format": 1}', "'format' is of type int"),
    ("{}", "it has no 'format'"), ("\xff", "manifest.json"), ("", "manifest.json"),
])  # fmt: skip
def test_a_manifest_that_is_none(saved, text, why):
    path, state = saved
    (path / manifest.NAME).write_text(text, encoding="latin-1")
    refused(path, state, why)


@pytest.mark.parametrize("name", [manifest.NAME, "part-0.safetensors"])
def test_only_regular_files_of_the_folder_are_read(saved, tmp_path, name):
    path, state = saved
    elsewhere = tmp_path / "elsewhere"
    os.rename(path / name, elsewhere)
    os.symlink(elsewhere, path / name)
    with pytest.raises(DamagedCheckpointError):
        checkpoints.restore(path, state)
    os.remove(path / name)
    os.mkfifo(path / name)  # which would wait for a writer
    with pytest.raises(DamagedCheckpointError, match="no regular file"):
        checkpoints.restore(path, state)


def test_each_flipped_bit_is_an_error():
    found = hostile.saved(150, seed=1)
    assert not hostile.wrong("checkpoints", found), found


@pytest.mark.parametrize("edit, why", [
    (lambda t: t["a"].update(data_offsets=[0, 5]), "where what is before ends|which do not fit|bytes of arrays"),
    (lambda t: t["a"].update(data_offsets=[4, 8]), "at byte 4"),
    (lambda t: t["a"].update(data_offsets=[-4, 4]), "not of the format"),
    (lambda t: t["a"].update(shape=[-2]), "not of the format"),
    (lambda t: t["a"].update(shape=[True, 2]), "not of the format"),
    (lambda t: t["b"].update(data_offsets=[0, 8]), "at byte 0"),
    (lambda t: t["a"].update(dtype=3), "not of the format"),
    (lambda t: t["a"].pop("shape"), "not of the format"), (lambda t: t.update(c=[]), "not of the format"),
])  # fmt: skip
def test_a_header_of_safetensors_whose_arrays_do_not_cover_the_file(tmp_path, edit, why):
    path = tmp_path / "x.safetensors"
    checkpoints.write_safetensors(path, {"a": np.arange(2, dtype="int32"), "b": np.arange(2, dtype="int32")})
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    table = json.loads(data[8 : 8 + length])
    edit(table)
    text = json.dumps(table).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])
    with pytest.raises(DamagedCheckpointError, match=why):
        checkpoints.read_safetensors(path)


def test_big_endian_arrays_come_back(tmp_path):
    values = np.arange(5, dtype=">f4")
    path = checkpoints.save(tmp_path / "1", {"w": values}).wait()
    np.testing.assert_array_equal(checkpoints.restore(path, {"w": np.zeros(5, "float32")})["w"], values)


# ---------------------------------------------------------------------------- covering


def test_exact_covers_against_counting():
    draw = random.Random(0)
    for _ in range(400):
        shape = tuple(draw.randint(1, 4) for _ in range(draw.randint(0, 3)))
        parts = [tuple(sorted(draw.sample(range(n + 1), 2)) for n in shape) for _ in range(draw.randint(0, 4))]
        if draw.random() < 0.7 and shape:  # cut along a grid, and maybe spoiled
            cuts = [sorted({0, n, *draw.choices(range(n + 1), k=2)}) for n in shape]
            parts = list(itertools.product(*(itertools.pairwise(c) for c in cuts)))
            if draw.random() < 0.5:
                parts.append(draw.choice(parts)) if draw.random() < 0.5 else parts.pop()
        parts = [tuple(map(tuple, p)) for p in parts]
        count = np.zeros(shape, int)
        for part in parts:
            count[tuple(slice(a, b) for a, b in part)] += 1
        assert (coverage.fault(shape, parts) == "") == bool((count == 1).all()), (shape, parts)


def test_parts_askew_and_many_parts():
    pinwheel = [((0, 1), (0, 2)), ((0, 2), (2, 3)), ((2, 3), (1, 3)), ((1, 3), (0, 1)), ((1, 2), (1, 2))]
    assert coverage.fault((3, 3), pinwheel) == ""
    assert coverage.fault((3, 3), [*pinwheel[:4], ((0, 1), (0, 1))]) == "overlap"
    assert coverage.fault((100_000,), [((i, i + 1),) for i in range(100_000)]) == ""


# ---------------------------------------------------------------------------- killed writers

KILLED = """
import os, sys
from tilewright.checkpoints import files
with files.writing(sys.argv[1]) as partial:
    open(os.path.join(partial, "part-0.safetensors"), "w").close()
    os._exit(9)
"""


def killed_writer(path):
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], env=os.environ | {"PYTHONPATH": str(ROOT / "src")})
    assert done.returncode == 9 and os.path.isdir(files.partial_of(str(path)))


def test_what_killed_writers_left_is_swept_by_the_next_save(tmp_path):
    killed_writer(tmp_path / "1")
    foreign = tmp_path / ".mine.partial"
    foreign.mkdir()
    (foreign / "notes.txt").write_text("of the user")
    checkpoints.save(tmp_path / "2", {"step": 1}).wait()
    assert sorted(os.listdir(tmp_path)) == [".mine.partial", "2"]
    killed_writer(tmp_path / "1")
    checkpoints.save(tmp_path / "1", {"step": 1}).wait()
    assert sorted(os.listdir(tmp_path)) == [".mine.partial", "1", "2"]


def test_a_living_writer_is_left_alone_and_not_joined(tmp_path):
    with files.writing(str(tmp_path / "1")) as partial:
        checkpoints.save(tmp_path / "2", {"step": 1}).wait()
        assert os.path.isdir(partial)
        with pytest.raises(CheckpointWriteError, match="another save of it is under way"):
            checkpoints.save(tmp_path / "1", {"step": 1}).wait()
        assert os.path.isdir(partial)
    checkpoints.save(tmp_path / "1", {"step": 1}).wait()
    assert sorted(os.listdir(tmp_path)) == ["1", "2"]

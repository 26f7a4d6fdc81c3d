"""Whatever is wrong with the store of tuning results, calls of a tuned function go on with its defaults."""

import contextlib
import gc
import os
import sqlite3
import stat
import time
import warnings
from dataclasses import replace

import numpy as np
import pytest

import tilewright as tw
from tilewright.cli.main import main
from tilewright.tuning import Store, TuningWarning, autotune
from tilewright.tuning import store as store_module
from tilewright.tuning.store import VERSION, Problem

X = np.arange(64, dtype=np.float32)
SLOW_DEFAULT = 2


def tuned(path, space=None):
    """A new tuned function, which has chosen nothing yet."""

    @autotune(space={"block": [2, 16]} if space is None else space, store=Store(path))
    def double(x, *, block=SLOW_DEFAULT):
        return x * 2 if block else x

    return double


@pytest.fixture
def path(tmp_path):
    """A store in which 16 was the faster block, for arrays of 64 elements."""
    found = tmp_path / "store" / "tuning.sqlite"
    trials = [({"block": 2}, 2e-3, 1e-5, None), ({"block": 16}, 1e-3, 1e-5, None), ({"block": 4}, None, None, "no")]
    assert Store(found).record(tuned(found).problem(X), trials)
    assert tuned(found).best(X) == {"block": 16}
    tw.clear_caches()  # and the warnings given
    return found


def changed(path, statement):
    with sqlite3.connect(path) as db:
        db.execute(statement)
    db.close()


def goes_on(path, match):
    """A call gives the right result by the default, and one warning; a second function none."""
    f = tuned(path)
    with pytest.warns(TuningWarning, match=match) as seen:
        assert f(X).tolist() == (X * 2).tolist() and f.best(X) == {"block": SLOW_DEFAULT}
    assert len(seen) == 1 and seen[0].filename == __file__, "the line is the caller's"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tuned(path).best(X) == {"block": SLOW_DEFAULT}


def test_damaged_pages(path):
    for k in range(40):  # so that there are pages beyond those of the schema
        Store(path).record(
            tuned(path).problem(np.ones(1 << (k % 12), np.float32)), [({"block": 2}, 1.0, 0.0, "x" * 999)]
        )
    data = bytearray(path.read_bytes())
    for k in range(8192, len(data), 97):
        data[k] ^= 0x5A
    path.write_bytes(data)
    goes_on(path, "cannot be used")


def test_a_file_that_is_no_database(path):
    path.write_bytes(os.urandom(8192))
    goes_on(path, "cannot be used.*`tilewright tune clear` begins anew")


def test_clear_begins_anew(path, capsys):
    path.write_bytes(os.urandom(8192))
    assert main(["tune", "--store", str(path), "clear"]) == 0
    assert "was damaged, and is removed" in capsys.readouterr().out.replace("\n", " ") and not path.exists()
    assert Store(path).decide(tuned(path).problem(X), {"block": 16}) and tuned(path).best(X) == {"block": 16}
    assert main(["tune", "--store", str(path), "clear"]) == 0 and path.exists(), "a sound one keeps its file"


def test_a_file_that_another_process_makes_at_this_moment(path):
    path.write_bytes(b"")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tuned(path).best(X) == {"block": SLOW_DEFAULT}


def test_text_that_cannot_be_decoded_spoils_no_other_row(path):
    problem = tuned(path).problem(X)
    Store(path).record(replace(problem, function="other"), [({"block": 2}, 1.0, 0.0, None)])
    changed(path, "update trials set function = cast(x'ff6f' as text) where function = 'other'")
    assert [p.function for p, _ in Store(path).problems() if p == problem] == [problem.function]
    assert Store(path).forget() == 4 and not Store(path).problems()


def test_lists_show_what_calls_use(path, capsys):
    Store(path).decide(tuned(path).problem(X), {"block": 2})  # though 16 was faster
    for act, wanted in ((["list"], "block=2 2.000 ms block=16 1.000 ms"), (["show", "double"], "2.000 ms chosen")):
        assert main(["tune", "--store", str(path), *act]) == 0
        assert wanted in " ".join(capsys.readouterr().out.split())
    assert main(["tune", "--store", str(path), "show", "triple"]) == 0
    assert "nothing was measured yet of 'triple'" in capsys.readouterr().out


@pytest.mark.parametrize(
    "change",
    ["configuration='{bad'", "configuration='[1]'", "configuration=null", "bucket='[[null]]'", "bucket='7'",
     "bucket='[[-1]]'", "seconds='soon'", "seconds=-1.0", "seconds=1e999", "error=x'ff'"],
)  # fmt: skip
def test_damaged_rows(path, change):
    changed(path, f"update trials set {change}")
    goes_on(path, "damaged rows")


def test_damaged_rows_do_not_hide_the_others(path):
    changed(path, "update trials set configuration='{bad' where seconds=2e-3")
    with pytest.warns(TuningWarning, match="damaged rows"):
        assert tuned(path).best(X) == {"block": 16}


@pytest.mark.parametrize("configuration", ['{"nokw": 1}', '{"block": 7}', '{"block": 16, "nokw": 1}'])
def test_rows_that_the_function_cannot_take_do_not_count(path, configuration):
    changed(path, f"update trials set configuration='{configuration}' where seconds=1e-3")
    assert tuned(path).best(X) == {"block": 2}
    if "nokw" in configuration:
        assert tuned(path, space=lambda x: [{"block": 2}]).best(X) == {"block": 2}


def test_values_are_those_of_the_space(tmp_path):
    space = [{"block": (2, 4)}, {"block": np.float32}]
    f = tuned(tmp_path / "t.sqlite", space)
    for configuration in space:
        assert f.store.record(f.problem(X), [(configuration, 1.0, 0.0, None)])
        assert tuned(f.store.path, space).best(X) == configuration
        f.store.forget(f.problem(X).function)


def test_a_locked_store_is_not_waited_for(path):
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("begin exclusive")
    start = time.monotonic()
    goes_on(path, "locked")
    assert time.monotonic() - start < 3
    holder.close()


def test_a_locked_store_is_waited_for_once_by_those_who_write(path, monkeypatch):
    monkeypatch.setattr(store_module, "WRITE_SECONDS", 0.25)
    problem, timeouts = Problem("cpu", "f", "1", "f32", ((4,),)), []

    def tried():
        with contextlib.closing(Store(path)._connected(writing=True)) as db:
            timeouts.append(db.execute("pragma busy_timeout").fetchone()[0])
        return Store(path).record(problem, [({"block": 2}, 1.0, None, None)])

    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("begin exclusive")
        with pytest.warns(TuningWarning, match="locked"):
            assert not tried() and not tried()
    assert tried() and tried()
    assert timeouts == [250, 0, 0, 250]


def test_a_newer_schema(path):
    changed(path, f"pragma user_version = {VERSION + 1}")
    goes_on(path, "newer version")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert not Store(path).record(tuned(path).problem(X), [({"block": 2}, 1.0, 0.0, None)])


def test_another_table_of_the_same_name(path):
    changed(path, "drop table trials")
    changed(path, "create table trials (something text)")
    goes_on(path, "cannot be used")


@pytest.mark.parametrize("which", ["file", "folder"])
def test_what_others_can_write_is_not_obeyed(path, which):
    (path if which == "file" else path.parent).chmod(0o777)
    goes_on(path, "can be written by other users")


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only the superuser can give files away")
@pytest.mark.parametrize("which", ["file", "folder"])
def test_rows_of_another_user_are_not_obeyed(path, which):
    os.chown(path if which == "file" else path.parent, 65534, 65534)
    goes_on(path, "belongs to another user")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names here")
def test_a_pipe_in_its_place(path):
    path.unlink()
    os.mkfifo(path, 0o600)
    goes_on(path, "are no file")


def test_tuning_without_a_store_that_can_be_written(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")

    @autotune(space={"turns": [1]}, reference=lambda x: x, tolerance=1.0, store=Store(blocked / "t.sqlite"))
    def f(x, *, turns=3000):
        return tw.lax.fori_loop(0, turns, lambda i, x: tw.numpy.sin(x), x)

    with pytest.warns(TuningWarning, match="cannot be used"):
        f.tune(X, progress=False, isolate=False)
    assert f.best(X) == {"turns": 1}, "for this process it is known"


def test_a_decision_counts_for_more_than_the_fastest_trial(path):
    f, store = tuned(path), Store(path)
    problem = f.problem(X)
    assert store.decide(problem, {"block": 2})
    assert tuned(path).best(X) == {"block": 2} == tuned(path).best(X[:60])
    assert store.decide(problem, {"block": 16})
    assert tuned(path).best(X) == {"block": 16}
    assert store.forget(problem.function) == 3 and store.best(problem) is None


def test_what_was_not_decided_counts_if_it_is_clearly_faster(tmp_path):
    for seconds, chosen in ((0.95e-3, 2), (0.8e-3, 16)):
        store = Store(tmp_path / f"{chosen}.sqlite")
        f = tuned(store.path)
        store.record(f.problem(X), [({"block": 2}, 1e-3, 0.0, None), ({"block": 16}, seconds, 0.0, None)])
        assert f.best(X) == {"block": chosen}


def test_a_store_from_before_there_were_decisions(path):
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("drop table decisions")
        db.commit()
    f = tuned(path)
    assert f.best(X) == {"block": 16}
    assert Store(path).decide(f.problem(X), {"block": 2}) and tuned(path).best(X) == {"block": 2}


def test_a_read_only_store(path, monkeypatch):
    def read_only(self, writing):  # permissions do not stop the superuser
        return sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)

    monkeypatch.setattr(Store, "_connected", read_only)
    f = tuned(path, [{"block": 16}])
    with pytest.warns(TuningWarning, match="readonly"):
        f.tune(X, progress=False)
    assert tuned(path).best(X) == {"block": 16}


def test_a_new_store_is_private_and_reading_makes_none(tmp_path):
    path = tmp_path / "new" / "t.sqlite"
    assert tuned(path).best(X) == {"block": SLOW_DEFAULT} and not path.parent.exists()
    before = os.umask(0)
    try:
        assert Store(path).record(tuned(path).problem(X), [({"block": 2}, 1.0, 0.0, None)])
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="open files are listed in /proc")
def test_no_connection_is_left_open(tmp_path):
    path = tmp_path / "t.sqlite"
    path.write_bytes(os.urandom(8192))
    path.chmod(0o600)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        store, problem = Store(path), Problem("cpu", "f", "", "", ((4,),))
        assert store.best(problem) is None and not store.record(problem, [({}, 1.0, 0.0, None)])
        gc.collect()
    assert not [w for w in seen if issubclass(w.category, ResourceWarning)]
    assert str(path) not in {os.path.realpath(f"/proc/self/fd/{f}") for f in os.listdir("/proc/self/fd")}

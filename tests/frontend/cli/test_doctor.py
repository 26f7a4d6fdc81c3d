"""`tilewright doctor`: what it tries out, and that it fits on a screen."""

import json

import pytest

from tilewright import clear_caches
from tilewright.cli import doctor, main
from tilewright.core.support.errors import VersionError
from tilewright.core.support.settings import ROWS
from tilewright.lang.targets.target import TARGETS
from tilewright.lang.toolchain.packages import Packages
from tilewright.xla_backend.devices import client


def test_the_report_fits_on_a_screen(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main.main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert len(out.splitlines()) <= 24
    for part in ("jaxlib", "device", "compiles here", "disk cache:", "freed memory: ", "changed settings:"):
        assert part in out
    assert max(len(line) for line in out.splitlines() if "=" not in line) <= 80  # values of settings are not broken
    cpu = next(line for line in out.splitlines() if line.startswith("cpu"))
    assert cpu.count("yes") == 2


def test_a_missing_part_is_a_line_with_its_command(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setitem(doctor.OPTIONAL, "not-a-package", ("nothing", "cuda"))
    main.main(["doctor"])
    line = "not installed: not-a-package (nothing): pip install 'tilewright[cuda]'"
    assert line in capsys.readouterr().out.splitlines()


def test_every_setting_is_listed(capsys):
    assert main.main(["doctor", "--settings"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" = ")[0] for line in lines] == [*ROWS]
    assert any(line.endswith("TILEWRIGHT_CACHE_DIR") for line in lines)


def test_the_report_as_json(capsys):
    assert main.main(["doctor", "--json", "--settings"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["versions"]["jaxlib"] and found["settings"].keys() == ROWS.keys()
    assert found["targets"][0]["target"] == "cpu" and found["targets"][0]["runs"].startswith("yes")


def test_every_layer_of_a_backend_is_known():
    assert {b.layer for b in doctor.BACKENDS} == {"xla_backend", "triton_backend", "mosaic_gpu", "mosaic_tpu"}
    assert {*doctor.TYPICAL} <= {b.target for b in doctor.BACKENDS}
    assert {t.name for t in TARGETS.values() if t.name.count(":") < 2} == {b.target for b in doctor.BACKENDS}


def test_a_missing_compiler_has_its_command(monkeypatch):
    clear_caches()  # another test may have compiled the same program
    monkeypatch.setattr(Packages, "versions", lambda self: {"triton": None})
    compiled = doctor.can_compile(doctor.Backend("cuda:sm_90", "triton_backend", "gpu"))
    assert compiled.startswith("no: kernels for GPUs need triton, not installed here") and "pip install" in compiled


def test_the_reason_for_a_missing_device(monkeypatch):
    error = VersionError("another plugin", "pip install 'tilewright[cuda]'")
    monkeypatch.setattr(client, "_gpu", lambda: (None, error))
    client.present.cache_clear()
    try:
        row = doctor.can_run(doctor.Backend("cuda:sm_90", "triton_backend", "gpu"))
    finally:
        client.present.cache_clear()
    assert row == "no: another plugin (pip install 'tilewright[cuda]')"
    assert doctor.can_run(doctor.Backend("tpu:v5e", "mosaic_tpu", "tpu")) == "no: there is no TPU here"


@pytest.mark.parametrize("every, count", [(False, len(doctor.TYPICAL)), (True, len(doctor.BACKENDS))])
def test_targets_that_are_tried(monkeypatch, every, count):
    monkeypatch.setattr(doctor, "can_compile", lambda b: "no")
    monkeypatch.setattr(doctor, "can_run", lambda b: "no")
    found = doctor.checkup(every)
    assert len(found.targets) == count and not found.healthy

"""The command line."""

import runpy
import sys

import pytest

from tilewright.cli import main
from tilewright.core.support.errors import VersionError
from tilewright.core.support.version import JAXLIB
from tilewright.lang.targets.target import TARGETS
from tilewright.lang.toolchain.packages import Packages
from tilewright.xla_backend.devices import client


def test_doctor_reports_what_runs_here(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert main.main(["doctor"]) == 0
    out = capsys.readouterr().out
    for part in ("Versions", "jaxlib", JAXLIB, "Devices", "Backends", "Disk cache", "Memory on the CPU", "Settings"):
        assert part in out
    cpu = next(line for line in out.splitlines() if "xla_backend" in line)
    assert cpu.count("yes") == 2
    assert "TILEWRIGHT_CACHE_DIR" in out and "TILEWRIGHT_CPU_KEEP_MEMORY" in out


def test_every_layer_of_a_backend_is_listed():
    assert {b.layer for b in main.BACKENDS} == {"xla_backend", "triton_backend", "mosaic_gpu", "mosaic_tpu"}


def test_the_package_is_the_command_too(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["tilewright", "--version"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("tilewright", run_name="__main__")
    assert ended.value.code == 0 and capsys.readouterr().out.startswith("tilewright ")


def test_no_command_prints_help(capsys):
    assert main.main([]) == 2
    assert "doctor" in capsys.readouterr().err


def test_unknown_command_is_refused(capsys):
    with pytest.raises(SystemExit):
        main.main(["physician"])
    assert "physician" in capsys.readouterr().err


def test_doctor_lists_every_target(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert {t.name for t in TARGETS.values() if t.name.count(":") < 2} == {b.target for b in main.BACKENDS}
    monkeypatch.setattr(Packages, "versions", lambda self: {"triton": None})
    compiled = main.can_compile(main.Backend("cuda:sm_90", "triton_backend", "gpu"))
    assert compiled.startswith("no: kernels for GPUs need triton, not installed here") and "pip install" in compiled


def test_doctor_says_why_there_is_no_device(monkeypatch):
    error = VersionError("another plugin", "pip install 'tilewright[cuda]'")
    monkeypatch.setattr(client, "_gpu", lambda: (None, error))
    client.present.cache_clear()
    try:
        row = main.can_run(main.Backend("cuda:sm_90", "triton_backend", "gpu"))
    finally:
        client.present.cache_clear()
    assert row == "no: another plugin (pip install 'tilewright[cuda]')"
    assert main.can_run(main.Backend("tpu:v5e", "mosaic_tpu", "tpu")) == "no: there is no TPU here"

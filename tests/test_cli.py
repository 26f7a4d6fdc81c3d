"""The command line."""

import pytest

from tilewright import cli


def test_doctor_reports_what_runs_here(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert cli.main(["doctor"]) == 0
    out = capsys.readouterr().out
    for part in ("Versions", "jaxlib", "0.11.2", "Devices", "Backends", "Disk cache", "Memory on the CPU", "Settings"):
        assert part in out
    cpu = next(line for line in out.splitlines() if "xla_backend" in line)
    assert cpu.count("yes") == 2
    assert "TILEWRIGHT_CACHE_DIR" in out and "TILEWRIGHT_CPU_KEEP_MEMORY" in out


def test_every_layer_of_a_backend_is_listed():
    assert {b.layer for b in cli.BACKENDS} == {"xla_backend", "triton_backend", "mosaic_gpu", "mosaic_tpu"}


def test_no_command_prints_help(capsys):
    assert cli.main([]) == 2
    assert "doctor" in capsys.readouterr().err


def test_unknown_command_is_refused(capsys):
    with pytest.raises(SystemExit):
        cli.main(["physician"])
    assert "physician" in capsys.readouterr().err

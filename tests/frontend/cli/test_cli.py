"""The command line: commands on functions of files, errors without tracebacks, completion, narrow terminals."""

import runpy
import subprocess
import sys

import pytest

import tilewright as tw
from tests.support.machine_code import needs_llvm
from tests.support.paths import DOCS
from tilewright.as_jax import clients
from tilewright.cli import completion, main

PROGRAM = """
import tilewright as tw
from tilewright import lang as tl


def body(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2


def double(x):
    block = tl.BlockSpec((8, 128), lambda i: (i, 0))
    shape = tw.ShapeDtypeStruct(x.shape, x.dtype)
    return tl.kernel_call(body, shape, grid=tl.cdiv(x.shape[0], 8), in_specs=[block], out_specs=block)(x)


def wrong(x):
    raise ValueError("of the user")


def plain(x, y):
    return x @ y
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    (tmp_path / "program.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "program", raising=False)
    return "program.py"


def run(capsys, *arguments):
    """The status and the output of a command."""
    code = main.main(arguments)
    printed = capsys.readouterr()
    return code, printed.out + printed.err


def test_the_package_is_the_command_too(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["tilewright", "--version"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("tilewright", run_name="__main__")
    assert ended.value.code == 0 and capsys.readouterr().out.startswith("tilewright ")


def test_no_command_prints_help(capsys):
    code, out = run(capsys)
    assert code == 2 and "doctor" in out


def test_unknown_command_is_refused(capsys):
    with pytest.raises(SystemExit):
        main.main(["physician"])
    assert "physician" in capsys.readouterr().err


def test_a_misspelt_command_has_a_suggestion(capsys):
    with pytest.raises(SystemExit):
        main.main(["expain", "program.py::double"])
    assert "there is no command 'expain'; did you mean 'explain'?" in capsys.readouterr().err


def test_explain(program, capsys):
    code, out = run(capsys, "explain", f"{program}::double", "--shape", "f32[60,128]", "--target", "tpu:v5e")
    assert code == 0 and "kernel body: 8 cells" in out and "bound by memory" in out
    code, _ = run(capsys, "explain", f"{program}::double", "--shape", "f32[60,128]", "-o", "report.html")
    with open("report.html") as page:
        assert code == 0 and "<svg" in page.read()


@needs_llvm
def test_explain_prints_assembly(program, capsys):
    with tw.config(cpu_route="machine_code"):
        code, out = run(capsys, "explain", f"{program}::double", "--shape", "f32[60,128]", "--assembly")
    assert code == 0 and "loops of kernel body:" in out and "handler:" in out


def test_visualize(program, capsys, tmp_path):
    code, out = run(capsys, "visualize", f"{program}::double", "--shape", "f32[60,128]")
    assert code == 0 and "drawn: double.svg" in out and (tmp_path / "double.svg").read_text().startswith("<svg")
    code, out = run(capsys, "visualize", f"{program}::plain", "--shape", "f32[4,4]", "--shape", "f32[4,4]")
    assert code == 2 and "calls no kernel" in out


@pytest.mark.parametrize("command", ["explain", "visualize", "export"])
@pytest.mark.parametrize("arguments, words", [
    (["{}::plain"], "plain(x, y) with no arguments: missing a required argument: 'x'"),
    (["{}::plain", "--shape", "f32[4,4]"], "plain(x, y) with 1 argument: missing a required argument: 'y'"),
    (["{}::double", "--shape", "f32[8,128]", "--shape", "i32[]"], "too many positional arguments"),
    (["{}::double", "--shape", "8x128"], "--shape '8x128' is not a dtype with sizes"),
    (["{}::wrong", "--shape", "f32[4]"], "ValueError: of the user\nat: "),
    (["{}::absent"], "remedy: it has body, double, wrong, plain"),
    (["{}::duoble"], "remedy: did you mean 'double'?"),
    (["{}"], "'program.py' names no function"),
    (["absent.py::f"], "there is no file 'absent.py'"),
    (["broken.py::f"], "SyntaxError: "),
    (["notes.txt::f"], "is not a Python file"),
])  # fmt: skip
def test_errors_have_no_traceback(program, capsys, command, arguments, words, tmp_path):
    (tmp_path / "broken.py").write_text("def f(x) return x\n")
    (tmp_path / "notes.txt").write_text("f\n")
    code, out = run(capsys, command, *(a.format(program) for a in arguments))
    assert code == 2 and words in out and "Traceback" not in out


@pytest.mark.parametrize("arguments, words", [
    (["{}::plain"], "plain(x, y) takes other arguments than an array namespace"),
    (["{}::wrong"], "ValueError: of the user"),
    (["{}::double"], "double(tilewright.numpy) failed"),
    (["absent.py::f"], "there is no file 'absent.py'"),
])  # fmt: skip
def test_errors_of_bench_say_what_a_function_has_to_be(program, capsys, arguments, words):
    code, out = run(capsys, "bench", "--peers", "tilewright", *(a.format(program) for a in arguments))
    assert code == 2 and words in out and "Traceback" not in out


def test_bench_of_a_function_with_arguments(program, capsys):
    code, out = run(capsys, "bench", f"{program}::double", "--shape", "f32[16,128]", "--rounds", "2")
    assert code == 0 and "double" in out


@pytest.mark.parametrize("arguments", [
    ["bench", "{}::plain"], ["bench", "{}::absent"], ["bench", "absent.py::f"], ["bench", "compare", "a.json"],
    ["bench", "compare", "a.json", "b.json"], ["tune", "export", "absent/table.json"], ["tune", "merge", "absent.json"],
])  # fmt: skip
def test_other_commands_have_no_traceback(program, capsys, arguments, tmp_path):
    arguments = [a.format(program) for a in arguments]
    if arguments[0] == "tune":
        arguments[1:1] = ["--store", str(tmp_path / "store.sqlite")]
    code, out = run(capsys, *arguments)
    assert code == 2 and "Traceback" not in out and out.strip()


def test_the_script_of_the_command_is_no_line_of_the_user(program, tmp_path):
    (tmp_path / "command").write_text("from tilewright.cli.main import main\nmain()\n")
    command = [sys.executable, "command", "export", f"{program}::plain"]
    out = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120).stdout
    assert "missing a required argument: 'x'\nremedy: " in out


def test_the_traceback_on_request(program, capsys, monkeypatch):
    with main.config(traceback_filtering="off"), pytest.raises(ValueError, match="of the user"):
        main.main(["explain", f"{program}::wrong", "--shape", "f32[4]"])


def test_what_lies_beside_a_file_may_be_imported(program, capsys, tmp_path):
    (tmp_path / "beside.py").write_text("import program\n\n\ndef twice(x):\n    return program.double(x)\n")
    code, out = run(capsys, "explain", "beside.py::twice", "--shape", "f32[16,128]")
    assert code == 0 and "kernel body" in out


@pytest.mark.parametrize("width", [40, 300])
def test_commands_to_copy_are_on_one_line(capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    code, out = run(capsys, "clients", "optax", "numpyro")
    assert code == 0
    for line in (*clients.installation("optax").splitlines(), *clients.installation("numpyro").splitlines()):
        assert any(line in printed for printed in out.splitlines())


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_completion_has_every_command(capsys, shell):
    code, out = run(capsys, "completion", shell)
    assert code == 0 and all(command in out for command in main.COMMANDS)
    assert "target" in out and "peers" in out


def test_completion_in_bash():
    script = completion.script("bash", main.parser_of())
    ask = f'{script}\nCOMP_WORDS=(tilewright exp); COMP_CWORD=1; _tilewright; echo "${{COMPREPLY[@]}}"\n'
    ask += 'COMP_WORDS=(tilewright explain --ta); COMP_CWORD=2; _tilewright; echo "${COMPREPLY[@]}"\n'
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["explain export", "--target"]


def test_the_page_has_every_command():
    page = (DOCS / "command_line.md").read_text()
    (commands,) = [a.choices or () for a in main.parser_of()._actions if a.dest == "command"]
    assert [name for name in commands if f"| `tilewright {name}` |" not in page] == []
    assert {*commands} == {*main.COMMANDS, "completion"}

"""A folder that stands in for CUTLASS's headers and NVRTC: packages of some versions, and a compiler that does nothing.

Its compiler takes any source with the entry that it is asked for, and gives PTX that does nothing; a source with
`#error` it refuses. What it was given lies in `compiled/`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tilewright.core.support.runtime import runtime
from tilewright.cutlass_backend import compiler

VERSIONS = {
    "nvidia-cutlass": "4.2.0.0", "nvidia-cuda-nvrtc": "13.0.88", "nvidia-cuda-cccl": "13.0.85",
    "nvidia-cuda-runtime": "13.0.96", "nvidia-cuda-crt": "13.0.88", "cuda-python": "13.0.3",
}  # fmt: skip
HEADERS = {
    "cute/atom/copy_traits_sm90_tma.hpp": """before
  #if (__CUDACC_VER_MAJOR__ >= 12) && !defined(__CUDACC_RTC__)

    CUtensorMapDataType     tma_format      = made_by_the_driver;
  #endif // (__CUDACC_VER_MAJOR__ >= 12) && !defined(__CUDACC_RTC__)
after
""",
    "cute/atom/copy_traits_sm100_tma.hpp": """#if !defined(__CUDACC_RTC__)
#include <cuda.h>
#endif
#if !defined(__CUDACC_RTC__)
CUTE_HOST
int function();
#endif
""",
    "cutlass/kernel_hardware_info.h": "struct KernelHardwareInfo {\n};\n",
}
NVRTC = '''
import os, pathlib, re

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "compiled"
OK, REFUSED = 0, 6
LOG = b"ptxas info : 0 bytes stack frame, 0 bytes spill stores\\nptxas info : Used 168 registers, used 2 barriers\\n"


def nvrtcGetErrorString(code):
    return OK, b"refused"


def nvrtcCreateProgram(source, name, count, headers, names):
    return OK, {"source": source.decode(), "headers": dict(zip(names, headers))}


def nvrtcCompileProgram(program, count, options):
    FOLDER.mkdir(exist_ok=True)
    text = program["source"]
    (FOLDER / f"{len(list(FOLDER.iterdir()))}.cu").write_text(text)
    if "#error" in text:
        program["ProgramLog"] = b"x.cu(1): error: #error directive\\n"
        return (REFUSED,)
    entry = re.findall(r"\\n(?:extern \\"C\\" __global__ void )?(\\w+)\\([^\\n]*\\{", text)[-1]
    arch = next(o for o in options if b"architecture" in o).decode().split("=")[1]
    numbers = ", ".join(str(b) for n in (200000, 384, 4, 1216) for b in n.to_bytes(4, "little"))
    program["ProgramLog"] = LOG
    program["CUBIN"] = b"ELF of " + entry.encode()
    program["PTX"] = f""".version 9.0
.target {arch}
.address_size 64
.global .align 1 .u8 _ZN4cute7nothingE = 1;
.global .align 4 .b8 {entry}_layout[16] = {{{numbers}}};
.visible .entry {entry}()
{{
ret;
}}
""".encode()
    return (OK,)


def nvrtcDestroyProgram(program):
    return (OK,)


def size(what):
    return lambda program: (OK, len(program.get(what, b"")))


def get(what):
    def fill(program, data):
        data[:] = program.get(what, b"")
        return (OK,)

    return fill


for what in ("ProgramLog", "PTX", "CUBIN"):
    globals()[f"nvrtcGet{what}Size"], globals()[f"nvrtcGet{what}"] = size(what), get(what)
'''


def installed(monkeypatch: Any, folder: Path, **changes: str) -> Path:
    """Have the packages found in a folder, of other versions or ("") not; gives where compiled sources lie."""
    library = folder / "cutlass_library" / "source" / "include"
    for name, text in HEADERS.items():
        (library / name).parent.mkdir(parents=True, exist_ok=True)
        (library / name).write_text(text)
    for package in ("cutlass_library", "nvidia", "cuda", "cuda/bindings"):
        (folder / package).mkdir(exist_ok=True)
        (folder / package / "__init__.py").write_text("")
    (folder / "nvidia" / "cu13" / "include" / "cccl").mkdir(parents=True)
    (folder / "cuda" / "bindings" / "nvrtc.py").write_text(NVRTC)
    for package, version in (VERSIONS | {k.replace("_", "-"): v for k, v in changes.items()}).items():
        if version:
            info = folder / f"{package.replace('-', '_')}-{version}.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    forget()
    return folder / "compiled"


def forget() -> None:
    """Have versions and workers found again."""
    if compiler.workers.cache_info().currsize:
        compiler.workers().end()
    compiler.versions.cache_clear()
    compiler.workers.cache_clear()
    runtime.clear_caches()

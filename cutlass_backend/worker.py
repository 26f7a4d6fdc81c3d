"""The process that runs NVRTC over CUTLASS's headers: bad input can end it, and then only this process.

Run by `lang/toolchain/worker_main.py`, with nothing of this package imported. A request is {text, name, arch,
measured}, an answer {binary, assembly, layout, log}.

Some functions of the headers are the host's alone, or left out under NVRTC; they are replaced in memory, and the files
stay as they are: tensor descriptors become recipes (`device.hpp`), the number of multiprocessors is what it is told.
"""

import base64
import importlib
import importlib.util
import pathlib
import re
from pathlib import Path
from types import ModuleType
from typing import Any

OPTIONS = ("--std=c++17", "-default-device", "-DNDEBUG", "-DCUTLASS_ENABLE_TENSOR_CORE_MMA=1", "-diag-suppress=177",
           "--ptxas-options=-v")  # fmt: skip
GUARD = "#if !defined(__CUDACC_RTC__)"
RECIPE = """    tilewright::recipe(&tma_desc, tilewright::format_of<TmaInternalType>, tma_dim, gmem_address,
      gmem_prob_shape.data(), gmem_prob_stride.data() + 1, smem_box_shape.data(),
      static_cast<int>(get_tma_swizzle_bits(swizzle)));
"""
# The driver that compiles PTX knows of this version, or of a later one; what is printed here needs no more.
PTX_VERSION = "8.7"


def described(text: str) -> str:
    """The header of TMA: a descriptor is noted down where the driver's function would make it."""
    start = text.index("CUtensorMapDataType     tma_format")
    start = text.rindex("  #if (__CUDACC_VER_MAJOR__ >= 12) && !defined(__CUDACC_RTC__)", 0, start)
    end = text.index("  #endif // (__CUDACC_VER_MAJOR__ >= 12) && !defined(__CUDACC_RTC__)", start)
    return text[:start] + RECIPE + "  #if 0\n" + text[end:]


def counted(text: str) -> str:
    """The header of a device's facts: the function that asks the driver gives nothing."""
    head = "struct KernelHardwareInfo {\n"
    found = "  static int query_device_multiprocessor_count(int = 0) { return 0; }\n"
    return text.replace(head, f"{head}#if defined(__CUDACC_RTC__)\n{found}#endif\n", 1)


def opened(text: str) -> str:
    """The header of Blackwell's TMA: its functions are for the device too."""
    first, own, rest = text.split(GUARD)
    return first + GUARD + own + "#if 1" + rest.replace("CUTE_HOST\n", "CUTE_HOST_RTC\n")


PATCHES = {
    "cute/atom/copy_traits_sm90_tma.hpp": described,
    "cute/atom/copy_traits_sm100_tma.hpp": opened,
    "cutlass/kernel_hardware_info.h": counted,
}


def folder_of(package: str) -> list[Path]:
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise RuntimeError(f"{package} is not installed")
    return [pathlib.Path(p) for p in found.submodule_search_locations]


class Compiler:
    """NVRTC, and the headers."""

    def __init__(self):
        self.nvrtc: ModuleType = importlib.import_module("cuda.bindings.nvrtc")
        (library, *_) = folder_of("cutlass_library")
        headers = library / "source" / "include"
        cuda = next(p / "cu13" / "include" for p in folder_of("nvidia") if (p / "cu13" / "include" / "cccl").exists())
        self.folders: list[Path] = [headers, cuda, cuda / "cccl"]
        self.patched: dict[Any, Any] = {}
        for name, change in PATCHES.items():
            before = (headers / name).read_text()
            after = change(before)
            if after == before:
                raise RuntimeError(f"CUTLASS's {name} is not the one of the version that is worked with")
            self.patched[name] = after

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        ptx, binary, log = self.compiled(request["text"], request["name"], request["arch"])
        return {
            "binary": base64.b64encode(binary).decode(),
            "assembly": tidied(ptx),
            "layout": layout(ptx, request["name"]) if request["measured"] else [],
            "log": "\n".join(x for x in log.splitlines() if x.startswith("ptxas")),
        }

    def checked(self, code: Any) -> None:
        if int(code) != 0:
            raise RuntimeError(f"NVRTC: {self.nvrtc.nvrtcGetErrorString(code)[1].decode()}")

    def text(self, program: Any, what: str) -> bytes:
        code, size = getattr(self.nvrtc, f"nvrtcGet{what}Size")(program)
        self.checked(code)
        data = bytearray(size)
        getattr(self.nvrtc, f"nvrtcGet{what}")(program, data)
        return bytes(data)

    def compiled(self, text: str, name: str, arch: str) -> tuple[str, bytes, str]:
        """PTX, machine code and the compiler's account."""
        nvrtc = self.nvrtc
        given = [self.patched.values(), self.patched.keys()]
        headers, names = ([x.encode() for x in xs] for xs in given)
        code, program = nvrtc.nvrtcCreateProgram(text.encode(), f"{name}.cu".encode(), len(headers), headers, names)
        self.checked(code)
        options = [f"--gpu-architecture=sm_{arch}", *OPTIONS, *(f"-I{f}" for f in self.folders)]
        (code,) = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])
        log = self.text(program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
        if int(code) != 0:
            said = [line for line in log.splitlines() if "error" in line]
            raise RuntimeError("; ".join(line[:400] for line in said[:3]) or log[:400])
        ptx = self.text(program, "PTX").rstrip(b"\0").decode()
        binary = self.text(program, "CUBIN")
        nvrtc.nvrtcDestroyProgram(program)
        return ptx, binary, log


def tidied(ptx: str) -> str:
    """PTX without the constants of headers that no instruction names."""
    lines = ptx.splitlines()
    body = "\n".join(line for line in lines if not line.startswith((".global", ".const")))
    used = set(re.findall(r"[A-Za-z_$][\w$]*", body))
    kept = []
    for line in lines:
        if line.startswith((".global", ".const")):
            name = re.search(r"([A-Za-z_$][\w$]*)(?:\[\d*\])?(?: = .*)?;$", line)
            if name is not None and name[1] not in used:
                continue
        kept.append(line)
    return re.sub(r"^\.version .*$", f".version {PTX_VERSION}", "\n".join(kept), count=1, flags=re.M) + "\n"


def layout(ptx: str, name: str) -> list[int]:
    """The numbers that the source says of itself."""
    found = re.search(rf"{name}_layout\[\d+\] = \{{([^}}]*)\}}", ptx)
    if found is None:
        raise RuntimeError(f"the source has no constants {name}_layout")
    data = bytes(int(x) for x in found[1].split(","))
    data += bytes(-len(data) % 4)
    return [int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data), 4)]

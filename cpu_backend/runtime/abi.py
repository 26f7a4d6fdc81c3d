"""Where XLA's foreign function interface has what a handler reads: offsets in bytes, of version 0.4.

That is the version of the oldest supported jaxlib. Later ones of the same major version add to the ends of structures.

The tests compute the same from the headers that jaxlib has.
"""

from __future__ import annotations

API_MAJOR, API_MINOR = 0, 4
METADATA_EXTENSION = 1  # the type of the extension that asks for metadata
RESOURCE_EXHAUSTED, INTERNAL = 8, 13

# By structure and field.
OFFSETS: dict[str, dict[str, int]] = {
    "XLA_FFI_CallFrame": {"extension_start": 8, "api": 16, "ctx": 24, "args": 40, "rets": 80},
    "XLA_FFI_Args": {"args": 32},
    "XLA_FFI_Rets": {"rets": 32},
    "XLA_FFI_Buffer": {"data": 24},
    "XLA_FFI_InternalExtension": {"type": 8},
    "XLA_FFI_Metadata_Extension": {"metadata": 24},
    "XLA_FFI_Metadata": {"api_version": 8, "traits": 32, "state_type_id": 40},
    "XLA_FFI_Api_Version": {"struct_size": 0, "extension_start": 8, "major_version": 16, "minor_version": 20},
    "XLA_FFI_Api": {"XLA_FFI_ThreadPool_Schedule": 136, "XLA_FFI_ThreadPool_NumThreads": 144},
    "XLA_FFI_ThreadPool_Schedule_Args": {"ctx": 16, "task": 24, "data": 32},
    "XLA_FFI_ThreadPool_NumThreads_Args": {"ctx": 16, "num_threads": 24},
}
SIZES = {
    "XLA_FFI_Api_Version": 24, "XLA_FFI_ThreadPool_Schedule_Args": 40, "XLA_FFI_ThreadPool_NumThreads_Args": 32,
}  # fmt: skip


def offset(structure: str, field: str) -> int:
    return OFFSETS[structure][field]

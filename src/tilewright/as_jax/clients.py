"""`tilewright clients`: libraries written for jax that were run on this package, and how to install them without jax.

pip cannot be told that this package is jax, so a library is installed with `--no-deps`, and what else it needs by name.
"""

from __future__ import annotations

import argparse
import json
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from ..core.support.console_rows import print_rows


class Client(NamedTuple):
    """A library: the version that was run, what it needs that is written for jax, and what else it needs."""

    version: str
    clients: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()


_CHEX = ("absl-py", "toolz", "typing_extensions")
_EQUINOX = ("jaxtyping", "typing_extensions", "wadler_lindig")
CLIENTS: dict[str, Client] = {
    "blackjax": Client("1.7.1", ("optax",), ("absl-py", "typing_extensions")),
    "chex": Client("0.1.92", needs=_CHEX),
    "diffrax": Client("0.7.2", ("equinox", "lineax", "optimistix"), _EQUINOX),
    "distrax": Client("0.1.9", ("chex", "tfp-nightly"), (*_CHEX, "cloudpickle", "decorator", "dm-tree", "gast", "six")),
    "dm-haiku": Client("0.0.17", ("jmp",), ("absl-py", "tabulate")),
    "dm-pix": Client("0.4.5", ("chex",), _CHEX),
    "e3nn-jax": Client("0.21.0", ("dm-haiku", "equinox", "flax", "jraph"), ("attrs", "sympy")),
    "equinox": Client("0.13.8", needs=_EQUINOX),
    "evosax": Client("0.3.2", ("flax", "optax", "orbax-checkpoint"), ("dotmap", "matplotlib")),
    "flax": Client(
        "0.12.12", ("optax", "orbax-checkpoint"),
        ("absl-py", "aiofiles", "etils[epath,epy]", "humanize", "msgpack", "prometheus-client", "protobuf", "psutil",
         "PyYAML", "rich", "simplejson", "tensorstore", "treescope", "typing_extensions", "uvloop"),
    ),
    "flowjax": Client("19.1.2", ("equinox", "lineax", "optax", "paramax"), ("absl-py", *_EQUINOX, "tqdm")),
    "jaxlie": Client("1.5.0", ("jax_dataclasses",), ("typing_extensions", "tyro")),
    "jaxopt": Client("0.8.5"),
    "jmp": Client("0.0.4"),
    "jraph": Client("0.0.6.dev0"),
    "kfac-jax": Client("0.0.8", ("distrax", "optax"), (*_CHEX, "dm-tree", "immutabledict")),
    "lineax": Client("0.1.1", ("equinox",), _EQUINOX),
    "mctx": Client("0.0.71", ("chex",), _CHEX),
    "numpyro": Client("0.22.0", needs=("multipledispatch", "tqdm")),
    "optax": Client("0.2.8", needs=("absl-py",)),
    "optimistix": Client("0.1.0", ("equinox", "lineax"), _EQUINOX),
    "ott-jax": Client("0.6.0", ("equinox", "jaxopt", "lineax", "optax"), ("absl-py", *_EQUINOX)),
    "penzai": Client("0.2.5", ("treescope",), ("absl-py", "ordered_set", "typing_extensions")),
    "rlax": Client("0.1.9", ("chex", "distrax"), (*_CHEX, "dm-env")),
    "tinygp": Client("0.3.1", ("equinox",), _EQUINOX),
}  # fmt: skip


def recorded_counts() -> dict[str, tuple[int, int]]:
    """Of the libraries' own tests that were run: how many count (they pass on jax), and how many pass here."""
    counts = json.loads(Path(__file__).with_name("tested.json").read_text())
    return {name: (counted, passed) for name, (counted, passed) in counts.items()}


def installation(name: str) -> str:
    """The commands that install a library without jax.

    >>> print(installation("optax"))
    pip install absl-py
    pip install --no-deps optax==0.2.8
    """
    client = CLIENTS[name]
    lines = [f"pip install {' '.join(client.needs)}"] if client.needs else []
    alone = [f"{name}=={client.version}", *(pinned(other) for other in client.clients)]
    return "\n".join([*lines, f"pip install --no-deps {' '.join(alone)}"])


def pinned(name: str) -> str:
    """A library with the version that was run, where it is one of the table."""
    return f"{name}=={CLIENTS[name].version}" if name in CLIENTS else name


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "no"


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command `clients`."""
    parser = commands.add_parser("clients", help="libraries written for jax: versions tried, how to install them")
    parser.add_argument("names", nargs="*", help="of these only")


def run(options: argparse.Namespace, console: Console) -> int:
    """Print the table; 2 where a name is none of a known library."""
    unknown = sorted({*options.names} - {*CLIENTS})
    if unknown:
        console.print(Text(f"not known: {', '.join(unknown)}; the known ones are {', '.join(CLIENTS)}"))
        return 2
    columns = ("library", "version tried", "of its tests: run, pass", "installed here", "install it without jax")
    rows, counts = [], recorded_counts()
    for name in options.names or CLIENTS:
        ran = "{}, {}".format(*counts[name]) if name in counts else "none"
        rows.append([name, CLIENTS[name].version, ran, _installed(name), installation(name)])
    print_rows(console, columns, rows)
    console.print("Run a program with them by: python -m tilewright.as_jax SCRIPT", soft_wrap=True)
    return 0

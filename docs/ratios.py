"""The plot of the README: times of this package against JAX and Pallas, from the result files of the benchmarks.

`python -m docs.ratios` writes docs/images/ratios.svg.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS, PICTURE = ROOT / "benchmarks" / "results", ROOT / "docs" / "images" / "ratios.svg"
_LEFT, _RIGHT, _WIDTH, _ROW = 300.0, 80.0, 860.0, 19.0
_LOW, _HIGH = 0.001, 2.0  # ratios at the ends of the axis
_TICKS = (0.001, 0.01, 0.1, 1)


def rows(name: str) -> Iterator[list[str]]:
    """The cells of the rows of a result file's table."""
    lines = [line for line in (RESULTS / f"{name}.md").read_text().splitlines() if line.startswith("|")]
    for line in lines[2:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


def groups() -> dict[str, list[tuple[str, float]]]:
    """Title of each group to its cases, with the time of this package as a share of the other's."""
    arrays = [(r[0], float(r[3])) for r in rows("spine") if re.fullmatch(r"[\d.e+]+ (us|ms|s)", r[2])]
    arrays = [(name, ratio) for name, ratio in arrays if "warm disk cache" not in name]  # no time of JAX's
    fused = [(r[0].removesuffix(", time against jax"), float(r[3])) for r in rows("fused") if "against jax" in r[0]]
    kernels = [(r[0], _quotient(r[2], r[3])) for r in rows("kernels") if r[1] == "to Pallas's interpreter" and r[2]]
    return {
        "Against JAX": arrays, "Fused operations against JAX": fused, "Kernels against Pallas's interpreter": kernels,
    }  # fmt: skip


def _quotient(a: str, b: str) -> float:
    units = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
    first, second = (float(number) * units[unit] for number, unit in (a.split(), b.split()))
    return first / second


def _x(ratio: float) -> float:
    share = (math.log(max(min(ratio, _HIGH), _LOW)) - math.log(_LOW)) / (math.log(_HIGH) - math.log(_LOW))
    return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


def svg() -> str:
    """Bars from 1 to each ratio: to the left this package takes less time."""
    parts, y = [], 44.0
    for title, cases in groups().items():
        parts.append(f'<text x="16" y="{y:.0f}" class="title">{html.escape(title)}</text>')
        y += 8
        for name, ratio in sorted(cases, key=lambda case: case[1]):
            ends = sorted((_x(ratio), _x(1)))
            kind = "faster" if ratio <= 1 else "slower"
            width, below = max(ends[1] - ends[0], 1), f'y="{y + 13:.0f}" class="name"'
            parts.append(f'<text x="{_LEFT - 8:.0f}" {below}>{html.escape(name)}</text><rect x="{ends[0]:.1f}" '
                         f'y="{y + 3:.0f}" width="{width:.1f}" height="13" class="{kind}"/>'
                         f'<text x="{_WIDTH - 16:.0f}" {below}>{ratio:.2g}</text>')  # fmt: skip
            y += _ROW
        y += 30
    axis = "".join(f'<path d="M{_x(t):.1f} 30V{y - 22:.0f}" class="{"one" if t == 1 else "tick"}"/>'
                   f'<text x="{_x(t):.1f}" y="24" class="label">{t:g}</text>' for t in _TICKS)  # fmt: skip
    style = ("<style>text{font:12px sans-serif;fill:#333}.title{font-weight:bold}.name{text-anchor:end}"
             ".label{text-anchor:middle;fill:#777}.faster{fill:#3f51b5}.slower{fill:#e07b39}"
             ".tick{stroke:#ddd}.one{stroke:#333}.ground{fill:#fff}@media(prefers-color-scheme:dark){text{fill:#e8eaed}"
             ".ground{fill:#1e2129}.label{fill:#a3acb9}.faster{fill:#7986cb}.tick{stroke:#3a414d}.one{stroke:#a3acb9}}"
             "</style>")  # fmt: skip
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:.0f} {y:.0f}" width="{_WIDTH:.0f}" '
            f'height="{y:.0f}">{style}<rect width="100%" height="100%" class="ground" rx="6"/>'
            f'<text x="16" y="24">time as a share of the other\'s</text>{axis}{"".join(parts)}</svg>\n')  # fmt: skip


if __name__ == "__main__":
    PICTURE.write_text(svg())

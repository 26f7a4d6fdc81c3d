"""A fused kernel of this package inside a network of torch: torch's autograd runs the kernel's generated derivative.

    python examples/torch_autograd.py                 (needs torch; on its GPU if there is one, else on the CPU)

The kernel is a layer norm whose rows are scaled and gated in the same pass; torch trains what stands around it.
"""

import argparse
import sys

import torch

import tilewright as tw
from tilewright import lang as tl
from tilewright import nn
from tilewright import numpy as tnp
from tilewright.interop import torch as tt

ROWS, WIDTH = 256, 64


def gated_norm_body(x, gate, scale, out):
    """Some rows: normalised, scaled, and multiplied by the sigmoid of their gates."""
    centred = x[...] - x[...].mean(-1, keepdims=True)
    normal = centred / tnp.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
    out[...] = normal * scale[...] * nn.sigmoid(gate[...])


@tt.call
def gated_norm(x, gate, scale):
    """The kernel on x and gate (rows, width) and scale (width,)."""
    rows = tl.BlockSpec((32, x.shape[1]), lambda i: (i, 0))
    whole = tl.BlockSpec((1, x.shape[1]), lambda i: (0, 0))
    return tl.kernel_call(
        gated_norm_body, tw.ShapeDtypeStruct(x.shape, x.dtype), grid=tl.cdiv(x.shape[0], 32),
        in_specs=[rows, rows, whole], out_specs=rows,
    )(x, gate, scale.reshape(1, -1))  # fmt: skip


class Block(torch.nn.Module):
    """A linear layer, and the kernel after it."""

    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, 2 * width)
        self.scale = torch.nn.Parameter(torch.ones(width))

    def forward(self, x):
        value, gate = self.linear(x).chunk(2, dim=-1)
        return x + gated_norm(value.contiguous(), gate.contiguous(), self.scale)


def by_torch(x, gate, scale):
    """The same in torch's own operations."""
    return torch.nn.functional.layer_norm(x, x.shape[-1:]) * scale * torch.sigmoid(gate)


def difference(device):
    """How far results and gradients are from torch's own."""
    torch.manual_seed(0)
    given = [torch.randn(*shape, device=device, requires_grad=True) for shape in ((70, WIDTH), (70, WIDTH), (WIDTH,))]
    found = []
    for function in (gated_norm, by_torch):
        out = function(*given)
        found.append((out, *torch.autograd.grad(out.sin().sum(), given)))
    return max(float((a - b).detach().abs().max()) for a, b in zip(*found))


def train(device, steps):
    """The loss of every step of learning to reverse each row."""
    torch.manual_seed(0)
    network = torch.nn.Sequential(Block(WIDTH), Block(WIDTH), torch.nn.Linear(WIDTH, WIDTH)).to(device)
    optimiser, losses = torch.optim.Adam(network.parameters(), 3e-3), []
    for _ in range(steps):
        x = torch.randn(ROWS, WIDTH, device=device)
        loss = ((network(x) - x.flip(-1)) ** 2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    worst, losses = difference(device), train(device, options.steps)
    print(f"on {device}: within {worst:.1e} of torch, gradients too; loss {losses[0]:.2f} to {losses[-1]:.3f}")
    return 0 if worst < 1e-4 and losses[-1] < losses[0] else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted")

"""Learn to balance a pole on a cart by proximal policy optimisation, with the simulator inside the compiled program.

One compiled step plays 32 carts for 128 moves each (`vmap` over carts, `scan` over moves), finds advantages, and makes
some passes of Adam over what was seen. The cart is that of Barto, Sutton and Anderson, 1983; the method is that of
Schulman et al., "Proximal Policy Optimization Algorithms" (2017), advantages by their (11).
"""

import argparse
import sys

import numpy as np
from rich.console import Console

import tilewright as tw
from tilewright import lax, nn, random
from tilewright import numpy as tnp
from tilewright.example_libraries import optimizers

CARTS, MOVES, PASSES, LIMIT = 32, 128, 8, 500
DISCOUNT, TRACE, CLIP, RATE, CURIOSITY = 0.99, 0.95, 0.2, 2.5e-3, 0.01
WORTH = 1 / (1 - DISCOUNT)  # of balancing for ever
GRAVITY, CART, POLE, HALF, FORCE, TICK = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02  # m/s^2, kg, kg, m, N, s


def began(key):
    """A cart at rest, almost: place, speed, angle and its speed, and how many moves it has made."""
    return random.uniform(key, (4,), minval=-0.05, maxval=0.05), tnp.int32(0)


def moved(state, action):
    """A cart after it was pushed left (0) or right (1), and whether the game is over."""
    (x, speed, angle, turn), moves = state
    push, mass = tnp.where(action == 1, FORCE, -FORCE), CART + POLE
    sine, cosine = tnp.sin(angle), tnp.cos(angle)
    part = (push + POLE * HALF * turn**2 * sine) / mass
    turning = (GRAVITY * sine - cosine * part) / (HALF * (4 / 3 - POLE * cosine**2 / mass))
    speeding = part - POLE * HALF * turning * cosine / mass
    found = tnp.stack([x + TICK * speed, speed + TICK * speeding, angle + TICK * turn, turn + TICK * turning])
    over = (abs(found[0]) > 2.4) | (abs(found[2]) > 0.2095) | (moves + 1 >= LIMIT)
    return (found, moves + 1), over


def initial(key, width: int = 64):
    """Two networks, of the policy and of the value of a state, with one layer of tanh each."""
    keys, made = random.split(key, 4), nn.initializers.orthogonal
    return {
        "policy": (made(1.4)(keys[0], (4, width)), tnp.zeros(width), made(0.01)(keys[1], (width, 2)), tnp.zeros(2)),
        "value": (made(1.4)(keys[2], (4, width)), tnp.zeros(width), made(1.0)(keys[3], (width, 1)), tnp.zeros(1)),
    }


def network(params, seen):
    first, bias, second, last = params
    return tnp.tanh(seen @ first + bias) @ second + last


def worth(params, seen):
    """The value of states: the moves that are to come, those far away discounted."""
    return WORTH * network(params["value"], seen)[..., 0]


def play(params, carts, key):
    """MOVES moves of each cart: what was seen, done, how likely that was, the values, and where games ended."""

    def move(carts, key):
        act, again = random.split(key)
        scores = nn.log_softmax(network(params["policy"], carts[0]))
        actions = random.categorical(act, scores)
        chosen = tnp.take_along_axis(scores, actions[:, None], 1)[:, 0]
        after, over = tw.vmap(moved)(carts, actions)
        new = tw.vmap(began)(random.split(again, CARTS))
        then = tw.tree.map(lambda n, a: tnp.where(over.reshape(-1, *[1] * (a.ndim - 1)), n, a), new, after)
        values = worth(params, carts[0])
        return then, (carts[0], actions, chosen, values, over, tnp.where(over, after[1], 0))

    return lax.scan(move, carts, random.split(key, MOVES))


def advantages(values, over, last):
    """Generalised advantages: how much better than expected each move turned out; a reward of 1 for each move."""

    def back(carried, row):
        later, following = carried
        value, ended = row
        goes_on = 1.0 - ended
        better = 1.0 + DISCOUNT * following * goes_on - value
        later = better + DISCOUNT * TRACE * goes_on * later
        return (later, value), later

    return lax.scan(back, (tnp.zeros_like(last), last), (values, over.astype(np.float32)), reverse=True)[1]


def loss(params, seen, actions, before, wanted, gains):
    """The clipped surrogate, the squared error of the values, and a little for a policy that is undecided."""
    scores = nn.log_softmax(network(params["policy"], seen))
    ratio = tnp.exp(tnp.take_along_axis(scores, actions[..., None], -1)[..., 0] - before)
    gains = (gains - gains.mean()) / (gains.std() + 1e-8)
    policy = -tnp.minimum(ratio * gains, tnp.clip(ratio, 1 - CLIP, 1 + CLIP) * gains).mean()
    error = (((worth(params, seen) - wanted) / WORTH) ** 2).mean()
    return policy + error + CURIOSITY * (tnp.exp(scores) * scores).sum(-1).mean()


opt = optimizers.adam(RATE)


@tw.jit
def step(state, carts, key, count):
    """Play, then learn from it. Gives also the mean length of the games that ended."""
    carts, (seen, actions, before, values, over, lengths) = play(opt.params_fn(state), carts, key)
    gains = advantages(values, over, worth(opt.params_fn(state), carts[0]))

    def learn(state, i):
        grads = tw.grad(loss)(opt.params_fn(state), seen, actions, before, gains + values, gains)
        return opt.update_fn(count * PASSES + i, grads, state), None

    state, _ = lax.scan(learn, state, tnp.arange(PASSES))
    return state, carts, lengths.sum() / tnp.maximum(over.sum(), 1)


def train(seed: int, steps: int) -> list[float]:
    """The mean length of the games that ended in each step."""
    first, second, third = random.split(random.key(seed), 3)
    state, carts = opt.init_fn(initial(first)), tw.vmap(began)(random.split(second, CARTS))
    lengths = []
    for i in range(steps):
        state, carts, length = step(state, carts, random.fold_in(third, i), np.int32(i))
        lengths.append(float(length))
    return lengths


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    lengths, console = train(options.seed, options.steps), Console()
    for i in range(0, len(lengths), max(len(lengths) // 20, 1)):
        console.print(f"step {i:4d}: games last {lengths[i]:5.0f} moves {'#' * int(lengths[i] // 10)}")
    console.print(f"at the end {np.mean(lengths[-5:]):.0f} of at most {LIMIT} moves")
    return 0 if np.mean(lengths[-5:]) > 150 or options.steps < 100 else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted")

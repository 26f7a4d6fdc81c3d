"""Write random.json: values of jax.random, which `tests/frontend/test_random.py` expects of `tilewright.random`.

Run with an environment that has jax: `python tests/support/data/make_random.py`.
"""

import json
import pathlib

import numpy as np

SEEDS = (0, 7, -1, 2**31 - 1)
LOGITS = {"array": [[0.1, -1.0, 2.0], [3.0, 3.5, -2.0]], "dtype": "float32"}
ALPHA = {"array": [0.5, 1.5, 3.0], "dtype": "float32"}
TABLE: list[tuple[str, list, dict]] = [
    ("bits", [], {}), ("bits", [[5]], {"dtype": "uint8"}), ("bits", [[2, 3]], {"dtype": "uint16"}),
    ("bits", [[7]], {}),
    ("uniform", [], {}), ("uniform", [[3, 4]], {}), ("uniform", [[2, 1, 3]], {"dtype": "float16"}),
    ("uniform", [[9]], {"dtype": "bfloat16"}), ("uniform", [[5]], {"minval": -3.0, "maxval": 5.5}),
    ("uniform", [[0]], {}),
    ("normal", [], {}), ("normal", [[33]], {}), ("normal", [[4]], {"dtype": "bfloat16"}),
    ("normal", [[4]], {"dtype": "float16"}), ("normal", [[2, 2]], {"dtype": "complex64"}),
    ("truncated_normal", [-1.0, 2.0, [6]], {}),
    ("bernoulli", [0.3, [8]], {}), ("bernoulli", [0.7, [8]], {"mode": "high"}), ("bernoulli", [], {}),
    ("randint", [[8], 0, 10], {}), ("randint", [[8], -5, 6], {"dtype": "int8"}), ("randint", [[8], 3, 3], {}),
    ("randint", [[4], 0, 256], {"dtype": "uint8"}), ("randint", [[4], -(2**31), 2**31 - 1], {}),
    ("randint", [[2, 3], {"array": [0, 10, 100], "dtype": "int32"}, {"array": [5, 20, 1000], "dtype": "int32"}], {}),
    ("randint", [[4], 0, 60000], {"dtype": "uint16"}),
    ("rademacher", [[6]], {}), ("permutation", [10], {}), ("permutation", [1], {}),
    ("permutation", [{"array": [[1, 2, 3], [4, 5, 6]], "dtype": "int32"}], {"axis": 1}),
    ("permutation", [{"array": [[1, 2, 3], [4, 5, 6]], "dtype": "int32"}], {"axis": 1, "independent": True}),
    ("choice", [12, [5]], {}), ("choice", [12, [5]], {"replace": False}),
    ("choice", [3, [5]], {"p": {"array": [0.2, 0.5, 0.3], "dtype": "float32"}}),
    ("choice", [3, [2]], {"p": {"array": [0.2, 0.5, 0.3], "dtype": "float32"}, "replace": False}),
    ("choice", [{"array": [[1, 2, 3], [4, 5, 6]], "dtype": "int32"}, [2]], {"axis": 1}),
    ("gumbel", [[5]], {}), ("gumbel", [[5]], {"mode": "high"}), ("gumbel", [[5]], {"mode": "highest"}),
    ("categorical", [LOGITS], {}), ("categorical", [LOGITS], {"axis": 0}), ("categorical", [LOGITS], {"shape": [4, 2]}),
    ("categorical", [LOGITS], {"shape": [2, 2], "replace": False}),
    ("exponential", [[5]], {}), ("laplace", [[5]], {}), ("logistic", [[5]], {}), ("cauchy", [[5]], {}),
    ("gamma", [2.5, [4]], {}), ("gamma", [0.5, [4]], {}), ("loggamma", [0.3, [4]], {}), ("beta", [2.0, 0.7, [4]], {}),
    ("dirichlet", [ALPHA, [3]], {}), ("poisson", [3.0, [6]], {}), ("poisson", [50.0, [6]], {}),
    ("binomial", [20.0, 0.1, [5]], {}), ("binomial", [100.0, 0.7, [5]], {}), ("geometric", [0.3, [5]], {}),
    ("pareto", [2.0, [5]], {}), ("t", [3.0, [4]], {}), ("chisquare", [3.0, [4]], {}), ("f", [3.0, 5.0, [4]], {}),
    ("maxwell", [[4]], {}), ("double_sided_maxwell", [1.0, 2.0, [4]], {}), ("weibull_min", [2.0, 1.5, [4]], {}),
    ("rayleigh", [2.0, [4]], {}), ("wald", [2.0, [4]], {}), ("triangular", [0.0, 1.0, 3.0, [4]], {}),
    ("lognormal", [0.5, [4]], {}), ("generalized_normal", [1.5, [4]], {}), ("ball", [3], {"shape": [2]}),
    ("orthogonal", [3], {}), ("categorical", [LOGITS], {"mode": "highest"}),
    ("gamma", [0.2, [4]], {"method": "approximate"}), ("beta", [2.0, 0.7, [4]], {"method": "approximate"}),
    ("poisson", [3.0, [6]], {"method": "approximate"}), ("poisson", [50.0, [6]], {"method": "approximate"}),
    ("multivariate_normal", [{"array": [1.0, -1.0], "dtype": "float32"},
                             {"array": [[2.0, 0.5], [0.5, 1.0]], "dtype": "float32"}], {"shape": [3]}),
]  # fmt: skip


def argument(x):
    return np.array(x["array"], x["dtype"]) if isinstance(x, dict) else tuple(x) if isinstance(x, list) else x


def plain(x):
    x = np.asarray(x)
    if x.dtype.kind == "c":
        return np.stack([x.real, x.imag], -1).astype(np.float64).tolist()
    return (x.astype(np.float64) if x.dtype.kind not in "biu" else x).tolist()


def rows():
    import jax  # here, so that collecting this file does not need it

    for seed in SEEDS:
        key = jax.random.key(seed)
        data = {"key": key, "split": jax.random.split(key, 3), "fold_in": jax.random.fold_in(key, 12345)}
        for name, value in data.items():
            yield {"name": name, "seed": seed, "args": [], "kwargs": {}, "value": plain(jax.random.key_data(value))}
        for name, args, kwargs in TABLE:
            full = {k: argument(v) for k, v in kwargs.items()}
            out = getattr(jax.random, name)(key, *map(argument, args), **full)
            row = {"name": name, "seed": seed, "args": args, "kwargs": kwargs}
            yield row | {"dtype": str(out.dtype), "value": plain(out)}


if __name__ == "__main__":
    path = pathlib.Path(__file__).with_name("random.json")
    path.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows()) + "\n]\n")

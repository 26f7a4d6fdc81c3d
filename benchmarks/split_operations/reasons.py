"""Why operations move more bytes than jax's, or take more than twice as long to compile, by the operation's name."""

from __future__ import annotations

MORE_BYTES = {
    "gradient by filter": "each device convolves its features, and results are summed; in jax each gathers the image "
    "and convolves all features",
    "attention": "keys and values are gathered where the queries are, whose split the result keeps; jax moves queries",
    "gradient of cummax": "steps of an associative scan along the split axis, there and back",
    "associative_scan": "steps along the split axis, as in jax: a scan by a user's function has no totals to exchange",
    "pad by reflection": "2 collectives in place of 20, after which each device has the edges of its neighbours",
    "gradient of sort": "permutations of whole rows are gathered; jax sums scattered cotangents over devices",
    "gradient of take": "one all-gather of as many rows as are taken, in place of four collectives",
    "take": "one all-gather of as many rows as are taken, in place of four collectives",
    "trace": "the diagonal alone is read, and its elements are summed over devices; jax reads the whole matrix",
    "median": "the axis that is sorted is gathered; jax splits rows further for the sort, and back",
    "argsort": "the axis that is sorted is gathered; jax splits rows further for the sort, and back",
    "row slices": "the result, a part of a split axis, is on every device, so that what uses it is local",
    "column update": "the column is read as a slice, which every device sees, added to, and written back",
}  # fmt: skip
SLOWER = {
    "gradient by image": "Shardy runs once more, to find what splits convolutions, and halos are exchanged: a fifth "
    "of the bytes that jax gathers",
    "cumlogsumexp": "totals are exchanged and joined by a masked reduction, a sixteenth of the bytes that jax gathers",
}  # fmt: skip


def reason(reasons: dict[str, str], case: str) -> str:
    """The reason of a case, whose name begins with its operation's; "" without one.

    >>> reason({"take": "one gather", "take of rows": "none"}, "take of rows (a -)")
    'none'
    """
    return next((why for name, why in sorted(reasons.items(), reverse=True) if case.startswith(f"{name} ")), "")

# SPDX-License-Identifier: Apache-2.0
"""numpy's linear algebra on square matrices: gemm, solve, eig, svd of one size or of many."""

from collections.abc import Callable

import numpy as np

MIX = (8, 16, 32, 64, 100, 150, 200, 300)
# Decompositions grow with the cube, some thirty times as costly as a product: above this only gemm and solve.
LARGEST_DECOMPOSED = 300
# About so many multiplications a step, that small matrices have steps that a clock can tell.
WORK = 4e7


def make_step(seed: int, size: str) -> Callable[[], float]:
    """One round over one size, or over MIX."""
    rng = np.random.default_rng(seed)
    rounds = [one_size(rng, n) for n in (MIX if size == "mix" else (int(size),))]
    return lambda: sum(each() for each in rounds)


def one_size(rng: np.random.Generator, n: int) -> Callable[[], float]:
    """What one size's part of a step does; its result is a sum that shows that all were computed."""
    a = rng.random((n, n)) + n * np.eye(n)
    b = rng.random((n, n))
    vector = rng.random(n)
    decomposed = n <= LARGEST_DECOMPOSED
    times = max(1, round(WORK / n**3 / (30 if decomposed else 2))) if n > 30 else 40

    def compute() -> float:
        total = 0.0
        for _ in range(times):
            total += float((a @ b)[0, 0]) + float(np.linalg.solve(a, vector)[0])
            if decomposed:
                total += float(np.linalg.eigvals(a).real[0]) + float(np.linalg.svd(b, compute_uv=False)[0])
        return total

    return compute

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints a digest of what numpy's and scipy's linear algebra computes: one line for each routine, type and size."""

import hashlib
import sys
import threading

import numpy as np
import scipy.linalg as sl
from scipy.linalg import blas, lapack

SIZES = (1, 2, 8, 33, 100, 200)
TYPES = "dF"  # float and complex double go the same ways


def matrix(generator, rows, columns, kind):
    values = generator.standard_normal((rows, columns))
    if kind in "FD":
        values = values + 1j * generator.standard_normal((rows, columns))
    return values.astype(kind)


def digest(results):
    """Of every array in what a function has returned."""
    found = hashlib.sha256()

    def take(value):
        if isinstance(value, (tuple, list)):
            for one in value:
                take(one)
        elif value is not None:
            found.update(np.ascontiguousarray(value).tobytes())

    take(results)
    return found.hexdigest()[:16]


def cases(kind, size):
    generator = np.random.default_rng(size)
    a, b = matrix(generator, size, size, kind), matrix(generator, size, size, kind)
    tall, vector = matrix(generator, size + 40, size, kind), matrix(generator, size, 1, kind)[:, 0]
    definite = a @ a.conj().T + size * np.eye(size, dtype=kind)
    get = {"f": "s", "d": "d", "F": "c", "D": "z"}[kind]

    def named(module, name):
        return getattr(module, get + name)

    yield "numpy dot", lambda: (a @ b, a @ a.T, a @ vector, tall @ a, np.dot(tall.T, tall))
    yield "numpy solve", lambda: (np.linalg.solve(definite, b), np.linalg.solve(definite, vector), np.linalg.inv(definite))
    yield "numpy cholesky", lambda: np.linalg.cholesky(definite)
    yield "numpy qr", lambda: (np.linalg.qr(tall), np.linalg.qr(a, "complete"), np.linalg.lstsq(tall, tall[:, 0], rcond=None))
    yield "numpy svd", lambda: (np.linalg.svd(tall), np.linalg.svd(a, compute_uv=False), np.linalg.pinv(tall))
    yield "numpy eig", lambda: (np.linalg.eig(a), np.linalg.eigvals(b), np.linalg.eigh(definite), np.linalg.eigvalsh(definite))
    yield "scipy level 3", lambda: (
        named(blas, "gemm")(1.5, a, b, trans_a=1), named(blas, "symm")(1.0, a, b), named(blas, "syrk")(1.0, tall),
        named(blas, "syr2k")(1.0, a, b), named(blas, "trmm")(2.0, a, b, side=1), named(blas, "trsm")(1.0, definite, b))
    yield "scipy gemv", lambda: named(blas, "gemv")(0.5, tall, vector, beta=0.0)
    yield "scipy factor", lambda: (sl.lu_factor(definite), sl.cho_factor(definite), sl.qr(tall, pivoting=True), sl.rq(a))
    yield "scipy solve", lambda: (sl.solve(definite, b, assume_a="pos"), sl.solve(definite, b), sl.lstsq(tall, tall[:, 0])[0],
                                  sl.solve_triangular(definite, b), named(lapack, "trtri")(definite))
    yield "scipy eigen", lambda: (sl.eigh(definite, definite + np.eye(size, dtype=kind)), sl.eigh(definite, driver="evd"), sl.schur(a),
                                  sl.svd(tall, lapack_driver="gesvd"), sl.hessenberg(a))
    yield "scipy functions", lambda: (sl.expm(a / size), sl.solve_sylvester(definite, a, b), sl.polar(a))


def lines(kinds):
    return [f"{name} {kind} {size} {digest(run())}" for kind in kinds for size in SIZES for name, run in cases(kind, size)]


def main():
    if "--threads" not in sys.argv:
        print("\n".join(lines(TYPES)))
        return
    # Each type on a thread of its own, all at the same time.
    results = {}
    threads = [threading.Thread(target=lambda kind=kind: results.update({kind: lines(kind)})) for kind in TYPES]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("\n".join("\n".join(results[kind]) for kind in TYPES))


if __name__ == "__main__":
    main()

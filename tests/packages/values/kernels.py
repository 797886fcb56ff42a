#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Single kernels on integer-valued data: their results leave nothing to rounding.

    python tests/packages/values/kernels.py --repeat 10 --out hashes.json

Every case is computed --repeat times, eagerly and in a tf.function, in a pool of
8 threads with 4 ops side by side. Each result must equal what numpy computes or,
where numpy has no such thing, the first result; both hold whatever the number of
threads, so any mismatch is an error of the kernel or of whoever set its width.

--out writes {case: sha256 of the result}, to be compared between runs. Exit code
1 and one line for each mismatch, 0 if there is none.
"""

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

INTRA = 8
INTER = 4
SIZES = (1_000, 30_000, 1_000_000)
BINS = 257


class Case(NamedTuple):
    """One kernel on one size of data; expected is None where numpy has no answer."""

    name: str
    compute: Callable
    inputs: tuple
    expected: object = None


def as_arrays(result) -> list[np.ndarray]:
    """A result of any structure as a list of arrays."""
    flat = tf.nest.flatten(result, expand_composites=True)
    return [np.asarray(part) for part in flat]


def digest(arrays: list[np.ndarray]) -> str:
    """The hash of the values, with their types and shapes."""
    sha = hashlib.sha256()
    for array in arrays:
        sha.update(f"{array.dtype}{array.shape}".encode())
        content = array.tolist() if array.dtype == object else None
        sha.update(repr(content).encode() if content is not None else array.tobytes())
    return sha.hexdigest()


def equal(result: list[np.ndarray], expected: list[np.ndarray]) -> bool:
    """The same values in the same shapes; the types may differ (int32, int64)."""
    return len(result) == len(expected) and all(
        a.shape == b.shape and np.array_equal(a, b)
        for a, b in zip(result, expected, strict=True)
    )


def counting_cases(rng: np.random.Generator, n: int) -> Iterator[Case]:
    """bincount and its relations: buffers per worker in the kernel."""
    values = rng.integers(0, BINS, n).astype(np.int32)
    weights = rng.integers(-3, 4, n).astype(np.float32)
    rows = values.reshape(-1, 100)
    count = np.bincount(values, minlength=BINS)
    row_count = np.stack([np.bincount(row, minlength=BINS) for row in rows])

    def bincount(**options):
        return lambda *x: tf.math.bincount(
            x[0], *x[1:], minlength=BINS, maxlength=BINS, **options
        )

    weighted = np.bincount(values, weights, BINS).astype(np.float32)
    yield Case("bincount", bincount(), (values,), count)
    yield Case("bincount_weights", bincount(), (values, weights), weighted)
    yield Case("bincount_binary", bincount(binary_output=True), (values,), count > 0)
    yield Case("bincount_rows", bincount(axis=-1), (rows,), row_count)
    yield Case(
        "bincount_rows_binary",
        bincount(axis=-1, binary_output=True),
        (rows,),
        row_count > 0,
    )
    yield Case(
        "bincount_ragged",
        lambda x: tf.math.bincount(
            tf.RaggedTensor.from_uniform_row_length(x, 100), minlength=BINS, axis=-1
        ),
        (values,),
        row_count,
    )
    yield Case(
        "histogram_fixed_width",
        lambda x: tf.histogram_fixed_width(x, [0, BINS], nbins=BINS),
        (values,),
        count,
    )
    yield Case("sparse_bincount", lambda x: tf.sparse.bincount(x, axis=-1), (rows,))


def reduction_cases(rng: np.random.Generator, n: int) -> Iterator[Case]:
    """Sums, extremes and running sums; float sums stay below 2^24, so exact."""
    integers = rng.integers(-9, 10, n).astype(np.int64)
    floats = rng.integers(-3, 4, n).astype(np.float32)
    square = floats.reshape(-1, 50)
    bits = integers > 8
    reductions = {
        "sum": (tf.reduce_sum, np.sum),
        "max": (tf.reduce_max, np.max),
        "min": (tf.reduce_min, np.min),
    }
    for name, (ours, theirs) in reductions.items():
        yield Case(f"reduce_{name}_int", ours, (integers,), theirs(integers))
        for axis in (None, 0, 1):
            yield Case(
                f"reduce_{name}_float_axis_{axis}",
                lambda x, ours=ours, axis=axis: ours(x, axis),
                (square,),
                theirs(square, axis=axis),
            )
    yield Case("reduce_prod", tf.reduce_prod, (np.sign(integers) | 1,))
    yield Case("reduce_any", lambda x: tf.reduce_any(x, 1), (bits.reshape(-1, 10),))
    yield Case("count_nonzero", tf.math.count_nonzero, (floats,), (floats != 0).sum())
    yield Case(
        "argmax", lambda x: tf.argmax(x, 1), (square,), np.argmax(square, axis=1)
    )
    yield Case(
        "argmin", lambda x: tf.argmin(x, 0), (square,), np.argmin(square, axis=0)
    )
    yield Case("cumsum", tf.cumsum, (integers,), np.cumsum(integers))
    yield Case(
        "cumsum_reverse_rows",
        lambda x: tf.cumsum(x, axis=1, exclusive=True, reverse=True),
        (square,),
        np.cumsum(square[:, ::-1], axis=1)[:, ::-1] - square,
    )
    yield Case("cumprod", tf.math.cumprod, (np.sign(floats) + (floats == 0),))
    yield Case(
        "bias_add_grad",
        lambda x: tf.raw_ops.BiasAddGrad(out_backprop=x),
        (square,),
        square.sum(axis=0),
    )


def order_cases(rng: np.random.Generator, n: int) -> Iterator[Case]:
    """Sorting and searching, with many ties."""
    values = rng.integers(0, n // 3, n).astype(np.int32)
    rows = values.reshape(-1, 200)
    order = np.argsort(values, kind="stable")
    edges = np.unique(rng.integers(0, n // 3, 500)).astype(np.int32)
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    place = np.empty(len(first), np.int64)
    place[np.argsort(first)] = np.arange(len(first))
    uniques = values[np.sort(first)]
    sizes = np.bincount(place[inverse])
    yield Case("sort", tf.sort, (values,), np.sort(values))
    yield Case("sort_rows", lambda x: tf.sort(x, axis=1), (rows,), np.sort(rows))
    yield Case("argsort", lambda x: tf.argsort(x, stable=True), (values,), order)
    yield Case(
        "top_k",
        lambda x: tf.math.top_k(x, 7).values,
        (rows,),
        np.sort(rows)[:, :-8:-1],
    )
    yield Case("top_k_indices", lambda x: tf.math.top_k(x, 100), (values,))
    yield Case(
        "in_top_k",
        lambda x, y: tf.math.in_top_k(y, x, 5),
        (rows.astype(np.float32), rng.integers(0, 200, len(rows))),
    )
    yield Case("unique", tf.unique, (values,), (uniques, place[inverse]))
    yield Case(
        "unique_with_counts",
        tf.unique_with_counts,
        (values,),
        (uniques, place[inverse], sizes),
    )
    yield Case("where", tf.where, (values % 3 == 0,), np.argwhere(values % 3 == 0))
    yield Case("where_2d", tf.where, (rows % 5 == 0,), np.argwhere(rows % 5 == 0))
    yield Case(
        "searchsorted",
        lambda e, x: tf.searchsorted(e, x),
        (edges, values),
        np.searchsorted(edges, values),
    )
    yield Case(
        "boolean_mask",
        tf.boolean_mask,
        (rows, rows[:, 0] % 2 == 0),
        rows[rows[:, 0] % 2 == 0],
    )
    yield Case(
        "invert_permutation",
        tf.math.invert_permutation,
        (order.astype(np.int32),),
        np.argsort(order),
    )


def scatter_cases(rng: np.random.Generator, n: int) -> Iterator[Case]:
    """Scatter, segments, gather, partition and stitch."""
    groups = max(n // 100, 10)
    index = rng.integers(0, groups, n).astype(np.int32)
    ascending = np.sort(index)
    values = rng.integers(-3, 4, n).astype(np.float32)
    wide = rng.integers(-3, 4, (n // 20, 20)).astype(np.float32)
    wide_index = index[: len(wide)]
    table = rng.integers(-99, 99, (groups, 16)).astype(np.int32)

    def summed(where, what, rows=groups):
        total = np.zeros((rows, *what.shape[1:]), what.dtype)
        np.add.at(total, where, what)
        return total

    yield Case(
        "scatter_nd",
        lambda i, v: tf.scatter_nd(i[:, None], v, (groups,)),
        (index, values),
        summed(index, values),
    )
    yield Case(
        "scatter_nd_rows",
        lambda i, v: tf.scatter_nd(i[:, None], v, (groups, 20)),
        (wide_index, wide),
        summed(wide_index, wide),
    )
    yield Case(
        "tensor_scatter_nd_add",
        lambda i, v: tf.tensor_scatter_nd_add(tf.ones(groups), i[:, None], v),
        (index, values),
        summed(index, values) + 1,
    )
    yield Case(
        "tensor_scatter_nd_max",
        lambda i, v: tf.tensor_scatter_nd_max(tf.zeros(groups), i[:, None], v),
        (index, values),
    )
    yield Case(
        "segment_sum",
        tf.math.segment_sum,
        (wide, np.sort(wide_index)),
        summed(np.sort(wide_index), wide, np.max(wide_index) + 1),
    )
    yield Case("segment_max", tf.math.segment_max, (values, ascending))
    for name, reduce in (
        ("sum", tf.math.unsorted_segment_sum),
        ("max", tf.math.unsorted_segment_max),
        ("min", tf.math.unsorted_segment_min),
    ):
        yield Case(
            f"unsorted_segment_{name}",
            lambda v, i, reduce=reduce: reduce(v, i, groups),
            (values, index),
            summed(index, values) if name == "sum" else None,
        )
    yield Case(
        "sparse_segment_sum",
        lambda t, i, s: tf.sparse.segment_sum(t, i, s),
        (table.astype(np.float32), index, ascending),
    )
    yield Case("gather", tf.gather, (table, index), table[index])
    yield Case(
        "gather_columns",
        lambda t, i: tf.gather(t, i, axis=1),
        (table, index[:50] % 16),
        table[:, index[:50] % 16],
    )
    yield Case(
        "gather_nd",
        tf.gather_nd,
        (table, np.stack([index, index % 16], axis=1)),
        table[index, index % 16],
    )
    yield Case(
        "gather_gradient",
        gather_gradient,
        (table.astype(np.float32), index),
        np.bincount(index, minlength=groups)[:, None] * np.ones((1, 16), np.float32),
    )
    yield Case(
        "dynamic_partition",
        lambda v, i: tf.dynamic_partition(v, i % 4, 4),
        (values, index),
        [values[index % 4 == part] for part in range(4)],
    )
    halves = rng.permutation(n).astype(np.int32).reshape(2, -1)
    yield Case(
        "dynamic_stitch",
        lambda a, b: tf.dynamic_stitch([a, b], [2 * a, 2 * b]),
        tuple(halves),
        2 * np.arange(n),
    )
    yield Case(
        "parallel_dynamic_stitch",
        lambda a, b: tf.raw_ops.ParallelDynamicStitch(indices=[a, b], data=[a, b]),
        tuple(halves),
        np.arange(n),
    )
    yield Case(
        "one_hot", lambda i: tf.one_hot(i % 20, 20), (index,), np.eye(20)[index % 20]
    )


def gather_gradient(table, index):
    """The dense gradient of a gather: a scatter of many duplicates."""
    with tf.GradientTape() as tape:
        tape.watch(table)
        total = tf.reduce_sum(tf.gather(table, index))
    return tf.convert_to_tensor(tape.gradient(total, table))


def shape_cases(rng: np.random.Generator, n: int) -> Iterator[Case]:
    """Copies, and ops on each element."""
    a = rng.integers(-99, 99, n).astype(np.int32).reshape(10, -1, 20)
    b = rng.integers(1, 9, n).astype(np.int32).reshape(a.shape)
    flat = a.reshape(-1)
    yield Case(
        "concat",
        lambda x, y: tf.concat([x, y, x], axis=1),
        (a, b),
        np.concatenate([a, b, a], axis=1),
    )
    for axes in ((1, 0, 2), (2, 1, 0), (0, 2, 1)):
        yield Case(
            f"transpose_{''.join(map(str, axes))}",
            lambda x, axes=axes: tf.transpose(x, axes),
            (a,),
            a.transpose(axes),
        )
    yield Case("tile", lambda x: tf.tile(x, (2, 1, 3)), (a,), np.tile(a, (2, 1, 3)))
    pads = ((1, 2), (0, 3), (4, 0))
    yield Case("pad", lambda x: tf.pad(x, pads), (a,), np.pad(a, pads))
    yield Case(
        "pad_reflect",
        lambda x: tf.pad(x, pads, "REFLECT"),
        (a,),
        np.pad(a, pads, "reflect"),
    )
    yield Case("reverse", lambda x: tf.reverse(x, (0, 2)), (a,), a[::-1, :, ::-1])
    yield Case("roll", lambda x: tf.roll(x, 7, 1), (a,), np.roll(a, 7, 1))
    yield Case("slice", lambda x: x[2:9:3, ::-1, 5:], (a,), a[2:9:3, ::-1, 5:])
    yield Case("stack", lambda x, y: tf.stack([x, y], 1), (a, b), np.stack([a, b], 1))
    yield Case("split", lambda x: tf.split(x, 4, 2), (a,), np.split(a, 4, 2))
    yield Case("broadcast_add", lambda x, y: x + y[:1, :, :1], (a, b), a + b[:1, :, :1])
    yield Case("multiply", tf.multiply, (a, b), a * b)
    yield Case("floor_divide", tf.math.floordiv, (a, b), a // b)
    yield Case("floor_modulo", tf.math.floormod, (a, b), a % b)
    yield Case("select", lambda x, y: tf.where(x > y, x, y), (a, b), np.maximum(a, b))
    yield Case("add_n", lambda x, y: tf.add_n([x, y, x, y]), (a, b), 2 * (a + b))
    yield Case("cast", lambda x: tf.cast(x, tf.float64), (a,), a.astype(np.float64))
    yield Case("clip", lambda x: tf.clip_by_value(x, -7, 9), (a,), np.clip(a, -7, 9))
    yield Case("relu", tf.nn.relu, (a.astype(np.float32),), np.maximum(a, 0))
    yield Case(
        "range", lambda x: tf.range(tf.size(x)), (a,), np.arange(n, dtype=np.int32)
    )
    yield Case(
        "bitwise_xor", tf.bitwise.bitwise_xor, (flat, b.reshape(-1)), flat ^ b.ravel()
    )
    yield Case(
        "sequence_mask",
        lambda x: tf.sequence_mask(x, 9),
        (b,),
        np.arange(9) < b[..., None],
    )
    yield Case(
        "quantize",
        lambda x: tf.quantization.fake_quant_with_min_max_args(x, 0, 255),
        (np.abs(a).astype(np.float32),),
        np.abs(a),
    )


def matrix_cases(rng: np.random.Generator, n: int) -> Iterator[Case]:
    """Products of small integers, exact in float32, and parts of matrices."""
    side = int(n**0.5)

    def small(*shape):
        return rng.integers(-3, 4, shape).astype(np.float32)

    a, b = small(side, side), small(side, side // 2)
    wide = small(side, side) * (rng.random((side, side)) < 0.02)
    batch_a, batch_b = small(n // 1000, 20, 30), small(n // 1000, 30, 10)
    product = (a.astype(np.float64) @ b).astype(np.float32)
    yield Case("matmul", tf.matmul, (a, b), product)
    yield Case(
        "matmul_transposed",
        lambda x, y: tf.matmul(y, x, transpose_a=True, transpose_b=True),
        (a, b),
        (b.T.astype(np.float64) @ a.T).astype(np.float32),
    )
    yield Case(
        "matmul_bias_relu",
        lambda x, y: tf.nn.relu(tf.nn.bias_add(tf.matmul(x, y), y[0])),
        (a, b),
        np.maximum(product + b[0], 0),
    )
    yield Case("matvec", tf.linalg.matvec, (a, b[:, 0]), product[:, 0])
    yield Case("batch_matmul", tf.matmul, (batch_a, batch_b), batch_a @ batch_b)
    yield Case(
        "einsum",
        lambda x, y: tf.einsum("bij,bjk->ik", x, y),
        (batch_a, batch_b),
        np.einsum("bij,bjk->ik", batch_a, batch_b, optimize=True),
    )
    yield Case(
        "sparse_dense_matmul",
        lambda x, y: tf.sparse.sparse_dense_matmul(tf.sparse.from_dense(x), y),
        (wide, b),
        (wide.astype(np.float64) @ b).astype(np.float32),
    )
    yield Case(
        "sparse_reduce_sum",
        lambda x: tf.sparse.reduce_sum(tf.sparse.from_dense(x), axis=1),
        (wide,),
        wide.sum(axis=1),
    )
    yield Case(
        "sparse_to_dense",
        lambda x: tf.sparse.to_dense(tf.sparse.from_dense(x)),
        (wide,),
        wide,
    )
    yield Case("sparse_reorder", sparse_reorder, (wide,), wide)
    yield Case(
        "sparse_transpose",
        lambda x: tf.sparse.to_dense(tf.sparse.transpose(tf.sparse.from_dense(x))),
        (wide,),
        wide.T,
    )
    yield Case(
        "sparse_concat",
        lambda x: tf.sparse.to_dense(
            tf.sparse.concat(1, [tf.sparse.from_dense(x)] * 2)
        ),
        (wide,),
        np.concatenate([wide, wide], axis=1),
    )
    yield Case(
        "band_part",
        lambda x: tf.linalg.band_part(x, 3, 5),
        (a,),
        np.triu(np.tril(a, 5), -3),
    )
    yield Case("diag", lambda x: tf.linalg.diag(x[0]), (a,), np.diag(a[0]))
    yield Case("diag_part", tf.linalg.diag_part, (a,), np.diag(a))
    yield Case(
        "set_diag",
        lambda x: tf.linalg.set_diag(x, x[0]),
        (a,),
        a - np.diag(np.diag(a)) + np.diag(a[0]),
    )
    yield Case("trace", tf.linalg.trace, (a,), np.trace(a))


def sparse_reorder(dense):
    """A sparse tensor with its entries back to front, put in order."""
    sparse = tf.sparse.from_dense(dense)
    backwards = tf.SparseTensor(
        sparse.indices[::-1], sparse.values[::-1], sparse.dense_shape
    )
    return tf.sparse.to_dense(tf.sparse.reorder(backwards))


def windows(images: np.ndarray, side: int) -> np.ndarray:
    """All side x side windows: (batch, row, column, channel, side, side)."""
    return np.lib.stride_tricks.sliding_window_view(images, (side, side), axis=(1, 2))


def image_cases(rng: np.random.Generator, n: int) -> Iterator[Case]:
    """Convolutions of small integers, pooling, resizing, boxes."""
    side = max(int((n / 16) ** 0.5) // 4 * 4, 8)
    images = rng.integers(-3, 4, (2, side, side, 8)).astype(np.float32)
    filters = rng.integers(-3, 4, (3, 3, 8, 16)).astype(np.float32)
    seen = windows(images, 3)
    convolved = np.einsum("bhwcij,ijco->bhwo", seen, filters, optimize=True)
    blocks = images.reshape(2, side // 2, 2, side // 2, 2, 8)
    doubled = images.repeat(2, axis=1).repeat(2, axis=2)
    yield Case(
        "conv2d",
        lambda x, f: tf.nn.conv2d(x, f, 1, "VALID"),
        (images, filters),
        convolved,
    )
    yield Case(
        "conv2d_strided",
        lambda x, f: tf.nn.conv2d(x, f, 2, "VALID"),
        (images, filters),
        convolved[:, ::2, ::2],
    )
    yield Case(
        "depthwise_conv2d",
        lambda x, f: tf.nn.depthwise_conv2d(x, f[..., :1], (1, 1, 1, 1), "VALID"),
        (images, filters),
        np.einsum("bhwcij,ijc->bhwc", seen, filters[..., 0], optimize=True),
    )
    yield Case("conv2d_gradients", conv_gradients, (images, filters))
    yield Case(
        "max_pool",
        lambda x: tf.nn.max_pool2d(x, 2, 2, "VALID"),
        (images,),
        blocks.max(axis=(2, 4)),
    )
    yield Case(
        "max_pool_overlapping",
        lambda x: tf.nn.max_pool2d(x, 3, 1, "VALID"),
        (images,),
        seen.max(axis=(4, 5)),
    )
    yield Case(
        "max_pool_with_argmax",
        lambda x: tf.nn.max_pool_with_argmax(x, 2, 2, "VALID"),
        (images,),
    )
    yield Case(
        "avg_pool",
        lambda x: tf.nn.avg_pool2d(4 * x, 2, 2, "VALID"),
        (images,),
        blocks.sum(axis=(2, 4)),
    )
    yield Case(
        "resize_nearest",
        lambda x: tf.image.resize(x, (2 * side, 2 * side), "nearest"),
        (images,),
        doubled,
    )
    yield Case(
        "space_to_depth",
        lambda x: tf.nn.space_to_depth(x, 2),
        (images,),
        blocks.transpose(0, 1, 3, 2, 4, 5).reshape(2, side // 2, side // 2, 32),
    )
    yield Case(
        "extract_patches",
        lambda x: tf.image.extract_patches(
            x, (1, 3, 3, 1), (1, 1, 1, 1), (1, 1, 1, 1), "VALID"
        ),
        (images,),
        seen.transpose(0, 1, 2, 4, 5, 3).reshape(2, side - 2, side - 2, 72),
    )
    yield Case("flip", tf.image.flip_left_right, (images,), images[:, :, ::-1])
    count = min(n // 10, 3000)
    corners = rng.integers(0, 200, (count, 2))
    sizes = rng.integers(1, 30, (count, 2))
    boxes = np.concatenate([corners, corners + sizes], axis=1).astype(np.float32)
    scores = rng.permutation(count).astype(np.float32)
    yield Case(
        "non_max_suppression",
        lambda x, s: tf.image.non_max_suppression(x, s, 500, 0.3),
        (boxes, scores),
    )
    many = np.broadcast_to(boxes[None, :, None], (4, count, 1, 4))
    yield Case(
        "combined_non_max_suppression",
        lambda x, s: tf.image.combined_non_max_suppression(
            x, s, 50, 50, clip_boxes=False
        ),
        (many, np.stack([np.roll(scores, i) for i in range(4)])[..., None]),
    )


def conv_gradients(images, filters):
    """The gradients of a convolution's sum: sums of small integers."""
    with tf.GradientTape() as tape:
        tape.watch((images, filters))
        total = tf.reduce_sum(tf.nn.conv2d(images, filters, 1, "SAME"))
    return tape.gradient(total, (images, filters))


def other_cases(rng: np.random.Generator, n: int) -> Iterator[Case]:
    """Random numbers from a seed, strings, ragged tensors, sets."""
    integers = rng.integers(0, 1000, n).astype(np.int32)
    text = np.array([str(v) for v in integers[: n // 10]])
    lengths = rng.integers(0, 5, n // 4).astype(np.int64)
    total = int(lengths.sum())
    content = np.arange(total, dtype=np.int64)
    starts = np.cumsum(lengths) - lengths
    sums = np.array(
        [s * c + c * (c - 1) // 2 for s, c in zip(starts, lengths, strict=True)]
    )
    sets = rng.integers(0, 50, (max(n // 100, 2), 10)).astype(np.int32)

    def uniform(x):
        return tf.random.stateless_uniform((n,), (1, 2), -50, 50, tf.int32) + 0 * x[0]

    yield Case("stateless_uniform_int", uniform, (integers,))
    yield Case(
        "stateless_uniform",
        lambda x: tf.random.stateless_uniform((n,), (3, x[0])),
        (integers,),
    )
    yield Case(
        "stateless_normal",
        lambda x: tf.random.stateless_normal((n // 10, 10), (3, x[0])),
        (integers,),
    )
    yield Case(
        "stateless_shuffle",
        lambda x: tf.random.experimental.stateless_shuffle(x, (5, 6)),
        (integers,),
    )
    yield Case(
        "as_string", tf.strings.as_string, (integers[: n // 10],), text.astype("S")
    )
    yield Case("to_number", tf.strings.to_number, (text,), integers[: n // 10])
    yield Case(
        "string_join",
        lambda x: tf.strings.join([x, x], "-"),
        (text,),
        np.array([f"{t}-{t}".encode() for t in text]),
    )
    yield Case("string_length", tf.strings.length, (text,), np.char.str_len(text))
    yield Case(
        "string_hash", lambda x: tf.strings.to_hash_bucket_fast(x, 1 << 40), (text,)
    )
    yield Case("string_split", tf.strings.bytes_split, (text,))
    yield Case(
        "ragged_sum",
        lambda v, c: tf.reduce_sum(tf.RaggedTensor.from_row_lengths(v, c), axis=1),
        (content, lengths),
        sums,
    )
    yield Case(
        "ragged_to_dense",
        lambda v, c: tf.RaggedTensor.from_row_lengths(v, c).to_tensor(
            -1, shape=(None, 5)
        ),
        (content, lengths),
        np.where(np.arange(5) < lengths[:, None], starts[:, None] + np.arange(5), -1),
    )
    yield Case(
        "ragged_gather",
        lambda v, c: tf.gather(tf.RaggedTensor.from_row_lengths(v, c), [3, 1, 7]),
        (content, lengths),
    )
    for name, operation in (
        ("intersection", tf.sets.intersection),
        ("union", tf.sets.union),
        ("difference", tf.sets.difference),
    ):
        yield Case(
            f"set_{name}",
            lambda x, y, operation=operation: operation(x, y),
            (sets, sets[::-1].copy()),
        )
    yield Case("sets_size", lambda x: tf.sets.size(tf.sets.union(x, x)), (sets,))
    yield Case(
        "map_fn",
        lambda x: tf.map_fn(tf.reduce_sum, x[:50]),
        (sets,),
        sets[:50].sum(axis=1),
    )
    yield Case(
        "vectorized_map",
        lambda x: tf.vectorized_map(lambda row: row[::-1] * 2, x),
        (sets,),
        sets[:, ::-1] * 2,
    )


GROUPS = (
    counting_cases,
    reduction_cases,
    order_cases,
    scatter_cases,
    shape_cases,
    matrix_cases,
    image_cases,
    other_cases,
)


def passes(case: Case, repeat: int) -> Iterator[tuple[str, list[np.ndarray]]]:
    """The case's results with the form that gave each."""
    inputs = [tf.constant(array) for array in case.inputs]
    in_graph = tf.function(case.compute, autograph=False)
    for _ in range(repeat):
        yield "eager", as_arrays(case.compute(*inputs))
        yield "graph", as_arrays(in_graph(*inputs))


def main() -> int:
    """Runs all cases, prints mismatches and a summary."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=10, metavar="N")
    parser.add_argument("--out", type=Path, metavar="FILE")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    tf.get_logger().setLevel("ERROR")  # every case is traced anew, on purpose
    tf.config.threading.set_intra_op_parallelism_threads(INTRA)
    tf.config.threading.set_inter_op_parallelism_threads(INTER)

    hashes: dict[str, str] = {}
    passed = failed = 0
    for size in SIZES:
        rng = np.random.default_rng(options.seed)
        for case in (case for group in GROUPS for case in group(rng, size)):
            name = f"{case.name}/{size}"
            if options.only not in name:
                continue
            known = case.expected is not None
            expected = as_arrays(case.expected) if known else None
            for number, (form, result) in enumerate(passes(case, options.repeat)):
                if expected is None:
                    expected = result
                hashes.setdefault(name, digest(result))
                if equal(result, expected) and digest(result) == hashes[name]:
                    passed += 1
                    continue
                failed += 1
                other = "numpy's" if known else "the first"
                print(f"MISMATCH {name}: {form} pass {number} is not {other} result")
    print(f"cases={len(hashes)} passes={passed} mismatches={failed}")
    if options.out:
        record = {"passes": passed, "mismatches": failed, "hashes": hashes}
        options.out.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Writes a small ONNX model without the package onnx: the few messages of its format that a chain of MatMul and Relu needs.

    onnx_model.py FILE [--width N] [--layers N]
"""

import argparse
from pathlib import Path

import numpy as np

FLOAT = 1


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def block(field: int, content: bytes | str) -> bytes:
    data = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(data)) + data


def tensor(name: str, values: np.ndarray) -> bytes:
    dims = b"".join(number(1, n) for n in values.shape)
    return dims + number(2, FLOAT) + block(8, name) + block(9, values.astype("<f4").tobytes())


def value(name: str, *shape: int) -> bytes:
    dims = b"".join(block(1, number(1, n)) for n in shape)
    return block(1, name) + block(2, block(1, number(1, FLOAT) + block(2, dims)))


def node(kind: str, inputs: list[str], output: str) -> bytes:
    return b"".join(block(1, name) for name in inputs) + block(2, output) + block(3, output) + block(4, kind)


def chain(width: int, layers: int, rows: int) -> bytes:
    """x -> Relu(x @ w) again and again; x and y are rows x width."""
    rng = np.random.default_rng(1)
    graph = block(2, "chain") + block(11, value("x", rows, width)) + block(12, value("y", rows, width))
    before = "x"
    for i in range(layers):
        after = "y" if i == layers - 1 else f"r{i}"
        weights = rng.standard_normal((width, width)) / np.sqrt(width)
        graph += block(5, tensor(f"w{i}", weights))
        graph += block(1, node("MatMul", [before, f"w{i}"], f"m{i}")) + block(1, node("Relu", [f"m{i}"], after))
        before = after
    opset = block(1, "") + number(2, 13)
    return number(1, 8) + block(8, opset) + block(7, graph)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--rows", type=int, default=64)
    args = parser.parse_args()
    args.file.write_bytes(chain(args.width, args.layers, args.rows))

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the decision tree of model/chunk.h on simulated loops and writes model/chunk_tree.h.

    ninja -C build tools/chunk-samples
    python tools/chunk_tree/train.py build/tools/chunk-samples > model/chunk_tree.h

Needs scikit-learn (tried with 1.9) and numpy; corun itself needs neither. What
the tree is worth on loops that it was not trained on goes to stderr.
"""

import subprocess
import sys

import numpy
from sklearn.tree import DecisionTreeRegressor

TRAIN, TEST = (20000, 2), (6000, 1)  # loops, seed
DEPTH = 5  # deeper ones are not better on other loops by more than 0.5 % of them
NEAR = 1.02  # chunks within 2 % of the best are all right
LEAST = 50  # loops a leaf
NAMES = ("log2(iterations / threads)", "log2(mean / dispatch)", "spread", "log2(threads)")


class Loops:
    """Features of loops and their seconds at 1, 2, 4, ... iterations a chunk."""

    def __init__(self, program: str, loops: int, seed: int):
        text = subprocess.run(
            [program, str(loops), str(seed)], check=True, capture_output=True, text=True
        ).stdout
        rows = [list(map(float, line.split()[1:])) for line in text.splitlines()]
        iterations, mean, self.spread, threads, dispatch = numpy.array([row[:5] for row in rows]).T
        self.seconds = [numpy.array(row[5:]) for row in rows]
        self.share = numpy.log2(iterations / threads)  # iterations of one thread
        self.features = numpy.c_[self.share, numpy.log2(mean / dispatch), self.spread, numpy.log2(threads)]

    def excess(self, exponents: numpy.ndarray) -> numpy.ndarray:
        """Time at chunk 2**exponent over the time at the best, minus 1."""
        return numpy.array(
            [
                times[int(min(max(exponent, 0), len(times) - 1))] / times.min() - 1
                for times, exponent in zip(self.seconds, exponents)
            ]
        )

    def subset(self, chosen: numpy.ndarray) -> "Loops":
        """The loops with these numbers."""
        part = object.__new__(Loops)
        part.seconds = [self.seconds[i] for i in chosen]
        part.share = self.share[chosen]
        return part


def train(loops: Loops) -> tuple[DecisionTreeRegressor, dict[int, float]]:
    """The tree, grown on log2 of the chunks a thread takes at the middle of the good ones, and for each
    leaf the value that costs its loops least (which is what counts, and no mean)."""
    good = [numpy.flatnonzero(times <= times.min() * NEAR).mean() for times in loops.seconds]
    matters = [min(numpy.log(times.max() / times.min()), 2) + 0.01 for times in loops.seconds]
    tree = DecisionTreeRegressor(max_depth=DEPTH, min_samples_leaf=LEAST, random_state=0)
    tree.fit(loops.features, loops.share - numpy.array(good), sample_weight=matters)
    leaf_of = tree.apply(loops.features)
    values = {}
    for leaf in numpy.unique(leaf_of):
        part = loops.subset(numpy.flatnonzero(leaf_of == leaf))
        values[int(leaf)] = min(
            numpy.arange(-2, 18, 0.5),
            key=lambda value, part=part: numpy.log1p(part.excess(numpy.round(part.share - value))).mean(),
        )
    return tree, values


def tell(name: str, excess: numpy.ndarray) -> None:
    """One line about a rule."""
    print(
        f"{name:20s} within 5 % of the best in {100 * (excess < 0.05).mean():5.1f} % of loops,"
        f" mean excess {100 * excess.mean():7.1f} %, of nine tenths at most"
        f" {100 * numpy.quantile(excess, 0.9):6.1f} %",
        file=sys.stderr,
    )


def evaluate(tree: DecisionTreeRegressor, values: dict[int, float], loops: Loops) -> None:
    """The tree and the usual rules on loops that it has not seen."""
    leaves = tree.apply(loops.features)
    tell("tree", loops.excess(numpy.round(loops.share - [values[leaf] for leaf in leaves])))
    tell("chunk 1", loops.excess(numpy.zeros(len(loops.seconds))))
    for k in (1, 2, 4, 8, 16, 32):
        tell(f"iterations/({k} t)", loops.excess(numpy.round(loops.share - numpy.log2(k))))


def write(tree: DecisionTreeRegressor, values: dict[int, float]) -> None:
    """The header, on stdout."""
    nodes = tree.tree_
    print("// SPDX-License-Identifier: Apache-2.0")
    print("// Made by tools/chunk_tree/train.py; see there for the command. Not to be edited.")
    print("#pragma once\n\n#include <array>\n#include <cstdint>\n\nnamespace corun::model {\n")
    print("/// A node: with a feature, on to `below` when it is at most `value`, else to `above`; without")
    print("/// one (-1) a leaf, and `value` is log2 of the chunks that a thread takes.")
    print("struct ChunkNode {\n    std::int16_t feature;\n    std::uint8_t below;\n    std::uint8_t above;")
    print("    float value;\n};\n")
    print(f"// Features: {', '.join(f'{i}: {name}' for i, name in enumerate(NAMES))}.")
    print("// clang-format off")
    print(f"inline constexpr std::array<ChunkNode, {nodes.node_count}> kChunkTree{{{{")
    for node in range(nodes.node_count):
        feature, below, above = (int(a[node]) for a in (nodes.feature, nodes.children_left, nodes.children_right))
        if below < 0:
            print(f"    {{-1, 0, 0, {values[node]:.1f}F}},")
        else:
            print(f"    {{{feature}, {below}, {above}, {nodes.threshold[node]:.4f}F}},")
    print("}};\n// clang-format on\n\n}  // namespace corun::model")


def main() -> None:
    """Trains, tells, writes."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    tree, values = train(Loops(sys.argv[1], *TRAIN))
    evaluate(tree, values, Loops(sys.argv[1], *TEST))
    write(tree, values)


if __name__ == "__main__":
    main()

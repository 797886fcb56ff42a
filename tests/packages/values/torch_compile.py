#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiled functions among eager ops: how often each was compiled, for how many threads, and what it computes.

    TORCHINDUCTOR_CACHE_DIR=FOLDER python tests/packages/values/torch_compile.py --out values.json

A guard of a compiled function is the number of threads: where that changes between two calls, the function is
compiled again, up to a limit, then never used again. Prints one line a program: compilations (by dynamo's own
count) and the OpenMP directives that inductor wrote. --out keeps the values for a comparison with another
run; `--compare A B` makes it (relative difference of 1e-4 at most; --bits: none).
"""

import argparse
import json
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

CALLS = 60


def programs(torch) -> Iterator[tuple[str, Callable[[int], float]]]:
    """Each a function of the number of the call; what stands around the compiled part is eager."""
    torch.manual_seed(3)
    given = torch.randn(300, 400)
    square = torch.randn(200, 200) / 200

    @torch.compile
    def pointwise(x):
        return (torch.sin(x) * x + torch.cos(x)).relu().sum(1)

    def among_eager(i: int) -> float:
        eager = (square @ square).softmax(1)
        out = pointwise(given + i / 100)
        return (out.mean() + torch.cumsum(eager, 0).mean()).item()

    yield "pointwise", among_eager

    net = torch.nn.Sequential(torch.nn.Linear(256, 384), torch.nn.GELU(), torch.nn.Linear(384, 8))
    compiled = torch.compile(net)
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    batch, labels = torch.randn(64, 256), torch.randint(8, (64,))

    def training(_: int) -> float:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(compiled(batch), labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    yield "training", training

    @torch.compile
    def reduction(x):
        return x.exp().sum() / x.numel() + x.amax()

    def other_count(i: int) -> float:
        # The program's own changes do compile anew, as they do without corun.
        torch.set_num_threads(1 if i < CALLS // 2 else 2)
        return reduction(given).item()

    yield "own-change", other_count


def run(out: Path | None, only: str) -> int:
    """Runs the programs."""
    import torch
    from torch._dynamo.utils import counters
    from torch._inductor.utils import run_and_get_code

    warnings.simplefilter("ignore")
    values = {}
    for name, call in programs(torch):
        if only not in name:
            continue
        counters.clear()
        first, sources = run_and_get_code(call, 0)
        values[name] = [first, *(call(i) for i in range(1, CALLS))]
        written = sorted({line for text in sources for line in re.findall(r"#pragma omp parallel.*", text)})
        graphs = counters["stats"]["unique_graphs"]
        print(f"{name}: {graphs} graphs, {len(sources)} sources at first, {written}", flush=True)
    if out:
        out.write_text(json.dumps(values))
    return 0


def compare(a: Path, b: Path, bits: bool) -> int:
    """Whether two runs computed the same."""
    first, second = (json.loads(path.read_text()) for path in (a, b))
    agree = first.keys() == second.keys()
    for name in sorted(first.keys() & second.keys()):
        largest = max(abs(x - y) / max(abs(x), 1e-3) for x, y in zip(first[name], second[name], strict=True))
        print(f"{name}: relative difference {largest:.2g}")
        agree &= largest <= (0 if bits else 1e-4)
    return 0 if agree else 1


def main() -> int:
    """Runs or compares."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, metavar="FILE")
    parser.add_argument("--only", default="", metavar="NAME")
    parser.add_argument("--compare", type=Path, nargs=2, metavar="FILE")
    parser.add_argument("--bits", action="store_true")
    options = parser.parse_args()
    return compare(*options.compare, options.bits) if options.compare else run(options.out, options.only)


if __name__ == "__main__":
    sys.exit(main())

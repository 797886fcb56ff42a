#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every sample of PyTorch's own operator tests: its results, to be held against another run's.

    python tests/packages/values/torch_opinfo.py --out plain
    python tests/packages/values/torch_opinfo.py --out again
    python tests/packages/values/torch_opinfo.py --out other        under corun
    python tests/packages/values/torch_opinfo.py --compare plain again other

The first form computes, for float32, float64 and int64, each operator of
torch.testing._internal.common_methods_invocations on each of its CPU samples, its
result and for floats the gradient, and keeps both in one file an operator and type.
The samples are tiny, so elementwise operators and reductions get a further one of
100,000 elements, where they run in parallel. --share 20:7 takes a twentieth.

The second form compares the third folder with the first, within the operator's own
tolerance. What already differs between the first two (memory that nobody wrote,
random numbers that no seed governs) is left out and counted. Exit code 1 and one
line for each mismatch, 0 if there is none.
"""

import argparse
import faulthandler
import itertools
import random
import sys
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch.utils._pytree import tree_flatten

TYPES = (torch.float32, torch.float64, torch.int64)
LARGE = (331, 307)
# A long sum's last bits depend on how it was divided.
LARGE_TOLERANCE = {torch.float32: (1e-4, 1e-4), torch.float64: (1e-9, 1e-9)}
MOST_LINES = 50


def seed() -> None:
    """The same samples and the same random operators in each run."""
    torch.manual_seed(11)
    np.random.seed(11)
    random.seed(11)


def kept(value):
    """A copy that can be kept and compared, whatever the layout."""
    if not isinstance(value, torch.Tensor):
        return value if isinstance(value, (bool, int, float, complex, str)) else None
    value = value.detach()
    if value.is_nested:
        return [kept(part) for part in value.unbind()]
    if value.layout != torch.strided:
        value = value.to_dense()
    return value.resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)


def described(error: Exception) -> str:
    """What a sample that is refused says."""
    first = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}"


def outcome(op, sample, dtype: torch.dtype, gradient: bool) -> dict:
    """One sample's result and gradient, or its error."""
    seed()
    record = {}
    try:
        result = op(sample.input, *sample.args, **sample.kwargs)
        record["result"] = [kept(part) for part in tree_flatten(result)[0]]
        if not gradient:
            return record
        outputs = [
            part
            for part in tree_flatten(sample.output_process_fn_grad(result))[0]
            if isinstance(part, torch.Tensor) and part.requires_grad
        ]
        inputs = [
            part
            for part in tree_flatten((sample.input, sample.args, sample.kwargs))[0]
            if isinstance(part, torch.Tensor) and part.requires_grad
        ]
        if outputs and inputs:
            weights = [torch.randn_like(part) for part in outputs]
            found = torch.autograd.grad(outputs, inputs, weights, allow_unused=True)
            record["gradient"] = [kept(part) for part in found]
    except Exception as error:  # noqa: BLE001 (what it says is part of the outcome)
        record["error"] = described(error)
    return record


def large_samples(op, dtype: torch.dtype, gradient: bool) -> Iterator:
    """Of elementwise operators and reductions: what is large enough to be divided among threads."""
    from torch.testing._internal.opinfo import core

    def tensor(low=None, high=None):
        return torch.testing.make_tensor(
            LARGE, dtype=dtype, device="cpu", low=low, high=high, requires_grad=gradient
        )

    if isinstance(op, core.UnaryUfuncInfo):
        yield core.SampleInput(tensor(*op.domain))
    elif isinstance(op, core.BinaryUfuncInfo):
        yield core.SampleInput(tensor(1, 9), args=(tensor(1, 9),))
    elif isinstance(op, core.ReductionOpInfo):
        for where in ({}, {"dim": 0}, {"dim": 1}):
            yield core.SampleInput(tensor(1, 9), kwargs=where)


def tolerance_of(op, dtype: torch.dtype) -> tuple[float, float]:
    """(rtol, atol): torch's default for the type, or the largest that the operator's own tests allow."""
    from torch.testing._comparison import default_tolerances
    from torch.testing._internal.common_device_type import toleranceOverride

    rtol, atol = default_tolerances(dtype)
    for info in op.decorators:
        for decorator in getattr(info, "decorators", (info,)):
            if isinstance(decorator, toleranceOverride) and dtype in decorator.d:
                rtol = max(rtol, decorator.d[dtype].rtol)
                atol = max(atol, decorator.d[dtype].atol)
    return rtol, atol


def compute(op, dtype: torch.dtype) -> dict:
    """All samples of an operator and type."""
    gradient = dtype in op.supported_backward_dtypes("cpu") and op.supports_autograd
    seed()
    out = {"tolerance": tolerance_of(op, dtype), "dtype": dtype, "samples": [], "large": []}
    try:
        samples = list(op.sample_inputs("cpu", dtype, requires_grad=gradient))
    except Exception as error:  # noqa: BLE001 (a package that it needs is missing)
        out["samples"].append({"error": described(error)})
        return out
    out["samples"] = [outcome(op, sample, dtype, gradient) for sample in samples]
    seed()
    out["large"] = [outcome(op, s, dtype, gradient) for s in large_samples(op, dtype, gradient)]
    return out


def run(folder: Path, share: str, only: str) -> int:
    """Computes a share of all operators into a folder."""
    from torch.testing._internal.common_methods_invocations import op_db

    parts, part = map(int, share.split(":"))
    folder.mkdir(parents=True, exist_ok=True)
    samples = 0
    for op in op_db:
        name = f"{op.name}.{op.variant_test_name}".strip(".")
        if zlib.crc32(name.encode()) % parts != part or only not in name:
            continue
        for dtype in TYPES:
            if dtype not in op.supported_dtypes("cpu"):
                continue
            what = f"{name}.{str(dtype).removeprefix('torch.')}"
            (folder / "last.txt").write_text(what)  # what it was at, should it end here
            out = compute(op, dtype)
            samples += len(out["samples"]) + len(out["large"])
            torch.save(out, folder / f"{what}.pt")
    print(f"{samples} samples")
    return 0


def differences(a: dict, b: dict, rtol: float, atol: float) -> Iterator[str]:
    """In what two outcomes of the same sample differ; within no tolerance at all if it is 0."""
    from torch.testing._comparison import default_tolerances

    if a.keys() != b.keys() or a.get("error") != b.get("error"):
        yield f"{a.get('error', sorted(a))} against {b.get('error', sorted(b))}"
        return
    for part in ("result", "gradient"):
        for x, y in itertools.zip_longest(a.get(part, ()), b.get(part, ()), fillvalue="nothing"):
            within = dict(rtol=0, atol=0)
            if isinstance(x, torch.Tensor) and (x.dtype.is_floating_point or x.dtype.is_complex) and rtol > 0:
                # Whole numbers may give a float.
                own = default_tolerances(x.dtype)
                within = dict(rtol=max(rtol, own[0]), atol=max(atol, own[1]))
            try:
                torch.testing.assert_close(y, x, equal_nan=True, **within)
            except (AssertionError, TypeError, ValueError) as error:
                if isinstance(x, (str, type(None))) and x == y:
                    continue
                yield f"{part}: {' '.join(str(error).split())[:200]}"


def compare(plain: Path, again: Path, other: Path) -> int:
    """Says what differs between other and plain, and does not between plain and again."""
    names = [sorted(path.name for path in folder.glob("*.pt")) for folder in (plain, again, other)]
    if names[0] != names[1] or names[0] != names[2] or not names[0]:
        missing = sorted(set().union(*names) - set(names[0]).intersection(*names))
        print(f"{len(missing)} operators are not in all three: {missing[:9]}")
        return 1
    samples = gradients = unsteady = refused = bits = 0
    wrong: list[str] = []
    unsteady_names = set()
    for name in names[0]:
        first, second, third = (torch.load(f / name, weights_only=True) for f in (plain, again, other))
        for part in ("samples", "large"):
            rtol, atol = map(max, first["tolerance"], (1e-12, 1e-12))
            if part == "large" and first["dtype"] in LARGE_TOLERANCE:
                rtol, atol = map(max, (rtol, atol), LARGE_TOLERANCE[first["dtype"]])
            if len({len(one[part]) for one in (first, second, third)}) != 1:
                wrong.append(f"{name} has another number of samples")
                continue
            for i, (a, b, c) in enumerate(zip(first[part], second[part], third[part], strict=True)):
                samples += 1
                if next(differences(a, b, rtol, atol), None):
                    unsteady += 1
                    unsteady_names.add(name.removesuffix(".pt"))
                    continue
                refused += "error" in a
                gradients += "gradient" in a
                found = list(differences(a, c, rtol, atol))
                bits += not found and next(differences(a, c, 0, 0), None) is not None
                wrong += [f"{name.removesuffix('.pt')} {part}[{i}] {line}" for line in found]
    for line in wrong[:MOST_LINES]:
        print(line)
    print(
        f"{len(names[0])} operators and types, {samples} samples, {gradients} with a gradient, {refused} refused,"
        f" {bits} with other last bits, {unsteady} not compared since plain does not repeat them"
        f" ({', '.join(sorted(unsteady_names)) or 'none'}), {len(wrong)} wrong"
    )
    # Were much left out, little would be shown.
    return 1 if wrong or unsteady > samples // 20 else 0


def main() -> int:
    """Computes or compares."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, metavar="FOLDER")
    parser.add_argument("--share", default="1:0", metavar="PARTS:PART")
    parser.add_argument("--threads", type=int, default=0, metavar="N")
    parser.add_argument("--only", default="", metavar="NAME", help="operators whose name holds it")
    parser.add_argument("--compare", type=Path, nargs=3, metavar="FOLDER")
    options = parser.parse_args()
    if (options.out is None) == (options.compare is None):
        parser.error("either --out or --compare")
    warnings.simplefilter("ignore")
    faulthandler.enable()
    if options.compare:
        return compare(*options.compare)
    if options.threads:
        torch.set_num_threads(options.threads)
    return run(options.out, options.share, options.only)


if __name__ == "__main__":
    sys.exit(main())

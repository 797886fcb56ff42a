#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains one of the test models on generated data and prints its step time.

    python tests/packages/workload.py lstm --intra 1 --inter 2 --measure 60

By default it trains for --warmup seconds, then measures for --measure seconds.
With --steps it trains exactly that many steps and measures all but the first of
each model. With --measure 0 it trains until it is ended, and --every-step prints
each step's time when it is over. Without --intra and --inter it runs at its library's defaults.

`mixed` trains two models in turn in one process, changing every 4 seconds (with
--steps every 10 steps). Its figures are geometric means over the two models, so
that both matter equally; each model's own mean is printed too.
"""

import argparse
import collections
import importlib
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

NUMPY_SIZES = ("8", "16", "32", "64", "100", "150", "200", "300", "1000", "2000", "mix")
# The modules of each workload; what follows a colon is make_step's second argument.
MODELS = {
    "lstm": ("lstm",),
    "resnet": ("resnet",),
    "dcgan": ("dcgan",),
    "inception": ("inception",),
    "gru": ("gru",),
    "transformer": ("transformer",),
    "mixed": ("lstm", "resnet"),
    "torch-lstm": ("torch_lstm",),
    "torch-conv": ("torch_conv",),
    "torch-transformer": ("torch_transformer",),
    "torch-mlp": ("torch_mlp",),
    "torch-infer-conv": ("torch_infer:conv",),
    "torch-infer-transformer": ("torch_infer:transformer",),
    **{f"numpy-{n}": (f"numpy_linalg:{n}",) for n in NUMPY_SIZES},
    "sklearn-boosting": ("sklearn_models:boosting",),
    "sklearn-kmeans": ("sklearn_models:kmeans",),
    "sklearn-forest": ("sklearn_models:forest",),
}
PHASE_SECONDS = 4.0
PHASE_STEPS = 10
EARLY_SECONDS = 60.0


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line; 0 threads means that the library chooses."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=MODELS)
    parser.add_argument("--intra", type=int, default=0, help="threads within an op")
    parser.add_argument("--inter", type=int, default=0, help="ops side by side")
    parser.add_argument("--steps", type=int, default=0, help="train so many steps")
    parser.add_argument("--warmup", type=float, default=5.0, metavar="SECONDS")
    parser.add_argument("--measure", type=float, default=15.0, metavar="SECONDS")
    parser.add_argument(
        "--every-step", action="store_true", help="print step_ms=... at each step"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--losses", type=Path, metavar="FILE", help="write each step's loss as JSON"
    )
    options = parser.parse_args(arguments)
    options.measure = options.measure or math.inf
    models = len(MODELS[options.name])
    if options.losses and not options.steps:
        parser.error("--losses needs --steps")
    if models > 1 and not options.steps and options.measure < models * PHASE_SECONDS:
        parser.error(
            f"{options.name} needs --measure {models * PHASE_SECONDS:g} or more"
        )
    if options.steps and options.steps < (models - 1) * PHASE_STEPS + 2:
        parser.error("too few --steps to measure one")
    return options


class Training:
    """One model: when each of its steps began, what it took and its loss."""

    def __init__(self, model: str, step: Callable[[], float]) -> None:
        self.model = model
        self.step = step
        self.starts: list[float] = []
        self.seconds: list[float] = []
        self.losses: list[float] = []

    def run_one(self) -> None:
        """One training step, timed until its loss has arrived."""
        start = time.perf_counter()
        loss = self.step()
        self.seconds.append(time.perf_counter() - start)
        self.starts.append(start)
        self.losses.append(loss)
        if not math.isfinite(loss):
            sys.exit(f"{self.model}, step {len(self.losses)}: the loss is {loss}")


class StepPrinter:
    """Prints each step's time when it is over, but for a model's first, which traces.

    Of several models only the last one's steps give a line: the geometric mean of
    that step and of each other model's mean in the phases just before. Phases that
    do not follow each other (the process was stopped) are not brought together.
    """

    def __init__(self, models: int) -> None:
        self.models = models
        self.phase = -1
        self.seconds: list[float] = []
        self.before: collections.deque[float] = collections.deque(maxlen=models - 1)

    def __call__(self, phase: int, training: Training) -> None:
        if len(training.seconds) == 1:
            return
        if phase != self.phase:
            if phase != self.phase + 1:
                self.before.clear()
            elif self.seconds:
                self.before.append(statistics.fmean(self.seconds))
            self.phase, self.seconds = phase, []
        self.seconds.append(training.seconds[-1])
        whole = len(self.before) == self.models - 1
        if whole and phase % self.models == self.models - 1:
            mean = milliseconds([*self.before, training.seconds[-1]])
            print(f"step_ms={mean}", flush=True)


AfterStep = Callable[[int, Training], None]


def train_for(
    trainings: list[Training], seconds: float, origin: float, after_step: AfterStep
) -> None:
    """Trains until the seconds are over, the models in turn from the origin on."""
    end = time.perf_counter() + seconds
    while (now := time.perf_counter()) < end:
        phase = int((now - origin) / PHASE_SECONDS)
        trainings[phase % len(trainings)].run_one()
        after_step(phase, trainings[phase % len(trainings)])


def train_steps(
    trainings: list[Training], steps: int, after_step: AfterStep
) -> None:
    """Trains exactly so many steps, the models in turn."""
    for step in range(steps):
        phase = step // PHASE_STEPS
        trainings[phase % len(trainings)].run_one()
        after_step(phase, trainings[phase % len(trainings)])


def percentile(values: list[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed."""
    return sorted(values)[max(math.ceil(share * len(values)) - 1, 0)]


def early_seconds(trainings: list[Training]) -> list[list[float]] | None:
    """Each model's step times in the first minute; None if the run was shorter.

    The minute begins with the first step, which traces and compiles.
    """
    limit = trainings[0].starts[0] + EARLY_SECONDS
    if max(t.starts[-1] + t.seconds[-1] for t in trainings) < limit:
        return None
    early = [
        [d for s, d in zip(t.starts, t.seconds, strict=True) if s + d <= limit]
        for t in trainings
    ]
    return early if all(early) else None


def milliseconds(values: Iterable[float]) -> str:
    """The geometric mean of seconds, as milliseconds."""
    return f"{1e3 * statistics.geometric_mean(values):.3f}"


def set_threads(name: str, intra: int, inter: int) -> None:
    """Sets the thread counts as a program of that library does; 0 leaves its default."""
    if name.startswith("torch-"):
        import torch

        if intra:
            torch.set_num_threads(intra)
        if inter:
            torch.set_num_interop_threads(inter)
    elif name.startswith(("numpy-", "sklearn-")):
        if inter:
            sys.exit(f"{name} has no --inter")
        if intra:
            import sklearn.cluster  # noqa: F401 (a limit holds for what is loaded)
            import threadpoolctl

            threadpoolctl.threadpool_limits(intra)
    else:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(intra)
        tf.config.threading.set_inter_op_parallelism_threads(inter)


def main() -> None:
    """Parses, trains, prints."""
    options = parse_arguments()
    set_threads(options.name, options.intra, options.inter)
    trainings = []
    for model in MODELS[options.name]:
        module, _, argument = model.partition(":")
        make_step = importlib.import_module(f"workloads.{module}").make_step
        step = make_step(options.seed, *filter(None, [argument]))
        trainings.append(Training(model, step))

    after_step = StepPrinter(len(trainings)) if options.every_step else lambda *_: None
    if options.steps:
        train_steps(trainings, options.steps, after_step)
        measured = [t.seconds[1:] for t in trainings]
    else:
        origin = time.perf_counter()
        train_for(trainings, options.warmup, origin, after_step)
        warm = [len(t.seconds) for t in trainings]
        train_for(trainings, options.measure, origin, after_step)
        measured = [t.seconds[n:] for t, n in zip(trainings, warm, strict=True)]
    if not all(measured):
        sys.exit("no step was measured: --measure is too short")

    print(
        f"workload={options.name} intra={options.intra} inter={options.inter}"
        f" steps={sum(len(t.seconds) for t in trainings)}"
        f" warmup_s={0 if options.steps else options.warmup:g}"
        f" measure_s={sum(sum(m) for m in measured):.1f}"
    )
    print("ms_per_step=" + milliseconds(statistics.fmean(m) for m in measured))
    print("ms_per_step_median=" + milliseconds(statistics.median(m) for m in measured))
    print("ms_per_step_p99=" + milliseconds(percentile(m, 0.99) for m in measured))
    if early := early_seconds(trainings):
        print(
            "first_60s_ms_per_step=" + milliseconds(statistics.fmean(e) for e in early)
        )
    if len(trainings) > 1:
        for training, seconds in zip(trainings, measured, strict=True):
            mean = milliseconds([statistics.fmean(seconds)])
            print(f"ms_per_step_{training.model}={mean}")
    if options.losses:
        losses = {t.model: t.losses for t in trainings}
        record = {"workload": options.name, "seed": options.seed, "losses": losses}
        options.losses.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Runs one kind of step for some seconds at its defaults, or at one thread as set by hand.

    quota_program.py numpy|torch|onnxruntime|tensorflow [--seconds S] [--hand] [--model FILE.onnx]

Prints threads=, steps_per_second= of the latter part, and with --each the rate of each half second.
"""

import argparse
import os
import statistics
import sys
import time
from pathlib import Path


def numpy_step(args):
    if args.hand:
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
    import numpy as np

    a = np.random.default_rng(1).standard_normal((384, 384))
    return lambda: float((a @ a)[0, 0])


def torch_step(args):
    if args.hand:
        os.environ["OMP_NUM_THREADS"] = "1"
    import torch

    torch.manual_seed(1)
    model = torch.nn.Sequential(*[layer for _ in range(4) for layer in (torch.nn.Linear(384, 384), torch.nn.GELU())])
    x = torch.randn(128, 384)

    def step():
        model.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss.item()

    return step


def onnxruntime_step(args):
    import numpy as np
    import onnxruntime

    options = onnxruntime.SessionOptions()
    if args.hand:
        options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(args.model, options, providers=["CPUExecutionProvider"])
    x = np.ones((64, 256), np.float32)
    return lambda: session.run(None, {"x": x})


def tensorflow_step(args):
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow as tf

    if args.hand:
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.random.set_seed(1)
    weights = [tf.Variable(tf.random.normal((384, 384), stddev=0.05)) for _ in range(4)]
    x = tf.random.normal((128, 384))

    @tf.function
    def train():
        with tf.GradientTape() as tape:
            y = x
            for w in weights:
                y = tf.nn.gelu(y @ w)
            loss = tf.reduce_mean(y * y)
        for w, g in zip(weights, tape.gradient(loss, weights)):
            w.assign_sub(0.01 * g)
        return loss

    return lambda: train().numpy()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["numpy", "torch", "onnxruntime", "tensorflow"])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--hand", action="store_true")
    parser.add_argument("--model")
    args = parser.parse_args()
    step = globals()[f"{args.kind}_step"](args)
    for _ in range(3):
        step()
    print(f"ready {os.getpid()}", flush=True)
    rates = []
    end = time.monotonic() + args.seconds
    while time.monotonic() < end:
        begin, steps = time.monotonic(), 0
        while (now := time.monotonic()) < begin + 0.5:
            step()
            steps += 1
        rates.append(steps / (now - begin))
    print(f"threads={len(list(Path('/proc/self/task').iterdir()))}")
    print(f"steps_per_second={statistics.median(rates[len(rates) // 3:]):.3f}")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

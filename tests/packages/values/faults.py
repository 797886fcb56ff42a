#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that fail inside kernels, are cancelled, or make and free many kernels.

    python tests/packages/values/faults.py > plain.txt

Each scene prints what it saw: the error's class and message without numbers that
vary, and exact integer results. Two runs print the same bytes, whatever the number
of threads, so the transcript of a run under corun must equal the plain one. The
exit code is 0 unless a scene behaved in a way that it does not expect.
"""

import argparse
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import cancellation

v1 = tf.compat.v1
FLOATS = tf.TensorSpec(None, tf.float32)
TOO_MUCH = (1 << 30, 1 << 20)  # four pebibytes of float32
SUM_OF_SQUARES = 332_833_500  # of the whole numbers below 1000

unexpected: list[str] = []  # what no scene expects, also part of the transcript


def say(*words) -> None:
    """One line of the transcript."""
    print(*words, flush=True)


def describe(error: BaseException) -> str:
    """Class and message, without stack traces and names that count upwards."""
    lines = str(error).strip().splitlines() or [""]
    # In a graph's error the kernel's own words come just before the node's name.
    node = next((i for i, line in enumerate(lines) if "[[{{node" in line), 0)
    line = next(filter(str.strip, reversed(lines[:node])), lines[0])
    line = re.sub(r"0x[0-9a-f]+", "ADDRESS", line)
    line = re.sub(r"_\d+", "_N", line)
    return f"{type(error).__name__}: {line}"


def failure(name: str, action: Callable, *expected: type[BaseException]) -> str:
    """Runs an action that must raise; then ops must still work on this thread."""
    line = f"{name}: NO ERROR"
    try:
        action()
    except expected as error:
        line = f"{name}: {describe(error)}"
    else:
        unexpected.append(line)
    if sum_of_squares() != SUM_OF_SQUARES:
        line += ", AND A LATER OP WENT WRONG"
        unexpected.append(line)
    return line


def fails(name: str, action: Callable, *expected: type[BaseException]) -> None:
    """Says how an action failed."""
    say(failure(name, action, *expected))


def quietly_fails(name: str, action: Callable, *expected: type[BaseException]) -> None:
    """Says that an action failed, where the message depends on who came first."""
    line = failure(name, action, *expected)
    say(line if line in unexpected else f"{name}: ended")


def sum_of_squares() -> int:
    """Of the whole numbers below 1000: a few ops with one right answer."""
    i = tf.range(1000, dtype=tf.int64)
    return int(tf.reduce_sum(i * i))


def bad_arguments() -> None:
    """Arguments that a kernel refuses: eagerly, in a graph, below control flow."""
    invalid = tf.errors.InvalidArgumentError
    a, b = tf.ones((37, 91)), tf.ones((90, 5))
    product = tf.function(tf.matmul, input_signature=(FLOATS, FLOATS), autograph=False)
    fails("matmul, eager", lambda: tf.matmul(a, b), invalid)
    fails("matmul, graph", lambda: product(a, b), invalid)
    fails("concat, eager", lambda: tf.concat([a, b], 0), invalid)
    fails("reshape, eager", lambda: tf.reshape(a, (-1, 10)), invalid)
    fails("gather, eager", lambda: tf.gather(a, [1, 99]), invalid)
    fails("divide by zero", lambda: tf.range(9) // tf.zeros(9, tf.int32), invalid)
    fails(
        "sparse, eager",
        lambda: tf.sparse.to_dense(tf.SparseTensor([[5], [2]], [1, 2], [9])),
        invalid,
    )

    @tf.function
    def loop(limit):
        total, rows = tf.constant(0), tf.ones((5, 3), tf.int32)
        for i in tf.range(limit):
            total += tf.reduce_sum(tf.gather(rows, i))
        return total

    say("loop, in range:", int(loop(tf.constant(5))))
    for _ in range(20):
        try:
            loop(tf.constant(9))
        except invalid:
            continue
        unexpected.append("loop: NO ERROR")
    fails("loop, out of range", lambda: loop(tf.constant(9)), invalid)

    @tf.function(input_signature=(FLOATS, FLOATS))
    def branch(x, y):
        if tf.size(x) > 3000:
            return tf.matmul(x, y)
        return tf.matmul(y, y)

    fails("cond", lambda: branch(a, b), invalid)

    @tf.function(input_signature=(FLOATS, FLOATS))
    def mapped(x, y):
        return tf.map_fn(lambda row: tf.linalg.matvec(y, row), x)

    say("map_fn:", int(tf.reduce_sum(mapped(a, tf.ones((4, 91))))))
    fails("map_fn, bad shape", lambda: mapped(a, b), invalid)

    @tf.function(input_signature=(FLOATS, FLOATS))
    def gradient(x, y):
        with tf.GradientTape() as tape:
            tape.watch(x)
            z = tf.reduce_sum(tf.matmul(x, y))
        return tape.gradient(z, x)

    fails("gradient", lambda: gradient(a, b), invalid)


def assertions() -> None:
    """tf.debugging, and numbers that are none."""
    invalid = tf.errors.InvalidArgumentError
    checked = tf.function(lambda x: tf.debugging.check_numerics(x, "found"))

    @tf.function
    def limited(x):
        tf.debugging.assert_less(x, 3, message="too large")
        return x * 2

    say("assert, held:", limited(tf.constant([1, 2])).numpy().tolist())
    fails("assert, graph", lambda: limited(tf.constant([1, 5])), invalid)
    fails("assert, eager", lambda: tf.debugging.assert_equal(1, 2), invalid)
    fails("check_numerics", lambda: checked(tf.constant([1.0, np.nan])), invalid)


def memory() -> None:
    """Allocations that no machine can give; TensorFlow retries each for 10 seconds."""
    exhausted = tf.errors.ResourceExhaustedError
    shape = tf.constant(TOO_MUCH, tf.int64)
    tile = tf.function(lambda multiples: tf.tile(tf.ones((1, 1)), multiples))
    fails("zeros, eager", lambda: tf.zeros(shape), exhausted)
    fails("tile, graph", lambda: tile(shape), exhausted)


def python_functions() -> None:
    """Errors of Python code that a kernel calls."""

    def refuse(x):
        if int(x) > 2:
            raise ValueError("refused")
        return x

    @tf.function
    def in_graph(x):
        return tf.py_function(refuse, [x], tf.int32)

    def by_numpy(x):
        return tf.numpy_function(refuse, [x], tf.int32)

    say("py_function:", int(in_graph(tf.constant(2))))
    kinds = (tf.errors.InvalidArgumentError, tf.errors.UnknownError, ValueError)
    fails("py_function, eager", lambda: tf.py_function(refuse, [3], tf.int32), *kinds)
    fails("py_function, graph", lambda: in_graph(tf.constant(3)), *kinds)
    fails("numpy_function", lambda: by_numpy(tf.constant(3)), *kinds)


def pipelines() -> None:
    """tf.data: an error in the middle, an end, and a training step behind it."""
    numbers = tf.data.Dataset.range(100)

    def checked(i):
        with tf.control_dependencies([tf.debugging.assert_less(i, tf.int64.max // 2)]):
            return tf.gather(tf.range(60, dtype=tf.int64), i)

    seen: list[int] = []

    def consume(calls):
        for value in numbers.map(checked, num_parallel_calls=calls):
            seen.append(int(value))

    for calls in (None, 4):
        seen.clear()
        fails(
            f"map, {calls}", lambda c=calls: consume(c), tf.errors.InvalidArgumentError
        )
        say("  before it:", len(seen), sum(seen))

    iterator = iter(numbers.take(2))
    next(iterator), next(iterator)
    fails("end", lambda: iterator.get_next(), tf.errors.OutOfRangeError)

    def image(i):
        pixels = tf.random.stateless_uniform((32, 32), (7, i), 0, 4, tf.int32)
        return tf.cast(pixels, tf.float32), i % 5

    batches = numbers.repeat(3).map(image, num_parallel_calls=4).batch(20).prefetch(2)
    weights = tf.Variable(tf.zeros((5, 32)))

    @tf.function
    def train(pixels, labels):
        # Whole numbers only, so the sum does not depend on its order.
        sums = tf.reduce_sum(pixels, axis=1)
        weights.scatter_add(tf.IndexedSlices(sums, labels))
        return tf.reduce_sum(tf.math.floormod(weights, 97.0))

    say("train:", [int(train(*batch)) for batch in batches])


def cancelled_sessions() -> None:
    """Steps that end by a deadline or by the closing of their session."""
    late = v1.RunOptions(timeout_in_ms=100)
    slow = tf.errors.DeadlineExceededError
    closed = (tf.errors.CancelledError, RuntimeError)
    graph = tf.Graph()
    with graph.as_default():
        queue = v1.FIFOQueue(10, [tf.float32], shapes=[()])
        blocked = queue.dequeue()
        put = queue.enqueue(1.0)
        _, endless = tf.while_loop(
            lambda i, x: i >= 0,
            lambda i, x: (tf.maximum(i - 1, 0), tf.matmul(x, x) / 40.0),
            (tf.constant(9), tf.ones((40, 40))),
        )

    with closing(v1.Session(graph=graph)) as session:
        quietly_fails("dequeue", lambda: session.run(blocked, options=late), slow)
        quietly_fails("loop", lambda: session.run(endless, options=late), slow)
        session.run(put)
        say("dequeue afterwards:", session.run(blocked))

    for name, step in (("dequeue", blocked), ("loop", endless)):
        session = v1.Session(graph=graph)
        timer = threading.Timer(0.2, session.close)
        timer.start()
        quietly_fails(f"{name}, closed session", partial(session.run, step), *closed)
        timer.join()


def cancelled_functions() -> None:
    """Functions that end through a cancellation manager or a closed queue."""
    queue = tf.queue.FIFOQueue(10, [tf.float32], shapes=[()])
    waiting = tf.function(lambda: queue.dequeue() + 1).get_concrete_function()
    manager = cancellation.CancellationManager()
    cancelable = manager.get_cancelable_function(waiting)
    timer = threading.Timer(0.2, manager.start_cancel)
    timer.start()
    quietly_fails("cancelled function", cancelable, tf.errors.CancelledError)
    timer.join()
    queue.enqueue(41.0)
    say("function afterwards:", int(waiting()))
    queue.close()
    quietly_fails("closed queue", waiting, tf.errors.OutOfRangeError)


def uninitialised() -> None:
    """A variable that has no value yet."""
    graph = tf.Graph()
    with graph.as_default():
        value = v1.get_variable("v", (3,), use_resource=True) + 1
    failed = tf.errors.FailedPreconditionError
    with closing(v1.Session(graph=graph)) as session:
        quietly_fails("uninitialised", partial(session.run, value), failed)


def build_graph(kind: int, size: int) -> tuple[tf.Graph, tf.Tensor, int]:
    """A small graph of whole numbers, its result, and what that must be."""
    graph = tf.Graph()
    with graph.as_default():
        x = v1.placeholder_with_default(tf.ones((size, size)), (None, None))
        result = (
            lambda: tf.reduce_sum(tf.matmul(x, x)),
            lambda: tf.reduce_sum(tf.transpose(x + x)),
            lambda: tf.reduce_sum(tf.math.cumsum(x, axis=1)),
            lambda: tf.reduce_max(tf.sort(x, axis=1)) * 7,
        )[kind]()
    right = (size**3, 2 * size**2, size * size * (size + 1) // 2, 7)[kind]
    return graph, result, right


def sessions_again_and_again() -> None:
    """Sessions closed and made anew: kernels at addresses that others had."""
    right = 0
    for turn in range(120):
        graph, result, expected = build_graph(turn % 4, 8 + turn % 7 * 5)
        with v1.Session(graph=graph) as session:
            right += sum(int(session.run(result)) == expected for _ in range(3))
    say("sessions in turn, right results:", right)


def sessions_at_once() -> None:
    """Two sessions used by several threads each, one of which meets errors."""
    graphs = [build_graph(kind, 40) for kind in (0, 2)]
    sessions = [v1.Session(graph=graph) for graph, _, _ in graphs]

    def work(thread: int) -> tuple[int, int]:
        which = thread % 2
        (_, result, expected), session = graphs[which], sessions[which]
        right = errors = 0
        for turn in range(60):
            right += int(session.run(result)) == expected
            if thread < 2 and turn % 3 == 0:
                name = result.graph.get_operations()[1].outputs[0]
                try:
                    session.run(result, {name: np.ones((2, 3, 4), np.float32)})
                except (tf.errors.OpError, ValueError):
                    errors += 1
        return right, errors

    with ThreadPoolExecutor(6) as pool:
        say("sessions at once, right and errors:", list(pool.map(work, range(6))))
    for session in sessions:
        session.close()


def models_at_once() -> None:
    """Two models trained in two threads, each as if it were alone."""

    def model(width: int) -> Callable[[], int]:
        weights = tf.Variable(tf.zeros((width, width)))
        data = tf.reshape(tf.range(width * width, dtype=tf.float32) % 3, (width, width))

        @tf.function
        def step():
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.matmul(data, weights))
            weights.assign_add(tape.gradient(loss, weights))
            return tf.reduce_sum(weights)

        return lambda: int(step())

    def train(width: int) -> list[int]:
        step = model(width)
        return [step() for _ in range(40)][::13]

    def fault(_) -> int:
        errors = 0
        for _ in range(100):
            try:
                tf.matmul(tf.ones((3, 4)), tf.ones((5, 6)))
            except tf.errors.InvalidArgumentError:
                errors += 1
        return errors

    with ThreadPoolExecutor(3) as pool:
        errors = pool.submit(fault, None)
        models = [pool.submit(train, width) for width in (16, 90)]
        say("models at once:", [m.result() for m in models], errors.result())


def changing_shapes() -> None:
    """One eager kernel after another on shapes that never stay."""

    def sums() -> Iterator[int]:
        for i in range(300):
            rows, columns = 1 + i * 37 % 91, 1 + i * 53 % 217
            x = tf.ones((rows, columns))
            yield int(tf.reduce_sum(tf.matmul(x, x, transpose_b=True)))
            yield int(tf.reduce_sum(tf.concat([x, x], 0) + 1))

    numbers = list(sums())
    say("changing shapes:", sum(numbers), numbers[:6])
    ranks = [tf.reduce_sum(tf.ones([2] * rank)) for rank in range(1, 9)]
    say("changing ranks:", [int(r) for r in ranks])


SCENES = (
    bad_arguments,
    assertions,
    memory,
    python_functions,
    pipelines,
    cancelled_sessions,
    cancelled_functions,
    uninitialised,
    sessions_again_and_again,
    sessions_at_once,
    models_at_once,
    changing_shapes,
)


def main() -> None:
    """Plays all scenes, or those named."""
    names = [scene.__name__ for scene in SCENES]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scenes", nargs="*", help=f"of {', '.join(names)}")
    parser.add_argument("--intra", type=int, default=0)
    parser.add_argument("--inter", type=int, default=0)
    options = parser.parse_args()
    tf.get_logger().setLevel("ERROR")
    tf.config.threading.set_intra_op_parallelism_threads(options.intra)
    tf.config.threading.set_inter_op_parallelism_threads(options.inter)
    if unknown := set(options.scenes) - set(names):
        parser.error(f"no such scene: {', '.join(sorted(unknown))}")
    for scene in SCENES:
        if not options.scenes or scene.__name__ in options.scenes:
            say(f"--- {scene.__name__}")
            scene()
    if unexpected:
        sys.exit("\n".join(["unexpected:", *unexpected]))


if __name__ == "__main__":
    main()

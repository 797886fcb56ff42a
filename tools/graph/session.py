# SPDX-License-Identifier: Apache-2.0
"""Runs the tf.function behind a training step in a graph session, which tells what it executed.

A session gives the graph as it is executed (after Grappler and oneDNN's rewriting, functions
inlined, loops as Enter, Merge, Switch, NextIteration, Exit) and when each node began and ended.
"""

import dataclasses
import time
from collections.abc import Callable

import tensorflow as tf

tf1 = tf.compat.v1


@dataclasses.dataclass
class Recorded:
    """The tf.function that a step called last, and with what."""

    function: Callable
    arguments: tuple


def record_step(make_step: Callable[[], Callable]) -> Recorded:
    """Makes a step, runs it once and returns the outermost tf.function that it called."""
    recorded: list[Recorded] = []
    original = tf.function

    def recording(python_function=None, **options):
        if python_function is None:
            return lambda f: recording(f, **options)
        made = original(python_function, **options)

        def call(*arguments):
            recorded.append(Recorded(made, arguments))
            return made(*arguments)

        return call

    tf.function = recording
    try:
        step = make_step()
        recorded.clear()
        step()
    finally:
        tf.function = original
    if not recorded:
        raise SystemExit("the step called no tf.function that was made by make_step()")
    return recorded[0]


class StepSession:
    """The step in a session of its own, at fixed numbers of threads (one pool a process)."""

    def __init__(self, recorded: Recorded, intra: int, inter: int) -> None:
        concrete = recorded.function.get_concrete_function(*recorded.arguments)
        values = [self._value(captured) for captured in concrete.captured_inputs]
        arguments = [a.numpy() for a in tf.nest.flatten(recorded.arguments)]
        definition = concrete.graph.as_graph_def()
        graph = tf.Graph()
        with graph.as_default():
            inputs, self._feeds = {}, {}
            for given, value in zip(concrete.inputs, arguments + values, strict=True):
                if given.dtype == tf.resource:
                    name = f"variable_{len(inputs)}"
                    variable = tf1.get_variable(name, initializer=value, use_resource=True)
                    inputs[given.name] = variable.handle
                elif len(inputs) < len(arguments):
                    inputs[given.name] = tf1.placeholder(given.dtype, given.shape)
                    self._feeds[inputs[given.name]] = value
                else:
                    inputs[given.name] = tf.constant(value)
            names = [output.name for output in concrete.outputs]
            names += [operation.name for operation in concrete.graph.control_outputs]
            self._fetches = tf.import_graph_def(
                definition, input_map=inputs, return_elements=names, name=""
            )
            config = tf1.ConfigProto(
                intra_op_parallelism_threads=intra,
                inter_op_parallelism_threads=inter,
                use_per_session_threads=True,
            )
            self._session = tf1.Session(graph=graph, config=config)
            self._session.run(tf1.global_variables_initializer())

    @staticmethod
    def _value(captured):
        if captured.dtype != tf.resource:
            return captured.numpy()
        held = captured._handle_data.shape_and_type  # noqa: SLF001: no public way
        if len(held) != 1:
            raise SystemExit("the step uses a resource that is no variable: not supported")
        read = tf.raw_ops.ReadVariableOp(resource=captured, dtype=tf.as_dtype(held[0].dtype))
        return read.numpy()

    def run(self) -> float:
        """Seconds of one step, not traced."""
        start = time.perf_counter()
        self._session.run(self._fetches, self._feeds)
        return time.perf_counter() - start

    def trace(self):
        """One step; returns (partition graphs, stats of the nodes in the order of their ends)."""
        options = tf1.RunOptions(
            trace_level=tf1.RunOptions.FULL_TRACE, output_partition_graphs=True
        )
        metadata = tf1.RunMetadata()
        self._session.run(self._fetches, self._feeds, options=options, run_metadata=metadata)
        stats = [s for d in metadata.step_stats.dev_stats for s in d.node_stats]
        return list(metadata.partition_graphs), stats

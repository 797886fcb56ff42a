#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports the op graph of a TensorFlow training step as JSON for `corun sim`.

    python tools/graph/export.py paper_models:lstm -o lstm.json.gz --widths 1,2
    python tools/graph/export.py workloads.gru:make_step --path tests/packages -o gru.json.gz

MODULE:FUNCTION makes the step: a callable that calls one tf.function. FUNCTION is called
without arguments, or with a seed when it takes one. Every op is timed alone (inter-op 1) at
each of the --widths, in a process of its own a width; tests/graphs/README.md says what the
file holds.
"""

import argparse
import collections
import gzip
import importlib
import inspect
import json
import os
import pickle
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WARM_STEPS = 2


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("step", metavar="MODULE:FUNCTION")
    parser.add_argument("-o", "--output", type=Path, required=True, help=".json or .json.gz")
    parser.add_argument("--path", type=Path, default=None, help="folder of the module")
    parser.add_argument("--widths", default="1", help="threads within an op [1]")
    parser.add_argument("--steps", type=int, default=5, help="traced steps a width [5]")
    parser.add_argument("--about", default="", help="a sentence on the program")
    parser.add_argument("--trace-at", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if ":" not in options.step:
        parser.error(f"{options.step}: MODULE:FUNCTION was expected")
    try:
        options.widths = sorted({int(w) for w in options.widths.split(",")})
    except ValueError:
        parser.error("--widths takes numbers separated by commas")
    if options.widths[0] != 1 or options.steps < 1:
        parser.error("--widths must hold 1, --steps must be 1 or more")
    return options


def trace(options: argparse.Namespace) -> dict:
    """In a process of its own: the graph, and each node's runs and seconds at one width."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.path[:0] = [str(Path(__file__).parent), *([str(options.path)] if options.path else [])]
    import session
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(options.trace_at)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    module, _, function = options.step.partition(":")
    make = getattr(importlib.import_module(module), function)
    arguments = [1] if inspect.signature(make).parameters else []
    recorded = session.record_step(lambda: make(*arguments))
    step = session.StepSession(recorded, options.trace_at, 1)
    for _ in range(WARM_STEPS):
        step.run()
    whole = [step.run() for _ in range(options.steps)]
    seconds, runs, outputs = collections.defaultdict(list), {}, {}
    for _ in range(options.steps):
        graphs, stats = step.trace()
        runs = collections.Counter(s.node_name for s in stats)
        for node in stats:
            took = node.op_end_rel_nanos - node.op_start_rel_nanos
            seconds[node.node_name].append(max(took, 1) * 1e-9)
            outputs[node.node_name] = {
                o.slot: o.tensor_description.SerializeToString() for o in node.output
            }
    return {
        "graphs": [g.SerializeToString() for g in graphs],
        "seconds": dict(seconds),
        "runs": dict(runs),
        "outputs": outputs,
        "step_seconds": statistics.median(whole),
        "tensorflow": tf.__version__,
    }


def trace_in_child(width: int) -> dict:
    """trace() at a width, in a child: TensorFlow has one pool a process."""
    with tempfile.NamedTemporaryFile(suffix=".pickle") as file:
        words = [sys.executable, __file__, *sys.argv[1:], "--trace-at", str(width)]
        if subprocess.run([*words, "--output", file.name], check=False).returncode:
            sys.exit(f"tracing at {width} threads failed (see above)")
        return pickle.loads(Path(file.name).read_bytes())


def compose(options: argparse.Namespace, traces: dict[int, dict]) -> dict:
    """The graph file's content."""
    sys.path.insert(0, str(Path(__file__).parent))
    import describe
    import unroll
    from tensorflow.core.framework import graph_pb2, tensor_description_pb2

    first = traces[1]
    nodes = unroll.read_nodes(map(graph_pb2.GraphDef.FromString, first["graphs"]))
    tensors = {
        name: {
            slot: describe.Tensor(tensor_description_pb2.TensorDescription.FromString(text))
            for slot, text in slots.items()
        }
        for name, slots in first["outputs"].items()
    }
    order = unroll.unroll(nodes, first["runs"])
    keys: dict[tuple, dict] = {}
    key_of: dict[str, int] = {}
    members = collections.defaultdict(list)
    for name in dict.fromkeys(node for (node, _), _ in order):
        node = nodes[name]
        read = [tensors.get(source, {}).get(slot) for source, slot in node.inputs if slot >= 0]
        inputs = [t for t in read if t is not None]
        outputs = [t for _, t in sorted(tensors.get(name, {}).items())]
        shapes, made = shape_text(inputs), shape_text(outputs)
        if (node.type, shapes, made) not in keys:
            work = describe.work(node.type, node.attributes, inputs, outputs)
            keys[node.type, shapes, made] = {
                "number": len(keys), "type": node.type, "shapes": shapes, "made": made, **work,
            }  # fmt: skip
        key_of[name] = keys[node.type, shapes, made]["number"]
        members[key_of[name]].append(name)
    for key in keys.values():
        names, key["seconds"] = members[key.pop("number")], {}
        for width, traced in traces.items():
            if took := [s for name in names for s in traced["seconds"].get(name, [])]:
                key["seconds"][str(width)] = float(f"{statistics.median(took):.4g}")
    position = {instance: i for i, (instance, _) in enumerate(order)}
    ops = [[key_of[i[0]], [position[s] for s in sources]] for i, sources in order]
    return {
        "schema": "corun-graph",
        "version": 1,
        "name": options.output.name.partition(".")[0],
        "about": options.about,
        "measured": {
            "cpu": cpu_name(),
            "tensorflow": first["tensorflow"],
            "traced_steps": options.steps,
            "date": time.strftime("%Y-%m-%d"),
            "step_seconds": {str(w): round(t["step_seconds"], 6) for w, t in traces.items()},
        },
        "keys": list(keys.values()),
        "ops": ops,
        "names": [f"{n}" if not i else f"{n}/{i}" for (n, i), _ in order],
    }


def shape_text(tensors: list) -> str:
    """As in corun's report: (float[20,200];float[800])."""
    return "(" + ";".join(t.text() for t in tensors) + ")"


def cpu_name() -> str:
    """The processor's own name."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def write(graph: dict, path: Path) -> None:
    """Compressed when the name ends in .gz; the same bytes for the same graph."""
    text = json.dumps(graph, separators=(",", ":")).encode()
    if path.suffix == ".gz":
        text = gzip.compress(text, mtime=0)
    path.write_bytes(text)


def main() -> None:
    """Traces at each width, composes, writes."""
    options = parse_arguments()
    if options.trace_at:
        options.output.write_bytes(pickle.dumps(trace(options)))
        return
    graph = compose(options, {w: trace_in_child(w) for w in options.widths})
    write(graph, options.output)
    total = sum(graph["keys"][k]["seconds"]["1"] for k, _ in graph["ops"])
    print(
        f"{options.output}: {len(graph['ops'])} ops of {len(graph['keys'])} kinds,"
        f" {1e3 * total:.1f} ms one after another"
    )


if __name__ == "__main__":
    main()

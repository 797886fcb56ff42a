#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs libcorun.so on 64 CPUs that are not there and holds the step times against the simulator's.

    run_emulated.py LIBCORUN CORUN RUNTIME FOLDER SOURCE [--graph NAME...] [--policy NAME...] [--scale X]

The op graph of a training step runs as a program of a made-up TensorFlow with as many real threads as its pool
has; each op sleeps for as long as the machine's file says it takes at its width. Times are stretched by --scale,
so that sleeping is exact enough; the simulator is given the same stretched files, and prints are in the machine's
own milliseconds. What corun would have learned it finds in its profile.
"""

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

CPUS = 64
WARM_SECONDS = 8
MOST_OFF = 0.10  # of the simulated step time


def stretch(source: Path, folder: Path, graph: str, scale: float) -> tuple[Path, Path]:
    """Machine and graph with every time `scale` times as long."""
    machine = json.loads((source / "tests/machines/emulated-64.json").read_text())
    for name, constant in machine["constants"].items():
        if name.endswith("_us"):
            constant["value"] *= scale
    with gzip.open(source / f"tests/graphs/{graph}.json.gz") as file:
        content = json.load(file)
    for key in content["keys"]:
        key["bytes"] *= scale
        key["seconds"] = {width: seconds * scale for width, seconds in key["seconds"].items()}
    content.pop("names", None)
    paths = folder / "machine.json", folder / f"{graph}.json"
    for path, value in zip(paths, (machine, content)):
        path.write_text(json.dumps(value))
    return paths


def environment(settings: dict[str, str]) -> dict[str, str]:
    """The caller's, without anything of corun's but the settings."""
    others = ("LD_PRELOAD", "LD_LIBRARY_PATH", "TF_NUM_INTEROP_THREADS")
    base = {k: v for k, v in os.environ.items() if not k.startswith(("CORUN_", "OMP_", "GOMP_")) and k not in others}
    return base | settings


def simulated(corun: Path, machine: Path, graph: Path, policy: str) -> dict:
    """What the simulator says of the same files."""
    out = subprocess.run([corun, "sim", "--machine", machine, "--graph", graph, "--policy", policy, "--model", "exact",
                          "--steps", "3", "--json", "-"], check=True, capture_output=True, text=True).stdout
    return json.loads(out)


def emulated(arguments: argparse.Namespace, machine: Path, graph: Path, policy: str,
             steps: int) -> tuple[dict, dict]:
    """One run under the preload: what the program says, and what the report says of the gate."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([arguments.folder / "emulated_profile", machine, graph, arguments.runtime, folder / "profile"],
                       check=True, env=environment({}))
        (folder / "cgroup").mkdir()
        settings = {"LD_PRELOAD": str(arguments.library), "CORUN_EMULATED_CPUS": str(CPUS), "CORUN_CPU_VIEW": "no",
                    "CORUN_CGROUP_ROOT": str(folder / "cgroup"), "CORUN_PROFILE": str(folder / "profile"),
                    "CORUN_GATE": "on", "CORUN_POLICY": policy, "CORUN_EXPLORE": "100", "CORUN_REPORT": str(folder / "report.json"),
                    "CORUN_STRICT": "yes", "OMP_WAIT_POLICY": "passive", "OMP_STACKSIZE": "64k"}
        command = [arguments.folder / "emulated_run", machine, graph, str(WARM_SECONDS), str(steps)]
        done = subprocess.run(command + (["teams"] if arguments.teams else []), env=environment(settings), check=False,
                              capture_output=True, text=True)
        if done.returncode != 0 or done.stderr:
            sys.exit(f"{policy}: exit code {done.returncode}: {done.stderr}")
        report = json.loads((folder / "report.json").read_text())
        return json.loads(done.stdout), report


def compare(arguments: argparse.Namespace, graph: str, policy: str) -> bool:
    """Prints one row; whether all of it is as it should be."""
    with tempfile.TemporaryDirectory() as name:
        files = stretch(arguments.source, Path(name), graph, arguments.scale)
        sim = simulated(arguments.corun, *files, policy)
        run, report = emulated(arguments, *files, policy, arguments.steps)
    gate = report["gate"]
    off = run["median"] / sim["seconds"] - 1.0
    milliseconds = 1e3 / arguments.scale
    wrong = []
    if abs(off) > arguments.most_off:
        wrong.append(f"more than {100 * arguments.most_off:.0f} % off")
    if gate["ops"] < 0.9 * arguments.steps * run["ops"]:
        wrong.append(f"only {gate['ops']} ops at the gate")
    if gate["opened"] or gate["differences"] or report["open_scopes"]:
        wrong.append(f"gate {gate}, {report['open_scopes']} scopes open")
    print(f"| {graph} | {policy} | {sim['seconds'] * milliseconds:.2f} | {run['median'] * milliseconds:.2f} | {100 * off:+.1f} % | "
          f"{100 * sim['utilisation']:.0f} % | {100 * run['busy']:.0f} % | {run['threads']} | {gate['waited'] / gate['ops']:.3f} | "
          f"{gate['ran_out'] / max(1, gate['waited']):.2f} |{' FAILED: ' + '; '.join(wrong) if wrong else ''}", flush=True)
    return not wrong


def main() -> None:
    """Runs what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    for name in ("library", "corun", "runtime", "folder", "source"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--graph", nargs="*", default=["dcgan", "lstm"])
    parser.add_argument("--policy", nargs="*", default=["gate-s1", "gate-s3"])
    parser.add_argument("--scale", type=float, default=100.0)
    parser.add_argument("--steps", type=int, default=11)
    parser.add_argument("--most-off", type=float, default=MOST_OFF)
    parser.add_argument("--teams", action="store_true", help="an op opens a region of OpenMP with as many threads")
    arguments = parser.parse_args()
    print("| graph | policy | simulated, ms | emulated, ms | off by | cores busy, simulated | emulated | threads | "
          "waited / op | ran out / waited |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    rows = [compare(arguments, graph, policy) for graph in arguments.graph for policy in arguments.policy]
    sys.exit(0 if all(rows) else 1)


if __name__ == "__main__":
    main()

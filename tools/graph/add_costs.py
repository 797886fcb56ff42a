#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds what `corun run` measured to a step graph: seconds by width of the ops that it knows.

    corun run --profile=run.profile -- python train.py
    python tools/graph/add_costs.py graph.json.gz run.profile -o graph.json.gz

A report in JSON will do instead of the profile; it holds the 20 ops that take most time, the
profile all. An op of the graph and one that was measured are the same when type and input
shapes are. Only solo medians count. What the graph holds at a width is replaced.
"""

import argparse
import gzip
import json
import sys
from pathlib import Path


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("graph", type=Path)
    parser.add_argument("measured", type=Path, help="a profile, or a report in JSON")
    parser.add_argument("-o", "--output", type=Path, required=True)
    return parser.parse_args()


def read(path: Path) -> dict:
    """A JSON object, compressed or not."""
    try:
        content = path.read_bytes()
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
        value = json.loads(content)
    except (OSError, EOFError, ValueError) as error:
        sys.exit(f"{path}: {error}")
    if not isinstance(value, dict):
        sys.exit(f"{path}: is no JSON object")
    return value


def from_report(report: dict) -> dict[str, dict[str, float]]:
    """Seconds by width of each "type(shapes)" of a report."""
    return {
        op["name"] + op["shapes"]: {
            str(w["width"]): 1e-6 * w["solo_us"] for w in op["widths"] if w["solo_us"]
        }
        for op in report["ops"]
    }


def from_profile(profile: dict) -> dict[str, dict[str, float]]:
    """The same of a profile."""
    return {
        op["name"].partition("/")[2]: {str(width): seconds for width, seconds, *_ in op["solo"]}
        for section in profile["sections"]
        for op in section["ops"]
    }


def measured(path: Path) -> dict[str, dict[str, float]]:
    """Seconds by width of each "type(shapes)" that the file holds."""
    content = read(path)
    if content.get("schema") == "corun-report":
        return from_report(content)
    if content.get("format") == "corun profile":
        return from_profile(content)
    sys.exit(f"{path}: is neither a report of corun in JSON nor a profile")


def main() -> None:
    """Reads both, joins, writes."""
    options = parse_arguments()
    graph = read(options.graph)
    if graph.get("schema") != "corun-graph":
        sys.exit(f"{options.graph}: is no step graph; tools/graph/export.py makes one")
    costs = measured(options.measured)
    joined = 0
    for key in graph["keys"]:
        if seconds := costs.get(key["type"] + key["shapes"]):
            key["seconds"] |= seconds
            joined += 1
    if not joined:
        sys.exit(f"{options.measured}: holds none of the ops of {options.graph}; is it of the same program?")
    text = json.dumps(graph, separators=(",", ":")).encode()
    if options.output.suffix == ".gz":
        text = gzip.compress(text, mtime=0)
    options.output.write_bytes(text)
    print(f"{options.output}: {joined} of {len(graph['keys'])} kinds of ops have measured costs now")


if __name__ == "__main__":
    main()

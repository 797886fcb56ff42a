# SPDX-License-Identifier: Apache-2.0
"""From the executed graph to what was executed: one instance a node, or one an iteration of its loop.

TensorFlow's loops are cycles Enter -> Merge -> Switch -> ... -> NextIteration -> Merge. Here
every iteration's instances stand beside one another, so that what is left is a graph of ops
without cycles. How often a node ran is taken from the trace, not guessed.
"""

import collections
import dataclasses

Instance = tuple[str, int]  # node, iteration


@dataclasses.dataclass
class Node:
    """One node of the executed graph."""

    name: str
    type: str
    inputs: list[tuple[str, int]]  # (node, output); the output is -1 for a control edge
    attributes: dict
    loop: str = ""  # "" outside of loops


def read_nodes(graphs) -> dict[str, Node]:
    """The nodes of the partition graphs by name."""
    nodes = {}
    for graph in graphs:
        for node in graph.node:
            inputs = []
            for text in node.input:
                if text.startswith("^"):
                    inputs.append((text[1:], -1))
                else:
                    source, _, output = text.partition(":")
                    inputs.append((source, int(output or 0)))
            nodes[node.name] = Node(node.name, node.op, inputs, dict(node.attr))
    return nodes


def find_loops(nodes: dict[str, Node]) -> None:
    """Notes at each node in which loop it is. Loops inside loops are refused."""
    consumers = collections.defaultdict(list)
    for node in nodes.values():
        for source, _ in node.inputs:
            consumers[source].append(node)
    pending = [n for n in nodes.values() if n.type in ("Enter", "RefEnter")]
    for node in pending:
        node.loop = node.attributes["frame_name"].s.decode()
    while pending:
        node = pending.pop()
        if node.type in ("Exit", "RefExit"):
            continue
        for consumer in consumers[node.name]:
            if consumer.loop == node.loop:
                continue
            if consumer.loop:
                raise SystemExit(f"{consumer.name}: a loop inside a loop is not supported")
            consumer.loop = node.loop
            pending.append(consumer)


def source_instance(node: Node, iteration: int, source: Node) -> Instance | None:
    """Which instance of `source` the instance (node, iteration) waits for; None for none."""
    if node.type in ("Enter", "RefEnter") or source.loop != node.loop:
        return (source.name, 0)
    if node.type == "Merge" and node.loop:
        if source.type == "NextIteration":
            return (source.name, iteration - 1) if iteration > 0 else None
        return (source.name, 0) if iteration == 0 or source.type != "Enter" else None
    if source.type in ("Enter", "RefEnter"):
        return (source.name, 0)
    return (source.name, iteration)


def unroll(nodes: dict[str, Node], runs: dict[str, int]) -> list[tuple[Instance, list[Instance]]]:
    """Instances in an order in which each comes after what it waits for, with that.

    `runs`: how often each node ran in the traced step. Nodes that did not run are left out.
    """
    find_loops(nodes)
    last = {
        node.loop: max(runs.get(node.name, 1) - 1, 0)
        for node in nodes.values()
        if node.type == "LoopCond"
    }
    instances: dict[Instance, list[Instance]] = {}
    for node in nodes.values():
        count = runs.get(node.name, 0)
        once = not node.loop or node.type in ("Enter", "RefEnter", "Exit", "RefExit")
        for iteration in range(min(count, 1) if once else count):
            # What leaves a loop comes from its last test.
            at = last.get(node.loop, 0) if node.type in ("Exit", "RefExit") else iteration
            found = []
            for name, _ in node.inputs:
                source = nodes.get(name)
                instance = source and source_instance(node, at, source)
                if instance:
                    found.append(instance)
            instances[(node.name, iteration)] = found
    for instance, found in instances.items():
        instances[instance] = sorted({f for f in found if f in instances})
    return in_order(instances)


def in_order(instances: dict[Instance, list[Instance]]) -> list[tuple[Instance, list[Instance]]]:
    """Topological order that keeps the given one where it can."""
    waiting = {instance: len(found) for instance, found in instances.items()}
    consumers = collections.defaultdict(list)
    for instance, found in instances.items():
        for source in found:
            consumers[source].append(instance)
    ready = collections.deque(i for i, count in waiting.items() if count == 0)
    order = []
    while ready:
        instance = ready.popleft()
        order.append((instance, instances[instance]))
        for consumer in consumers[instance]:
            waiting[consumer] -= 1
            if waiting[consumer] == 0:
                ready.append(consumer)
    if len(order) != len(instances):
        raise SystemExit("the graph has a cycle that is no loop: not supported")
    return order

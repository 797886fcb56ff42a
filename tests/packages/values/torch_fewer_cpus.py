# SPDX-License-Identifier: Apache-2.0
"""A program that loses all CPUs but one while it runs: how often its team's threads run from then on."""

import os
import time
from pathlib import Path

import torch


def tasks():
    return [int(name) for name in os.listdir("/proc/self/task")]


def switches():
    """Of the other threads: a team that is not called for sleeps."""
    count = 0
    for task in tasks():
        if task == os.getpid():
            continue
        for line in Path(f"/proc/self/task/{task}/status").read_text().splitlines():
            if "ctxt_switches" in line:
                count += int(line.split()[1])
    return count


def fill(tensor, times):
    for _ in range(times):
        tensor.fill_(1.0)


def main():
    torch.zeros(1_000_000).add_(1.0)  # brings the team
    small = torch.zeros(16)
    scores = torch.randn(4096, 64, requires_grad=True)
    targets = torch.zeros(4096, dtype=torch.long)
    query = torch.randn(16, 4, 48, 32)
    fill(small, 3000)
    begin = time.monotonic()
    while time.monotonic() < begin + 0.5:
        fill(small, 100)
    for task in tasks():
        os.sched_setaffinity(task, {min(os.sched_getaffinity(0))})
    begin = time.monotonic()
    while time.monotonic() < begin + 1.0:
        fill(small, 100)
    large = torch.zeros(34_000)
    fill(large, 300)  # where nothing was worth looking at so far: it is looked at now and then
    before = switches()
    # One that is short at one thread; one that holds another and opens a region as well; one that opens many.
    fill(large, 400)
    for _ in range(300):
        torch.nn.functional.nll_loss(scores, targets).backward()
        scores.grad = None
    for _ in range(50):
        torch.nn.functional.scaled_dot_product_attention(query, query, query)
    print(switches() - before)


if __name__ == "__main__":
    main()

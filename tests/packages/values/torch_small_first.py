# SPDX-License-Identifier: Apache-2.0
"""Ops that are known by their small tensors before a large one comes, and one whose own work is small beside
that of an op that it holds, and one whose team calls BLAS."""

import torch


def main():
    small, large = torch.zeros(16), torch.zeros(512, 512)
    one = torch.ones(1)
    for _ in range(300):
        for _ in range(12):
            small.add_(one)
        large.add_(one)
    scores = torch.randn(4096, 64, requires_grad=True)
    targets = torch.zeros(4096, dtype=torch.long)
    for _ in range(300):
        torch.nn.functional.nll_loss(scores, targets).backward()
        scores.grad = None
    # Products by BLAS in a region that the operator opens: on the calling thread and on its team's.
    query = torch.randn(16, 4, 48, 32)
    for _ in range(50):
        torch.nn.functional.scaled_dot_product_attention(query, query, query)
    print(large[0, 0].item(), small[0].item())


if __name__ == "__main__":
    main()

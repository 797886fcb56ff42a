# SPDX-License-Identifier: Apache-2.0
"""Operations that have gone wrong where something else chose the size of a team: whole numbers, exact answers.

    python torch_operations.py [--threads N] [--repeat N]

Those that open two teams whose sizes must agree, or make room for as many members as they were told, come with
calls of other operations between them.
"""

import argparse

import torch


def operations():
    n = 100_000
    one, index, square = torch.ones(n), torch.arange(n), torch.ones(300, 300)
    third = index % 3 == 0
    yield "sum", lambda: one.sum().item(), n
    yield "max", lambda: index.max().item(), n - 1
    yield "argmax", lambda: index.argmax().item(), n - 1
    yield "nonzero", lambda: torch.nonzero(third).sum().item(), sum(range(0, n, 3))
    yield "masked_select", lambda: one.masked_select(third).sum().item(), len(range(0, n, 3))
    yield "unique", lambda: torch.unique(index % 777).numel(), 777
    yield "unique_consecutive", lambda: torch.unique_consecutive(index // 7).numel(), (n + 6) // 7
    yield "sort", lambda: torch.equal(index.flip(0).sort().values, index), True
    yield "cumsum", lambda: index.cumsum(0)[-1].item(), n * (n - 1) // 2
    yield "bincount", lambda: torch.bincount(index % 10).sum().item(), n
    yield "index_add", lambda: torch.zeros(10).index_add_(0, index % 10, one).sum().item(), n
    yield "index_put", lambda: torch.zeros(10).index_put_((index % 10,), one, True).sum().item(), n
    yield "scatter_add", lambda: torch.zeros(10).scatter_add_(0, index % 10, one).sum().item(), n
    yield "matmul", lambda: (square @ square).sum().item(), 300**3
    yield "bmm", lambda: torch.bmm(torch.ones(8, 64, 64), torch.ones(8, 64, 64)).sum().item(), 8 * 64**3
    yield "addmm", lambda: torch.addmm(square, square, square).sum().item(), 300**3 + 300**2
    image, filters = torch.ones(4, 3, 34, 34), torch.ones(8, 3, 3, 3)
    yield "conv2d", lambda: torch.conv2d(image, filters).sum().item(), 4 * 8 * 32 * 32 * 27
    yield "max_pool2d", lambda: torch.max_pool2d(torch.ones(8, 16, 64, 64), 2).sum().item(), 8 * 16 * 32 * 32
    yield "softmax", lambda: torch.softmax(square, 1).sum().round().item(), 300
    yield "layer_norm", lambda: torch.layer_norm(square, (300,)).abs().sum().item(), 0
    bags, table = index[:6000].view(-1, 6), torch.ones(6000, 8)
    bag = torch.nn.functional.embedding_bag
    yield "embedding_bag", lambda: bag(bags, table, mode="sum").sum().item(), 48000
    weight = torch.ones(300, 300, requires_grad=True)

    def gradient():
        weight.grad = None
        (square @ weight).sum().backward()
        return weight.grad.sum().item()

    yield "gradient", gradient, 300**3


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--repeat", type=int, default=20)
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    checks = list(operations())
    wrong = {}
    for _ in range(arguments.repeat):
        for name, run, wanted in checks:
            got = run()
            if got != wanted:
                wrong[name] = f"{name}: {got} where {wanted} is right"
    print("\n".join(wrong.values()) if wrong else f"{len(checks)} operations are right")


if __name__ == "__main__":
    main()

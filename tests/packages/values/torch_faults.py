#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch programs that fail inside ops, start threads, fork, are profiled or set their own number of threads.

    python tests/packages/values/torch_faults.py > plain.txt

Each scene prints what it saw: errors, exact results of whole numbers, what torch says of its threads. Two runs
print the same bytes, so the transcript of a run under corun must equal the plain one. The exit code is 0 unless a
scene behaved in a way that it does not expect.
"""

import os
import re
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable

import torch
from torch.utils.data import DataLoader, Dataset

SIDE = 300
unexpected: list[str] = []


def say(*words) -> None:
    """One line of the transcript."""
    print(*words, flush=True)


def whole_sum() -> int:
    """A few wide ops with one right answer."""
    square = torch.ones(SIDE, SIDE)
    return int((square @ square + torch.arange(SIDE)).sum().item())


RIGHT = SIDE**3 + SIDE * SIDE * (SIDE - 1) // 2


def check(where: str) -> None:
    """Later ops are right and the number of threads is as it was."""
    found = whole_sum()
    say(f"{where}: {found}, {torch.get_num_threads()} threads")
    if found != RIGHT:
        unexpected.append(where)


def fails(name: str, action: Callable, *expected: type[BaseException]) -> None:
    """Says how an action failed, then that later ops are right."""
    try:
        action()
    except expected as error:
        line = (str(error).strip().splitlines() or [""])[0]
        say(f"{name}: {type(error).__name__}: {re.sub(r'0x[0-9a-f]{6,}', 'ADDRESS', line)}")
    else:
        say(f"{name}: NO ERROR")
        unexpected.append(name)
    check(f"  after {name}")


class RaisesInBackward(torch.autograd.Function):
    """Its gradient cannot be had."""

    @staticmethod
    def forward(context, x):
        return x * 2

    @staticmethod
    def backward(context, gradient):
        whole_sum()  # ops inside the engine's
        raise ArithmeticError("no gradient here")


def refused_ops() -> None:
    """Ops that throw: before they begin, in the members of a team, in backward, in hooks."""
    square = torch.ones(SIDE, SIDE)
    fails("shapes", lambda: square @ torch.ones(SIDE + 1, 2), RuntimeError)
    many = torch.randint(100, (100_000,), generator=torch.Generator().manual_seed(1))
    many[77_777] = 1000
    fails("index", lambda: torch.nn.functional.embedding(many, torch.ones(100, 8)), IndexError, RuntimeError)
    fails("gather", lambda: torch.ones(100).gather(0, many), RuntimeError)
    fails("too much", lambda: torch.empty(1 << 50), RuntimeError)
    fails("singular", lambda: torch.linalg.inv(torch.zeros(200, 200)), RuntimeError)
    x = torch.ones(SIDE, SIDE, requires_grad=True)
    loss = (x @ x).sum()
    loss.backward()
    fails("backward twice", loss.backward, RuntimeError)
    fails("own backward", lambda: RaisesInBackward.apply(x @ x).sum().backward(), ArithmeticError)

    def hook(_):
        raise KeyError("hook")

    y = (x @ x).relu()
    y.register_hook(hook)
    fails("hook", lambda: y.sum().backward(), KeyError)
    for _ in range(200):  # scopes that are left again and again
        try:
            square @ torch.ones(7)
        except RuntimeError:
            pass
    check("after 200 errors")


class Rows(Dataset):
    """What a worker computes: exact sums; one row can fail."""

    def __init__(self, bad: int = -1) -> None:
        self.bad = bad

    def __len__(self) -> int:
        return 12

    def __getitem__(self, i: int):
        if i == self.bad:
            raise ValueError(f"row {i}")
        return int((torch.ones(SIDE, SIDE) * i).sum().item()), torch.get_num_threads()


def loaders() -> None:
    """Forked workers after the parent has used its team."""
    whole_sum()
    for workers in (0, 2):
        loader = DataLoader(Rows(), batch_size=4, num_workers=workers)
        for values, threads in loader:
            say(f"loader with {workers}: {values.tolist()}, {threads.tolist()} threads")
    loader = DataLoader(Rows(), batch_size=4, num_workers=2, persistent_workers=True)
    say("persistent:", [sum(values.tolist()) for _ in range(2) for values, _ in loader])
    del loader
    fails("failing worker", lambda: list(DataLoader(Rows(5), batch_size=4, num_workers=2)), ValueError)


@torch.jit.script
def halves(x):
    """Two parts of a product side by side."""
    first = torch.jit.fork(torch.mm, x, x)
    second = torch.mm(x, x)
    return torch.jit.wait(first) + second


@torch.jit.script
def failing(x):
    """One part that throws on another thread."""
    first = torch.jit.fork(torch.mm, x, torch.ones(3, 3))
    return torch.jit.wait(first) + x


def futures() -> None:
    """torch.jit.fork on inter-op threads."""
    square = torch.ones(SIDE, SIDE)
    say("jit.fork:", {int(halves(square).sum().item()) for _ in range(50)})
    waiting = [torch.jit.fork(torch.mm, square, square) for _ in range(20)]
    say("eager fork:", {int(torch.jit.wait(one).sum().item()) for one in waiting})
    try:
        failing(square)
    except RuntimeError as error:
        say("failing fork:", "mat1 and mat2" in str(error))
    check("after futures")


def in_threads() -> None:
    """Forward and backward in several threads at once, some of which fail and some set their own number."""
    results: list = [None] * 6

    def work(number: int) -> None:
        if number == 5:
            torch.set_num_threads(1)
        wrong = 0
        for i in range(20):
            x = torch.ones(SIDE, SIDE, requires_grad=True)
            (x @ x).sum().backward()
            wrong += int(x.grad.sum().item()) != 2 * SIDE**3
            if number % 2 and i % 5 == 0:
                try:
                    x @ torch.ones(7, 7)
                except RuntimeError:
                    pass
        results[number] = wrong

    own = torch.get_num_threads()
    for numbers in (range(5), (5,)):
        threads = [threading.Thread(target=work, args=(n,)) for n in numbers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    say("wrong in threads:", results)
    torch.set_num_threads(own)
    check("after threads")


def own_numbers() -> None:
    """What the program sets it reads back, inside hooks and between ops; never above two here."""
    seen = []
    x = torch.ones(SIDE, SIDE, requires_grad=True)
    y = x @ x

    def hook(gradient):
        seen.append(torch.get_num_threads())
        torch.set_num_threads(1)
        return gradient

    y.register_hook(hook)
    y.sum().backward()
    seen.append(torch.get_num_threads())
    torch.set_num_threads(2)
    seen.append(torch.get_num_threads())
    say("own numbers:", seen, int(x.grad.sum().item()) == 2 * SIDE**3)


def profiled() -> None:
    """Another observer sees the same ops, as often as without us."""
    from torch.profiler import ProfilerActivity, profile

    ones = torch.ones(SIDE, SIDE)
    x = torch.ones(SIDE, SIDE, requires_grad=True)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as observed:
        for _ in range(10):
            with torch.autograd.profiler.record_function("a label"):
                # No sum over all: inside, it makes room for as many parts as it has threads.
                torch.nn.functional.linear(x, x).relu().backward(ones)
    for event in sorted(observed.key_averages(group_by_input_shape=True), key=lambda e: (e.key, str(e.input_shapes))):
        say(f"profiled: {event.key} {event.input_shapes} {event.count}")
    check("after the profiler")


class Counting(torch.utils._python_dispatch.TorchDispatchMode):
    """Sees every op from Python, inside the dispatcher."""

    def __init__(self) -> None:
        super().__init__()
        self.ops: list[str] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.ops.append(str(function))
        return function(*args, **(kwargs or {}))


def dispatched() -> None:
    """Ops that call Python, and Python that calls ops."""
    with Counting() as counting:
        check("in a dispatch mode")
    say("dispatched:", counting.ops)
    out = torch.func.vmap(torch.func.grad(lambda v: (v * v).sum()))(torch.ones(SIDE, SIDE))
    say("vmap of grad:", int(out.sum().item()))


def children() -> None:
    """fork() in the middle, exit codes, and how a program ends by a signal."""
    whole_sum()
    child = os.fork()
    if child == 0:
        torch.set_num_threads(1)
        os._exit(7 if whole_sum() == RIGHT else 8)
    say("a child:", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    work = "import os, sys, torch; x = torch.ones(300, 300); x = x @ x; "
    for name, end in {
        "exit": "sys.exit(3)",
        "raise": "torch.ones(2) @ torch.ones(3)",
        "abort": "os.abort()",
        "kill": f"os.kill(os.getpid(), {int(signal.SIGKILL)})",
        "leave": "print(int(x.sum())); sys.stdout.flush(); os._exit(4)",
        "atexit": "import atexit; atexit.register(lambda: print(int((x @ x).sum() > 0))); sys.exit(5)",
        "thread": "import threading; threading.Thread(target=lambda: print(int((x @ x).sum() > 0))).start()",
    }.items():
        done = subprocess.run([sys.executable, "-c", work + end], capture_output=True, text=True, check=False)
        last = (done.stderr.strip().splitlines() or [""])[-1]
        say(f"{name}: {done.returncode} {done.stdout.strip()} {last}")


def main() -> int:
    """All scenes."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(2)
    for scene in (refused_ops, loaders, futures, in_threads, own_numbers, profiled, dispatched, children):
        say(f"== {scene.__name__}")
        scene()
    for line in unexpected:
        say("UNEXPECTED", line)
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())

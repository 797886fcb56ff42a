# SPDX-License-Identifier: Apache-2.0
"""Many Python threads, each running torch at its default number of threads (or at one, as set by hand).

    torch_side_by_side.py [products|transformer|memory|small] [--threads 8] [--seconds S] [--hand] [--every-tenth]

Prints steps_per_second= of all threads together; team= the other threads of the process; and how many of these were found
running or ready to, sampled: team_running_mean= and team_running_p95=, with the Python threads live_mean= and live_p95=.
With --every-tenth nothing but the steps so far, ten
times a second, until it is killed.
"""

import argparse
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path

import torch


def running(tasks: list[str]) -> int:
    count = 0
    for task in tasks:
        try:
            text = Path(f"/proc/self/task/{task}/stat").read_text()
        except OSError:
            continue
        count += text.rsplit(")", 1)[1].split()[0] == "R"
    return count


def step_of(kind: str) -> Callable[[], torch.Tensor]:
    if kind == "products":
        x, w = torch.randn(192, 512), torch.randn(512, 512) / 23
        return lambda: (torch.nn.functional.gelu(x @ w) @ w).softmax(-1)
    if kind == "transformer":
        layer = torch.nn.TransformerEncoderLayer(256, 4, 512, batch_first=True)
        x = torch.randn(8, 32, 256)
        return lambda: layer(x)
    if kind == "memory":
        x = torch.randn(1_000_000)
        return lambda: (x + 1).mul_(2).sum()
    layer = torch.nn.Sequential(torch.nn.Linear(128, 256), torch.nn.ReLU(), torch.nn.Linear(256, 128))
    x = torch.randn(64, 128)
    return lambda: layer(x)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", nargs="?", default="products", choices=("products", "transformer", "memory", "small"))
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--hand", action="store_true")
    parser.add_argument("--every-tenth", action="store_true")
    args = parser.parse_args()

    if args.hand:
        torch.set_num_threads(1)
    steps = [0] * args.threads
    main = str(threading.main_thread().native_id)  # it only looks
    own: set[str] = {main}
    stop = threading.Event()

    def work(index: int) -> None:
        own.add(str(threading.get_native_id()))
        with torch.no_grad():
            step = step_of(args.kind)
            while not stop.is_set():
                step()
                steps[index] += 1

    threads = [threading.Thread(target=work, args=(i,), daemon=args.every_tenth) for i in range(args.threads)]
    for thread in threads:
        thread.start()
    while args.every_tenth:
        time.sleep(0.1)
        print(f"{time.monotonic():.6f} {sum(steps)}", flush=True)
    time.sleep(args.seconds * 0.3)
    begin, before = time.monotonic(), sum(steps)
    samples: list[int] = []
    live: list[int] = []
    while time.monotonic() < begin + args.seconds * 0.7:
        time.sleep(0.05)
        team = [task.name for task in Path("/proc/self/task").iterdir() if task.name not in own]
        samples.append(running(team))
        live.append(samples[-1] + running(list(own - {main})))
    rate = (sum(steps) - before) / (time.monotonic() - begin)
    stop.set()
    for thread in threads:
        thread.join()
    print(f"steps_per_second={rate:.2f}")
    print(f"team={len(team)}")
    print(f"team_running_mean={statistics.mean(samples):.2f}")
    print(f"team_running_p95={sorted(samples)[int(0.95 * (len(samples) - 1))]}")
    print(f"live_mean={statistics.mean(live):.2f}")
    print(f"live_p95={sorted(live)[int(0.95 * (len(live) - 1))]}")


if __name__ == "__main__":
    main()

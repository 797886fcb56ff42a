# SPDX-License-Identifier: Apache-2.0
"""Many Python threads, each running torch at its default number of threads (or at one, as set by hand).

    torch_threads.py [--threads 8] [--seconds S] [--hand]

Prints steps_per_second= of all threads together, team= the threads of the process that are not Python's, and of those the
share that were found running, sampled: team_running_mean= and team_running_p95=.
"""

import argparse
import statistics
import threading
import time
from pathlib import Path


def running(tasks: list[str]) -> int:
    count = 0
    for task in tasks:
        try:
            text = Path(f"/proc/self/task/{task}/stat").read_text()
        except OSError:
            continue
        count += text.rsplit(")", 1)[1].split()[0] == "R"
    return count


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--hand", action="store_true")
    args = parser.parse_args()
    import torch

    if args.hand:
        torch.set_num_threads(1)
    steps = [0] * args.threads
    own: set[str] = {str(threading.main_thread().native_id)}
    stop = threading.Event()

    def work(index: int) -> None:
        own.add(str(threading.get_native_id()))
        with torch.no_grad():
            x = torch.randn(192, 512)
            w = torch.randn(512, 512) / 23
            while not stop.is_set():
                y = torch.nn.functional.gelu(x @ w)
                y = (y @ w).softmax(-1)
                steps[index] += 1

    threads = [threading.Thread(target=work, args=(i,)) for i in range(args.threads)]
    for thread in threads:
        thread.start()
    time.sleep(args.seconds * 0.3)
    begin, before = time.monotonic(), sum(steps)
    samples = []
    while time.monotonic() < begin + args.seconds * 0.7:
        time.sleep(0.05)
        team = [task.name for task in Path("/proc/self/task").iterdir() if task.name not in own]
        samples.append(running(team))
    rate = (sum(steps) - before) / (time.monotonic() - begin)
    stop.set()
    for thread in threads:
        thread.join()
    print(f"steps_per_second={rate:.2f}")
    print(f"team={len(team)}")
    print(f"team_running_mean={statistics.mean(samples):.2f}")
    print(f"team_running_p95={sorted(samples)[int(0.95 * (len(samples) - 1))]}")


if __name__ == "__main__":
    main()

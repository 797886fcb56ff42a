# SPDX-License-Identifier: Apache-2.0
"""How many threads torch has inside an op: eight Python threads side by side, then one alone.

Prints, for each, the numbers that were seen inside ops after a while, and that between ops.
"""

import sys
import threading
import time
import warnings

import torch

THREADS = 8
SETTLED = 1.5  # seconds
LOOKED_AT = 0.5


def look(x: torch.Tensor) -> torch.Tensor:
    time.sleep(0.002)  # without the interpreter's lock
    thread.inside.add(torch.get_num_threads())
    return x


class Thread(threading.local):
    """What this thread has seen."""

    def __init__(self) -> None:
        self.inside: set[int] = set()


thread = Thread()


def work(inside: set[int], outside: set[int]) -> None:
    x = torch.zeros(4)
    begin = time.monotonic()
    while (now := time.monotonic() - begin) < SETTLED + LOOKED_AT:
        thread.inside = set()
        torch.special.airy_ai(x)
        if now > SETTLED:
            inside |= thread.inside
            outside.add(torch.get_num_threads())


def main() -> None:
    # In place of one of torch's own kernels: what others register is no op.
    warnings.filterwarnings("ignore", message="Warning only once for all operators")
    library = torch.library.Library("aten", "IMPL")
    library.impl("special_airy_ai", look, "CPU")
    if len(sys.argv) > 1:
        torch.set_num_threads(int(sys.argv[1]))
    for count in (THREADS, 1):
        inside: set[int] = set()
        outside: set[int] = set()
        threads = [threading.Thread(target=work, args=(inside, outside)) for _ in range(count)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        print(f"{count} at once: inside {sorted(inside)}, between ops {sorted(outside)}", flush=True)


if __name__ == "__main__":
    main()

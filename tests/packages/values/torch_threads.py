# SPDX-License-Identifier: Apache-2.0
"""What torch says of its number of threads, wherever it can be asked: one line for each place."""

import ctypes
import os
import threading
import time
from pathlib import Path

import torch

LIBRARIES = Path(torch.__file__).parent / "lib"
gomp = ctypes.CDLL(str(LIBRARIES / "libgomp.so.1"))
mkl = ctypes.CDLL(str(LIBRARIES / "libtorch_cpu.so"))


def say(where):
    print(where, torch.get_num_threads(), gomp.omp_get_max_threads(), mkl.MKL_Get_Max_Threads(), flush=True)


def tasks():
    return len(os.listdir("/proc/self/task"))


def work():
    square = torch.ones(300, 300)
    (square @ square + 1).sum().item()


def in_thread(where):
    work()  # before torch has looked at this thread
    say(where)


def main():
    say("at start")
    work()
    say("after ops")
    for number in (8, 1, 3):
        torch.set_num_threads(number)
        work()
        say(f"set to {number}")
        before = tasks()
        thread = threading.Thread(target=in_thread, args=("  another thread",))
        thread.start()
        thread.join()
        # Its team ends later. MKL's allocator has a lock that a child of fork() would wait for, plain or not.
        while tasks() > before:
            time.sleep(0.01)
    child = os.fork()
    if child == 0:
        torch.set_num_threads(1)  # as the workers of a DataLoader do
        work()
        say("a child")
        os._exit(0)
    os.waitpid(child, 0)
    gomp.omp_set_num_threads(1)
    work()
    say("the runtime's own set to 1")


if __name__ == "__main__":
    main()

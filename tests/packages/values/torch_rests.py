# SPDX-License-Identifier: Apache-2.0
"""One operator again and again, until corun stands down (40 s at most), and for four seconds more: how many there were before
and after that."""

import os
import sys
import time
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).resolve().parents[2] / "victims"))
from control_page import ControlPage  # noqa: E402


def run(x: torch.Tensor, seconds: float) -> int:
    count = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(10):
            torch.mm(x, x)
            count += 1
    return count


def main() -> None:
    x = torch.randn(256, 256) / 256
    before = run(x, 0.2)
    page = ControlPage(os.getpid())
    end = time.monotonic() + 40
    while page.status().get("state") != "stood down" and time.monotonic() < end:
        before += run(x, 0.2)
    print(before, run(x, 4.0))


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""The file in which programs meet (shim/node_segment.h), as another program sees it or makes it up."""

import os
import struct
from pathlib import Path

SIZE = 512
MAGIC = 0x65646F6E6E757263
HEADER = struct.Struct("<QII48s448x")
# check, nonce, beat, pid_space, start_time, group; pid, most; quota, weight, patience, share, use, ops, gain, unused;
# gains; state, arm, program; CPUs; unused
SLOT = struct.Struct("<6Q2i8f11f12s24s64s128s152x")
assert HEADER.size == SIZE and SLOT.size == SIZE
MASK = (1 << 64) - 1


def check(content: bytes) -> int:
    """Of a slot, as node_check()."""
    value = 0xCBF29CE484222325
    for (word,) in struct.iter_unpack("<Q", content[8:]):
        value = (value ^ word) * 0x9E3779B97F4A7C15 & MASK
        value ^= value >> 29
    return value


def header(version: int = 1, slot_bytes: int = SIZE, boot: str | None = None) -> bytes:
    if boot is None:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
    return HEADER.pack(MAGIC, version, slot_bytes, boot.encode())


def slot(nonce: int, *, beat: int = 1, pid: int = 1, pid_space: int = 0, start_time: int = 1, most: int = 2,
         weight: float = 1.0, gains: tuple[float, ...] = (0.0,) * 11, program: bytes = b"made up") -> bytes:
    """Of a process that may run anywhere."""
    content = SLOT.pack(0, nonce, beat, pid_space, start_time, 0, pid, most, 0.0, weight, 0.4, 1.0, 1.0, 100.0, 0.0, 0.0,
                        *gains, b"guard", b"s1", program, b"\xff" * 128)
    return struct.pack("<Q", check(content)) + content[8:]


def path_in(folder: str | Path) -> Path:
    return Path(folder) / f"corun-node-{os.geteuid()}"


def held(folder: str | Path) -> list[int]:
    """The pids in the slots that hold somebody."""
    try:
        content = path_in(folder).read_bytes()[SIZE:]
    except FileNotFoundError:
        return []
    pids = []
    for at in range(0, len(content) - SIZE + 1, SIZE):
        one = content[at:at + SIZE]
        fields = SLOT.unpack(one)
        if fields[1] != 0 and fields[0] == check(one):
            pids.append(fields[6])
    return pids

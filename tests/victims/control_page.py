# SPDX-License-Identifier: Apache-2.0
"""The control page of a process (shim/control_page.h), as another process or the program itself sees it."""

import json
import mmap
import os
import struct
import time

COMMANDS = {"on": 0, "off": 1}
MAGIC = 0x6C7274636E757263
COMMAND, OBEYED, SEQUENCE, STATUS = 24, 28, 32, 36
STATUS_SIZE = 3900


class ControlPage:
    """Mapped while it is open. Raises FileNotFoundError when the process has none."""

    def __init__(self, pid: int) -> None:
        descriptor = os.open(f"/dev/shm/corun-{os.geteuid()}-{pid}-{os.stat('/proc/self/ns/pid').st_ino}", os.O_RDWR)
        try:
            self._page = mmap.mmap(descriptor, 4096)
        finally:
            os.close(descriptor)
        magic, version, owner = struct.unpack_from("=QIi", self._page, 0)
        if (magic, version, owner) != (MAGIC, 1, pid):
            raise ValueError(f"not the control page of {pid}")

    def __enter__(self) -> "ControlPage":
        return self

    def __exit__(self, *_: object) -> None:
        self._page.close()

    def command(self, name: str) -> None:
        """Asks for `on` or `off`."""
        struct.pack_into("=I", self._page, COMMAND, COMMANDS[name])

    def obeyed(self, name: str) -> bool:
        return struct.unpack_from("=I", self._page, OBEYED)[0] == COMMANDS[name]

    def wait_obeyed(self, name: str, seconds: float) -> bool:
        """True as soon as the command has taken effect."""
        deadline = time.monotonic() + seconds
        while not self.obeyed(name):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.001)
        return True

    def status(self) -> dict:
        """The latest whole status text; empty when there is none yet."""
        for _ in range(100):
            before = struct.unpack_from("=I", self._page, SEQUENCE)[0]
            text = bytes(self._page[STATUS:STATUS + STATUS_SIZE])
            if before % 2 == 0 and struct.unpack_from("=I", self._page, SEQUENCE)[0] == before:
                return json.loads(text.split(b"\0", 1)[0].decode() or "{}")
            time.sleep(0.001)
        return {}

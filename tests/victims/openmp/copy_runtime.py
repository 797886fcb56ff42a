#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Copies an ELF file with another name in it, as the makers of wheels do: copy_runtime.py IN OUT OLD NEW.

Both names are equally long, so that nothing else changes.
"""

import sys
from pathlib import Path

source, target, old, new = sys.argv[1:]
if len(old) != len(new):
    sys.exit("the names differ in length")
content = Path(source).read_bytes()
if old.encode() not in content:
    sys.exit(f"{source} does not name {old}")
Path(target).write_bytes(content.replace(old.encode(), new.encode()))
Path(target).chmod(0o755)

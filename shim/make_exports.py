#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints a linker version script that exports just the symbols of the given lists.

    make_exports.py [--adaptive] LIST...

A list whose name ends with NEEDED is of no hooks; one with ADAPTIVE is taken with --adaptive only.
"""

import re
import sys

paths = sys.argv[1:]
adaptive = paths[:1] == ["--adaptive"]
symbols = []
for path in paths[adaptive:]:
    with open(path, encoding="utf-8") as source:
        for part in source.read().split("#define ")[1:]:
            name = part.split("(", 1)[0]
            if not name.endswith("_NEEDED") and (adaptive or "_ADAPTIVE_" not in name):
                symbols += re.findall(r'X\(\w+,[\s\\]*"([^"]+)"', part)
if not symbols:
    sys.exit("no hooked symbols found")
print("{\n  global:\n" + "".join(f"    {symbol};\n" for symbol in symbols) + "  local: *;\n};")

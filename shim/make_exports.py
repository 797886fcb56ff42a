#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints a linker version script that exports just the HOOKED symbols of the given lists."""

import re
import sys

symbols = []
for path in sys.argv[1:]:
    with open(path, encoding="utf-8") as source:
        for part in source.read().split("_HOOKED(X)")[1:]:
            symbols += re.findall(r'X\(\w+,\s*"([^"]+)"', part.split("#define", 1)[0])
if not symbols:
    sys.exit("no hooked symbols found")
print("{\n  global:\n" + "".join(f"    {symbol};\n" for symbol in symbols) + "  local: *;\n};")

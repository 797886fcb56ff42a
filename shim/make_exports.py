#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints a linker version script that exports just the symbols of the given lists, but those only NEEDED."""

import re
import sys

symbols = []
for path in sys.argv[1:]:
    with open(path, encoding="utf-8") as source:
        for part in source.read().split("#define ")[1:]:
            if "_NEEDED(X)" not in part.split("\n", 1)[0]:
                symbols += re.findall(r'X\(\w+,[\s\\]*"([^"]+)"', part)
if not symbols:
    sys.exit("no hooked symbols found")
print("{\n  global:\n" + "".join(f"    {symbol};\n" for symbol in symbols) + "  local: *;\n};")

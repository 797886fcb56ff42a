#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints a linker version script that exports just the symbols of the given lists.

    make_exports.py [--adaptive] LIST...

A list whose name ends with NEEDED is of no hooks; one with ADAPTIVE is taken with --adaptive only. Lists of
BLAS and LAPACK routines are told by their names; each routine has all the names that the file gives it.
"""

import re
import sys



def blas_names(text):
    """What blas.cc makes of the lists of routines and of names."""
    lists = {part.split("(", 1)[0]: part for part in text.split("#define ")[1:]}
    for name, part in lists.items():
        if not name.endswith("_ROUTINES"):
            continue
        types = "sd" if "_REAL_" in name else "cz" if "_COMPLEX_" in name else "sdcz"
        ways = ["CORUN_FORTRAN_NAMES"] + ["CORUN_CBLAS_NAMES"] * ("_BLAS_" in name)
        for way in ways:
            for before, after in re.findall(r'N\(\w+, "(\w*)", "(\w*)",', lists[way]):
                for routine in re.findall(r"X\((\w+),", part):
                    yield from (before + letter + routine + after for letter in types)


paths = sys.argv[1:]
adaptive = paths[:1] == ["--adaptive"]
symbols = []
for path in paths[adaptive:]:
    with open(path, encoding="utf-8") as source:
        text = source.read()
    symbols += blas_names(text)
    for part in text.split("#define ")[1:]:
        name = part.split("(", 1)[0]
        if not name.endswith("_NEEDED") and (adaptive or "_ADAPTIVE_" not in name):
            symbols += re.findall(r'X\(\w+,[\s\\]*"([^"]+)"', part)
if not symbols:
    sys.exit("no hooked symbols found")
print("{\n  global:\n" + "".join(f"    {symbol};\n" for symbol in symbols) + "  local: *;\n};")

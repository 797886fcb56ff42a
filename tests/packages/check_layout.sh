#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_layout.sh SOURCE PYTHON: compiles the layout assertions against the headers of the wheel and runs them.
set -euo pipefail
source=$1 python=$2
"$python" -c 'import importlib.util as u; assert u.find_spec("tensorflow")' 2>/dev/null || { echo "no TensorFlow: run tools/setup"; exit 77; }
include=$("$python" -c 'import importlib.util as u; print(u.find_spec("tensorflow").submodule_search_locations[0] + "/include")')
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
# The ABI flag is that of the wheel.
g++ -std=c++17 -O1 -w -fno-access-control -ffunction-sections -I"$include" -D_GLIBCXX_USE_CXX11_ABI=1 \
    -DEIGEN_MAX_ALIGN_BYTES=64 -Wl,--gc-sections "$source" -o "$folder/check_layout"
"$folder/check_layout"

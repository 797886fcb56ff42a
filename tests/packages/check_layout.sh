#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_layout.sh SOURCE PYTHON PACKAGE: compiles the layout assertions against the headers of the wheel and runs them.
set -euo pipefail
source=$1 python=$2 package=$3
include=$("$python" -c 'import importlib.util as u, sys; print(u.find_spec(sys.argv[1]).submodule_search_locations[0] + "/include")' \
  "$package" 2>/dev/null) || { echo "no $package: run tools/setup"; exit 77; }
root=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
# The ABI flag is that of the wheel.
g++ -std=c++20 -O1 -w -DNDEBUG -fno-access-control -ffunction-sections -I"$include" -I"$root" -D_GLIBCXX_USE_CXX11_ABI=1 \
    -DEIGEN_MAX_ALIGN_BYTES=64 -Wl,--gc-sections "$source" -o "$folder/check_layout"
"$folder/check_layout"

#!/bin/sh
# One GPU, under 8 minutes: the tests marked gpu where pytest is installed, then every path, graphs and times.
set -eu
cd "$(dirname "$0")/.."
out="${1:-reports}"
status=0
if python3 -c "import pytest" 2>/dev/null; then
    timeout 240 python3 -m pytest -q -m gpu property_tests/test_triton.py property_tests/test_graphs_gpu.py || status=1
fi
timeout 200 python3 -m experiments.gpu_check --out "$out" || status=1
exit "$status"

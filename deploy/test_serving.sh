#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test_serving.sh PYTHON: build the wheel, install it for PYTHON (3.11 or later) with the client's and the server's extras, and run
# their tests with it, away from the checkout. Everything is made anew in build/serving.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1
place=$PWD/build/serving
rm -rf "$place"
mkdir -p "$place/tree"
"$python" -m venv "$place/venv"
"$place/venv/bin/python" -m pip wheel --quiet --no-deps --wheel-dir "$place" .
wheel=$(echo "$place"/hypersonic-*.whl)
echo "installing $(basename "$wheel") for $("$python" --version) ..."
"$place/venv/bin/python" -m pip install --quiet --upgrade pip # its option --group is of 2025
"$place/venv/bin/python" -m pip install --quiet "hypersonic[server,onnxruntime,jwt,trace,columnar] @ file://$wheel" \
  --group pyproject.toml:serving-tests
# The tests find the package in the environment: in the tree it has no folder of its name.
git ls-files -z --cached --others --exclude-standard | grep -zv '^hypersonic/' | xargs -0 cp --parents --no-dereference -t "$place/tree"
cd "$place/tree"
# test_base_install.py builds the package itself, from a checkout.
exec "$place/venv/bin/python" -m pytest tests/client tests/server --ignore=tests/client/test_base_install.py

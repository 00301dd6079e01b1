#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# wheel.sh PYTHON [DIRECTORY]: build the source distribution and the wheel into DIRECTORY (build/dist), and check them with twine.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1
out=${2:-build/dist}
tools=build/wheel-tools
"$python" -m venv "$tools"
"$tools/bin/python" -m pip install --quiet --disable-pip-version-check 'build>=1.2' 'twine>=6'
rm -rf "$out"
"$tools/bin/python" -m build --outdir "$out" .
"$tools/bin/python" -m twine check --strict "$out"/*

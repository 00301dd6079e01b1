#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools.sh run|test VENV: check that this machine has what `make run` or `make test` cannot do without.
#
# test: also git, which tests ask for the project's files, and the shared library of VENV's Python, which cocotb loads into the
# simulator; a Python that uv fetches has it. What is missing is named in one sentence with the line that installs it; the exit
# code is then 2.
set -uo pipefail

command=$1
here=$(dirname "${BASH_SOURCE[0]}")
missing=()

packages() { sed -n "s/^$1: //p" "$here/debian-packages.txt"; }

for tool in g++ make perl $([ "$command" = test ] && echo git); do
  command -v "$tool" >/dev/null || missing+=("$tool")
done
python=$([ "$command" = run ] || bash "$here/environment.sh" "$2" --which)
if "$python" -c "" &>/dev/null; then
  library=$("$python" "$here/shared_library.py") || missing+=("$library")
fi
[ "${#missing[@]}" -gt 0 ] || exit 0
line=$(packages run)
[ "$command" = run ] || line="$line $(packages test)"
named=$(printf '%s, ' "${missing[@]}")
echo "make $command needs ${named%, }, which this machine does not have; on Debian: apt-get install $line" >&2
exit 2

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# environment.sh VENV UV: make the virtual environment VENV, with only the package UV (such as uv==0.13.8) in it.
# environment.sh VENV --which: print the Python that VENV has or would get; nothing if uv would have to find or fetch one.
#
# Its Python is $PYTHON if that is set; otherwise the first of 3.11, 3.12 and 3.13 on PATH; without any of these, a 3.11 that uv
# finds or fetches. uv is the one on PATH, or is installed beside VENV while this runs. If this fails, the exit code is 2, the
# message says what to do, and there is no VENV.
set -uo pipefail
shopt -s extglob

venv=$1 locked=$2 tools=$1.uv log=$1.log
supported=(3.11 3.12 3.13) # TensorFlow has no wheels for later ones
made="" # VENV, once this run has begun to make it: an earlier VENV is not removed
tried=()

fail() {
  printf '%s\n' "$@" >&2
  exit 2
}

# Remove unfinished files.
end() {
  [ "$1" = 0 ] || rm -rf ${made:+"$made"}
  rm -rf "$tools" "$log"
}

# Print why a command failed, from the log: its first error and the last cause, or its first line.
reason() {
  local said
  mapfile -t said < <(grep -iE '^ *(error|cause)|no module' "$log" || sed 1q "$log")
  case ${#said[@]} in
    0) echo "it printed nothing" ;;
    1) echo "${said[0]}" ;;
    *) echo "${said[0]}; ${said[-1]##+( )}" ;;
  esac
}

# Print an interpreter's version, such as "3.11"; nothing if it does not run, like pyenv's shims of versions that are not selected.
version() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }

is_supported() { [[ " ${supported[*]} " = *" $1 "* ]]; }

# True if VENV exists, with a Python that runs and with uv or pip.
usable() {
  is_supported "$(version "$venv/bin/python")" &&
    { "$venv/bin/uv" --version || "$venv/bin/python" -m pip --version; }
} &>/dev/null

# Print the path of the first supported Python on PATH; nothing if there is none.
on_path() {
  local wanted python
  for wanted in "${supported[@]}"; do
    for python in "python$wanted" python3 python; do
      [ "$(version "$python")" = "$wanted" ] && { command -v "$python"; return; }
    done
  done
}

# Sets $uv. Debian's python3 may lack venv, pip or both, and its pip refuses to install into the system but not into a directory.
get_uv() {
  local python
  for python in python3 python; do
    [ -n "$(version "$python")" ] || continue
    rm -rf "$tools"
    "$python" -m venv "$tools" && "$tools/bin/python" -m pip install --quiet --disable-pip-version-check --retries 1 "$locked" ||
      { rm -rf "$tools"; "$python" -m pip install --quiet --disable-pip-version-check --retries 1 --target "$tools" "$locked"; } || {
      tried+=("uv by $python -m venv and -m pip: $(reason)")
      continue
    }
    uv=$tools/bin/uv
    return 0
  done
  [ "${#tried[@]}" -gt 0 ] || tried+=("uv: there is none on PATH, and no python3 to install it with")
  return 1
} &>>"$log"

# Make VENV for the interpreter or version $1, with uv.
by_uv() {
  if uv=$(command -v uv); then
    "$uv" venv --quiet --seed --python "$1" "$venv" &>"$log" && return
    tried+=("$uv ($("$uv" --version 2>/dev/null)): $(reason)")
    "$uv" python install --help &>/dev/null && return 1 # otherwise this uv is too old to fetch a Python
  fi
  get_uv && { "$uv" venv --quiet --seed --python "$1" "$venv" &>"$log" || { tried+=("$locked: $(reason)"); false; }; }
}

from() {
  "$1" -m venv "$venv" &>"$log" && return
  rm -rf "$venv"
  tried=("$1 -m venv: $(reason)")
  by_uv "$1" || fail "$1 cannot make a virtual environment. Tried:" "${tried[@]/#/  }" \
    "Install what is missing (on Debian: apt-get install python3-venv), or uv."
}

fetched() {
  echo "Python 3.11, 3.12 or 3.13 is not on PATH: uv finds or fetches one ..."
  by_uv 3.11 && return
  fail "Python 3.11, 3.12 or 3.13 is needed. None is on PATH (python3 there: $(version python3 || echo none)), and none could be fetched. Tried:" \
    "${tried[@]/#/  }" \
    "Do one of these and run it again:" \
    "  install one (on Debian 12 or 13: apt-get install python3-venv), and name it if it is not on PATH: make dev PYTHON=/path/to/python3.13;" \
    "  connect this machine to the network, from which uv fetches one." \
    "A later Python, for which TensorFlow has no wheel, runs the client and the server: pip install '.[server]'"
}

make_venv() {
  local python=${PYTHON:-$(on_path)} found
  [ -n "$python" ] || { fetched; return; }
  found=$(version "$python")
  [ -n "$found" ] || fail "PYTHON=$python does not run, expected an interpreter of Python 3.11, 3.12 or 3.13"
  is_supported "$found" || fail "PYTHON=$python is Python $found, expected 3.11, 3.12 or 3.13, for which all locked packages have wheels." \
    "Client and server run on 3.14, too: pip install '.[server]'"
  from "$python"
}

# Install uv into VENV, with the pip or uv that is available, unless VENV has this version.
install_uv() {
  local python=$venv/bin/python
  [[ "$("$venv/bin/uv" --version 2>/dev/null)" = "${locked/==/ }"* ]] && return
  if "$python" -m pip --version &>/dev/null; then
    "$python" -m pip install --quiet --disable-pip-version-check --force-reinstall "$locked" &>"$log" && return
  else
    uv=${uv:-$(command -v "$venv/bin/uv" || command -v uv)} || get_uv || fail "${tried[@]}"
    "$uv" pip install --quiet --reinstall --python "$python" "$locked" &>"$log" && return
  fi
  fail "$locked cannot be installed into $venv: $(reason)" "Is this machine connected? Then try again."
}

if [ "$locked" = --which ]; then
  if usable; then echo "$venv/bin/python"; else echo "${PYTHON:-$(on_path)}"; fi
  exit
fi
trap 'end $?' EXIT
trap 'exit 130' HUP INT TERM
usable || { rm -rf "$venv" && made=$venv && make_venv; }
install_uv

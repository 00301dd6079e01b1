#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check.sh CHART: ends with code 1 and a message if values.yaml is not for that version of SuperSONIC's chart, a folder with Chart.yaml.
set -eu
needed=0.3.1
chart=${1:?expected the folder of the chart: helm pull fastml/supersonic --version $needed --untar}
[ -f "$chart/Chart.yaml" ] || { echo "$chart has no Chart.yaml: expected the folder of SuperSONIC's chart" >&2; exit 1; }
name=$(sed -n 's/^name: *//p' "$chart/Chart.yaml")
version=$(sed -n 's/^version: *"\{0,1\}\([0-9.]*\).*/\1/p' "$chart/Chart.yaml")
[ "$name" = supersonic ] || { echo "$chart is the chart '$name', expected supersonic" >&2; exit 1; }
if [ "$(printf '%s\n' "$needed" "$version" | sort -V | head -n 1)" != "$needed" ]; then
  echo "$chart is version '$version' of SuperSONIC's chart, expected $needed or newer: helm pull fastml/supersonic --version $needed --untar" >&2
  exit 1
fi

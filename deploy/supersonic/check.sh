#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check.sh CHART: ends with code 1 and a message if values.yaml is not for that version of SuperSONIC's chart, a folder with Chart.yaml.
set -eu
needed=0.3.1
pull="helm pull fastml/supersonic --version $needed --untar"
usage="usage: check.sh CHART
CHART is the folder of SuperSONIC's chart: $pull"
case "${1-}" in -h | --help) echo "$usage"; exit ;; esac
if [ $# -ne 1 ] || [ -z "$1" ]; then
  echo "$usage" >&2
  exit 2
fi
chart=$1
[ -f "$chart/Chart.yaml" ] || { echo "$chart has no Chart.yaml: expected the folder of SuperSONIC's chart" >&2; exit 1; }
name=$(sed -n 's/^name: *//p' "$chart/Chart.yaml")
version=$(sed -n 's/^version: *"\{0,1\}\([0-9.]*\).*/\1/p' "$chart/Chart.yaml")
[ "$name" = supersonic ] || { echo "$chart is the chart '$name', expected supersonic" >&2; exit 1; }
if [ "$(printf '%s\n' "$needed" "$version" | sort -V | head -n 1)" != "$needed" ]; then
  echo "$chart is version '$version' of SuperSONIC's chart, expected $needed or newer: $pull" >&2
  exit 1
fi

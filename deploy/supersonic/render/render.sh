#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Helm's post-renderer: reads the objects of SuperSONIC's chart and prints them with what its values cannot say (kustomization.yaml).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/chart.yaml"
release=$(sed -n 's/^ *app\.kubernetes\.io\/instance: *//p' "$work/chart.yaml" | head -n 1)
if [ -z "$release" ]; then
  echo "render.sh: no object has the label app.kubernetes.io/instance, expected those of SuperSONIC's chart on standard input" >&2
  exit 1
fi
for file in kustomization.yaml additions.yaml; do
  sed "s/RELEASE/$release/g" "$here/$file" >"$work/$file"
done
"${KUBECTL:-kubectl}" kustomize "$work"

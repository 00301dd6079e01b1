#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# start.sh CONFIG [OPTION..]: check Envoy's version, run it with CONFIG, and drain it on SIGTERM or SIGINT.
#
# Envoy itself ends at once on SIGTERM. Here it first tells clients to go elsewhere (GOAWAY) and answers what it has, for
# $DRAIN_SECONDS (20). $ENVOY is the program (envoy). $ADMIN_ADDRESS is the address under `admin:` in CONFIG (127.0.0.1:9901).
set -uo pipefail

envoy=${ENVOY:-envoy} admin=${ADMIN_ADDRESS:-127.0.0.1:9901} drain_s=${DRAIN_SECONDS:-20}
oldest=1.36 # request_body_buffer_limit

fail() {
  printf 'start.sh: %s\n' "$@" >&2
  exit 2
}

[ $# -gt 0 ] || fail "no configuration given; run: start.sh /etc/envoy/envoy.yaml"
config=$1
shift
[ -r "$config" ] || fail "the configuration $config cannot be read"
version=$("$envoy" --version 2>/dev/null | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | head -n 1)
[ -n "$version" ] || fail "$envoy --version gives no version; set ENVOY to the path of Envoy $oldest or newer"
if [ "$(printf '%s\n' "$oldest" "$version" | sort -V | head -n 1)" != "$oldest" ]; then
  fail "$envoy is Envoy $version, but $config needs $oldest or newer: before, a request above the HTTP/2 window is never retried. Install a newer Envoy"
fi

"$envoy" -c "$config" --drain-time-s "$drain_s" --drain-strategy immediate --disable-hot-restart "$@" &
child=$!

drain() {
  trap '' TERM INT
  if [[ $(ask POST '/drain_listeners?graceful&skip_exit') == 'HTTP/1.1 200'* ]]; then
    for ((second = 0; second < drain_s; second++)); do
      sleep 1
      busy=$(active) && [ "$busy" = 0 ] && break
    done
  else
    printf "start.sh: Envoy's admin interface does not answer at %s: requests in flight are lost. %s\n" "$admin" \
      "Set ADMIN_ADDRESS to the address under \`admin:\` in $config" >&2
  fi
  kill -TERM "$child"
}

# Print the number of requests in flight.
active() {
  ask GET '/stats?filter=^http.grpc.downstream_rq_active$' | grep -oE 'downstream_rq_active: [0-9]+' | grep -oE '[0-9]+$'
}

# Send a request (METHOD PATH) to the admin interface and print the answer with its headers.
ask() {
  { exec 3<>"/dev/tcp/${admin%:*}/${admin##*:}"; } 2>/dev/null || return
  printf '%s %s HTTP/1.1\r\nHost: admin\r\nContent-Length: 0\r\nConnection: close\r\n\r\n' "$1" "$2" >&3
  timeout -s KILL 5 cat <&3 # TERM is ignored here
}

trap drain TERM INT
while kill -0 "$child" 2>/dev/null; do
  wait "$child"
  code=$?
done
exit "$code"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# start.sh CONFIG [OPTION..]: check Envoy's version, run it with CONFIG, and drain it on SIGTERM or SIGINT.
#
# Envoy itself ends at once on SIGTERM. Here it first tells clients to go elsewhere (GOAWAY) and answers what it has, for
# $DRAIN_SECONDS (20). $ENVOY is the program (envoy), $ADMIN_ADDRESS its admin interface (127.0.0.1:9901).
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
  if exec 3<>"/dev/tcp/${admin%:*}/${admin##*:}"; then
    printf 'POST /drain_listeners?graceful&skip_exit HTTP/1.1\r\nHost: admin\r\nContent-Length: 0\r\nConnection: close\r\n\r\n' >&3
    cat <&3 >/dev/null
    for ((second = 0; second < drain_s; second++)); do
      sleep 1
      busy=$(active) && [ "$busy" = 0 ] && break
    done
  fi 2>/dev/null
  kill -TERM "$child"
}

# Print the number of requests in flight.
active() {
  exec 4<>"/dev/tcp/${admin%:*}/${admin##*:}" || return 1
  printf 'GET /stats?filter=^http.grpc.downstream_rq_active$ HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n' >&4
  grep -oE 'downstream_rq_active: [0-9]+' <&4 | grep -oE '[0-9]+$'
}

trap drain TERM INT
while kill -0 "$child" 2>/dev/null; do
  wait "$child"
  code=$?
done
exit "$code"

#!/usr/bin/env bash
# A signal to a demo that has a directory of its own leaves nothing of it behind.
set -euo pipefail

dir=$(mktemp -d)
pid=
cleanup() {
    if [[ -n $pid ]]; then
        kill -9 "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    fi
    rm -rf "$dir"
}
trap cleanup EXIT

fail() {
    echo "$*" >&2
    cat "$dir/log" >&2 || true
    exit 1
}

# ended NUMBER SIGNAL DEMO ARGUMENT...: is ended by the signal while it takes checkpoints, and tidies up.
ended() {
    local number=$1 signal=$2 code=0
    shift 2
    mkdir -p "$dir/own"
    "$TIDEGATE" demo "$@" --dir "$dir/own" >"$dir/log" 2>&1 &
    pid=$!
    local limit=$((SECONDS + 30))
    until find "$dir/own" -name '_metadata' 2>/dev/null | grep -q .; do
        ((SECONDS < limit)) || fail "demo $*: there is no checkpoint"
        sleep 0.05
    done
    kill -"$signal" "$pid"
    wait "$pid" || code=$?
    pid=
    ((code == 128 + number)) || fail "demo $*: $signal ended it with $code"
    [[ -z $(ls -A "$dir/own") ]] || fail "demo $*: left behind: $(find "$dir/own")"
}

# Checkpoints one after the other, so that one is being written when the signal comes.
for n in 1 2 3 4 5 6; do
    ended 15 TERM backpressure --interval 10ms --work 0ms --parallelism 8 --checkpoints 1000 --in-flight fixed:10 \
        --keys 10000
done
ended 2 INT interval --intervals 20ms,10s
echo "demos that are ended by a signal leave no directory behind"

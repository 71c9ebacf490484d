#!/usr/bin/env bash
# A signal to a demo that has a directory of its own leaves nothing of it behind.
set -euo pipefail

# shellcheck source=scripts/test.d/common.bash
source "$(dirname "${BASH_SOURCE[0]}")/common.bash"

has_checkpoint() { find "$dir/own" -name '_metadata' 2>/dev/null | grep -q .; }

# ended NUMBER SIGNAL DEMO ARGUMENT...: is ended by the signal while it takes checkpoints, and tidies up.
ended() {
    local number=$1 signal=$2 code=0
    shift 2
    mkdir -p "$dir/own"
    "$TIDEGATE" demo "$@" --dir "$dir/own" >"$dir/log" 2>&1 &
    pid=$!
    eventually 30 has_checkpoint
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

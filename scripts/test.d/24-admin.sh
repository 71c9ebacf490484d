#!/usr/bin/env bash
# A running job is asked for a savepoint, stopped, restored from the savepoint, and cancelled, through its REST interface.
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
    cat "$dir"/*.log >&2 || true
    exit 1
}

for n in $(seq 20000); do echo "a b$n"; done >"$dir/text"

# start LOG ARGUMENT...: starts the job and learns where its REST interface is.
start() {
    local log=$1
    shift
    "$TIDEGATE" demo wordcount --input "$dir/text" --output "$dir/out" --checkpoint-dir "$dir/c" --rate 1000 --rest 0 \
        "$@" >"$log" 2>&1 &
    pid=$!
    local limit=$((SECONDS + 20))
    until rest=$(grep -o 'http://[^/]*' "$log"); do
        ((SECONDS < limit)) || fail "REST isn't up"
        sleep 0.05
    done
}

# A job that has just begun refuses; it says so and can be asked again.
eventually() {
    local limit=$((SECONDS + 20))
    until "$@" >"$dir/said" 2>"$dir/admin.log"; do
        ((SECONDS < limit)) || fail "in vain: $*"
        sleep 0.1
    done
}

start "$dir/first.log"
eventually "$TIDEGATE" savepoint --rest "$rest" --target "$dir/savepoints"
savepoint=$(sed -n 's/^savepoint of `wordcount`: //p' "$dir/said")
"$TIDEGATE" checkpoint verify "$savepoint" | grep -q "is fine" || fail "the savepoint isn't right"
"$TIDEGATE" stop --rest "$rest" --job wordcount >"$dir/said" 2>"$dir/admin.log" || true
code=0
wait "$pid" || code=$?
pid=
((code == 0)) || fail "stopping ended the job with $code"
grep -q "^suspended in checkpoint" "$dir/first.log" || fail "it doesn't say that it was suspended"

start "$dir/second.log" --restore "$savepoint" --new-lineage
eventually "$TIDEGATE" cancel --rest "$rest"
code=0
wait "$pid" || code=$?
pid=
((code == 0)) || fail "cancelling ended the job with $code"
grep -q "^cancelled" "$dir/second.log" || fail "it doesn't say that it was cancelled"
echo "savepoint taken, job suspended, restored from the savepoint, cancelled"

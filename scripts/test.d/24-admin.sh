#!/usr/bin/env bash
# A running job is asked for a savepoint, stopped, restored from the savepoint, and cancelled, through its REST interface.
set -euo pipefail

# shellcheck source=scripts/test.d/common.bash
source "$(dirname "${BASH_SOURCE[0]}")/common.bash"

for n in $(seq 20000); do echo "a b$n"; done >"$dir/text"

# start LOG ARGUMENT...: starts the job and learns where its REST interface is.
start() {
    local log=$1
    shift
    "$TIDEGATE" demo wordcount --input "$dir/text" --output "$dir/out" --checkpoint-dir "$dir/c" --rate 1000 --rest 0 \
        "$@" >"$log" 2>&1 &
    pid=$!
    eventually 20 grep -sq 'http://' "$log"
    rest=$(grep -o 'http://[^/]*' "$log")
}

# The interface is there before the job is: until then nobody can be asked.
ask() { "$TIDEGATE" "$@" >"$dir/said" 2>"$dir/admin.log"; }

start "$dir/first.log"
eventually 20 ask savepoint --rest "$rest" --target "$dir/savepoints"
savepoint=$(sed -n 's/^savepoint of `wordcount`: //p' "$dir/said")
"$TIDEGATE" checkpoint verify "$savepoint" | grep -q "is fine" || fail "the savepoint isn't right"

# stopped SAID LOG TEXT ARGUMENT...: stop succeeds and its output has SAID in it, the job's own has TEXT.
stopped() {
    local said=$1 log=$2 text=$3 code=0
    shift 3
    "$TIDEGATE" stop --rest "$rest" "$@" >"$dir/said" 2>"$dir/admin.log" || fail "stop $*: failed"
    wait "$pid" || code=$?
    pid=
    ((code == 0)) || fail "stop $* ended the job with $code"
    grep -qF -e "$said" "$dir/said" || fail "stop $* says: $(cat "$dir/said")"
    grep -qF -e "$text" "$log" || fail "the job doesn't say: $text"
}

# ended_in_savepoint ARGUMENT...: the same, and both name a savepoint that is there; its place is in $savepoint.
ended_in_savepoint() {
    local log=$1
    shift
    stopped "; savepoint: $dir/savepoints/" "$log" "savepoint: $dir/savepoints/" --savepoint "$dir/savepoints" "$@"
    savepoint=$(sed -n 's/^job `wordcount` is .*; savepoint: //p' "$dir/said")
    grep -qF -e "savepoint: $savepoint" "$log" || fail "the job names another savepoint than $savepoint"
    "$TIDEGATE" checkpoint verify "$savepoint" | grep -q "is fine" || fail "$savepoint isn't right"
}

stopped 'job `wordcount` is suspended in checkpoint' "$dir/first.log" "suspended in checkpoint" --job wordcount

start "$dir/second.log" --restore "$savepoint" --new-lineage
eventually 20 ask savepoint --rest "$rest" --target "$dir/savepoints"
ended_in_savepoint "$dir/second.log"
grep -q "^suspended in checkpoint" "$dir/second.log" || fail "it doesn't say that it was suspended"

start "$dir/third.log" --restore "$savepoint"
eventually 20 ask savepoint --rest "$rest" --target "$dir/savepoints"
ended_in_savepoint "$dir/third.log" --drain
grep -q "^finished after" "$dir/third.log" || fail "it doesn't say that it finished"

rm -r "$dir/c" "$dir/out"
start "$dir/fourth.log"
eventually 20 ask savepoint --rest "$rest" --target "$dir/savepoints"
stopped 'job `wordcount` is drained' "$dir/fourth.log" "finished after" --drain

rm -r "$dir/c" "$dir/out"
start "$dir/fifth.log"
eventually 20 ask cancel --rest "$rest"
code=0
wait "$pid" || code=$?
pid=
((code == 0)) || fail "cancelling ended the job with $code"
grep -q "^cancelled" "$dir/fifth.log" || fail "it doesn't say that it was cancelled"
echo "savepoints taken, job suspended and drained with and without one, restored from one, cancelled"

#!/usr/bin/env bash
# SIGTERM suspends the job in a last checkpoint and ends with 0; it goes on from there, and the counts are right.
set -euo pipefail

# shellcheck source=scripts/test.d/common.bash
source "$(dirname "${BASH_SOURCE[0]}")/common.bash"

mkdir "$dir/in"
for n in $(seq 5000); do echo "a b$((n % 7)) c$((n % 101))"; done >"$dir/in/text"
awk '{ for (i = 1; i <= NF; i++) n[$i]++ } END { for (w in n) print w "\t" n[w] }' "$dir/in/text" | sort >"$dir/expected"

# Not a function: what runs in the background must be the program itself, to get the signal.
count=("$TIDEGATE" demo wordcount --input "$dir/in" --output "$dir/out" --checkpoint-dir "$dir/checkpoints")

"${count[@]}" --interval 50ms --rate 1000 >"$dir/first.log" 2>&1 &
pid=$!
has_checkpoint() { "$TIDEGATE" checkpoint list "$dir/checkpoints" --json 2>/dev/null | grep -q '"complete"'; }
eventually 20 has_checkpoint
kill -TERM "$pid"
code=0
wait "$pid" || code=$?
pid=
((code == 0)) || fail "SIGTERM ended it with $code"
grep -q "suspended in checkpoint" "$dir/first.log" || fail "it doesn't say where it was suspended"

"${count[@]}" --restore latest >"$dir/second.log" 2>&1 || fail "it doesn't go on"
grep -q "^finished" "$dir/second.log" || fail "it didn't finish"
sort "$dir"/out/* | cmp - "$dir/expected" >&2 || fail "the counts differ"

# Whenever the signal comes, in the middle, when some tasks have finished or when all have: it ends well, and says how.
for f in 1 2 3; do
    for n in $(seq 15000); do echo "a b$n c$((n % 77)) d$((n * f))"; done >"$dir/in/more$f"
done
count=("$TIDEGATE" demo wordcount --input "$dir/in" --output "$dir/late-out" --checkpoint-dir "$dir/late" --interval 20ms)
for n in $(seq 2 13); do
    rm -rf "$dir/late" "$dir/late-out"
    "${count[@]}" --parallelism 4 >"$dir/late.log" 2>&1 &
    pid=$!
    until find "$dir/late/wordcount" -path "*/chk-$n/_metadata" 2>/dev/null | grep -q . || ! kill -0 "$pid" 2>/dev/null; do
        sleep 0.005
    done
    kill -INT "$pid" 2>/dev/null || true
    code=0
    wait "$pid" || code=$?
    pid=
    ((code == 0)) || fail "SIGINT at checkpoint $n ended it with $code"
    grep -q -e "^suspended in checkpoint" -e "^finished after" "$dir/late.log" || fail "it doesn't say how it ended"
done
echo "suspended by SIGTERM, went on, $(wc -l <"$dir/expected") words right"

#!/usr/bin/env bash
# Counts words over a small corpus and is killed three times on the way, each time in another mode and at another
# parallelism; what stands in the committed files must be what an independent count says, and nothing must be left over.
set -euo pipefail

# shellcheck source=scripts/test.d/common.bash
source "$(dirname "${BASH_SOURCE[0]}")/common.bash"

python3 - "$dir/in" <<'PY'
import os, random, sys
random.seed(11)
words = [("w%d" % n) for n in range(3000)] + ["Zoë", "naïve", "日本", "x" * 500]
spaces = [" ", "  ", "\t", "\u2003", "\u00a0"]
os.makedirs(sys.argv[1])
for f in range(6):
    with open(os.path.join(sys.argv[1], "%d.txt" % f), "w", encoding="utf-8", newline="") as out:
        for _ in range(4000):
            line = "".join(random.choice(words) + random.choice(spaces) for _ in range(random.randrange(9)))
            out.write(line + random.choice(["\n", "\r\n"]))
PY
# White space as Unicode has it; Python's split() without arguments also splits at four control characters, which don't occur.
python3 - "$dir/in" >"$dir/expected" <<'PY'
import collections, os, sys
counts = collections.Counter()
for name in os.listdir(sys.argv[1]):
    with open(os.path.join(sys.argv[1], name), encoding="utf-8", newline="") as text:
        counts.update(text.read().split())
for word, n in counts.items():
    print("%s\t%d" % (word, n))
PY

# Not a function: what runs in the background must be the program itself, to be killed.
count=("$TIDEGATE" demo wordcount --input "$dir/in" --output "$dir/out" --checkpoint-dir "$dir/checkpoints"
    --interval 100ms)

completed() {
    "$TIDEGATE" checkpoint list "$dir/checkpoints" --json 2>/dev/null |
        python3 -c 'import json, sys
print(sum(c["state"]["state"] == "complete" and c["id"] or 0 for j in json.load(sys.stdin) for c in j["checkpoints"][-1:]))' \
            2>/dev/null || echo 0
}

newer_than() { (($(completed) > $1)); }

seen=0
for run in "unaligned 2 --rate 4000" "aligned 3 --rate 4000 --restore latest" "adaptive 1 --rate 4000 --restore latest"; do
    read -r mode parallelism more <<<"$run"
    # shellcheck disable=SC2086
    "${count[@]}" --mode "$mode" --parallelism "$parallelism" $more >>"$dir/log" 2>&1 &
    pid=$!
    eventually 20 newer_than "$seen"
    kill -9 "$pid" || fail "it ended before it could be killed ($mode)"
    wait "$pid" 2>/dev/null || true
    pid=
    seen=$(completed)
    ((seen > 0)) || fail "no checkpoint was complete when it was killed"
done
"${count[@]}" --mode unaligned --parallelism 2 --restore latest >>"$dir/log" 2>&1 || fail "the last run failed"
grep -q "restored from checkpoint" "$dir/log" || fail "nothing was restored"

cat "$dir"/out/* | LC_ALL=C sort >"$dir/found"
LC_ALL=C sort "$dir/expected" | cmp - "$dir/found" >&2 || fail "the counts differ"
hidden=$(find "$dir/out" -name '.*' -type f)
[[ -z $hidden ]] || fail "left over: $hidden"
"$TIDEGATE" checkpoint verify "$dir/checkpoints/wordcount" >"$dir/verified" || fail "the checkpoints are damaged"
staged=$(find "$dir/checkpoints" -name '*#*')
[[ -z $staged ]] || fail "left over: $staged"

"${count[@]}" --restore latest >"$dir/again" 2>&1 || fail "a finished job restored is an error: $(cat "$dir/again")"
grep -q "had finished" "$dir/again" || fail "a finished job restored doesn't say so: $(cat "$dir/again")"
echo "$(wc -l <"$dir/found") words right after three kills, the last checkpoint before the end was $seen"

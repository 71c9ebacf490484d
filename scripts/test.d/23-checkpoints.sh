#!/usr/bin/env bash
# The options have a list, checkpoints can be looked at, and a damaged one is found and named.
set -euo pipefail

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

"$TIDEGATE" config >"$dir/config"
grep -q "^execution.checkpointing.interval = off  (default)" "$dir/config"
"$TIDEGATE" config --json -D execution.checkpointing.interval=3s |
    python3 -c 'import json, sys
options = {o["key"]: o for o in json.load(sys.stdin)}
interval = options["execution.checkpointing.interval"]
assert (interval["value"], interval["origin"]) == ("3 s", "-D"), interval
assert all(o["meaning"] and o["flink"] and o["default"] for o in options.values())
assert len(options) > 40, len(options)'
"$TIDEGATE" config --markdown | grep -q '| `execution.checkpointing.interval` |'

# Id 1 is the claim of the first leader.
for n in $(seq 3000); do echo "a b$n"; done >"$dir/text"
"$TIDEGATE" demo wordcount --input "$dir/text" --output "$dir/out" --checkpoint-dir "$dir/c" --interval 50ms \
    --job-id "my job" --trace-checkpoint 2 >"$dir/log" 2>&1
grep -q "^checkpoint 2 .*on its way through the tasks" "$dir/log"
if ! "$TIDEGATE" demo wordcount --input "$dir/text" --output "$dir/untraced" --trace-checkpoint 9999 2>&1 |
    grep -q "^no checkpoint 9999 in this run: "; then
    echo "nothing is said about a checkpoint that never came" >&2
    exit 1
fi
job=$(find "$dir/c" -mindepth 1 -maxdepth 1 -type d)
for path in "$dir/c" "$job"; do
    "$TIDEGATE" checkpoint list "$path" | grep -q "complete"
done
"$TIDEGATE" checkpoint show "$job" | grep -q "operator \`count\`"
"$TIDEGATE" checkpoint show "$job" --json | python3 -c 'import json, sys
shown = json.load(sys.stdin)
assert shown["job"] == "my job" and any(s["uid"] == "count" for s in shown["sections"]), shown'
"$TIDEGATE" checkpoint verify "$job" | grep -q "is fine"

# One bit anywhere in what was written last.
metadata=$(find "$job" -name _metadata -size +1k | sort -V | tail -n 1)
python3 - "$metadata" <<'PY'
import sys
with open(sys.argv[1], "r+b") as f:
    data = bytearray(f.read())
    data[len(data) // 2] ^= 1
    f.seek(0)
    f.write(data)
PY
code=0
"$TIDEGATE" checkpoint verify "$job" >"$dir/report" 2>&1 || code=$?
((code == 1))
grep -q "is damaged" "$dir/report"
grep -qF "$(basename "$(dirname "$metadata")")/_metadata" "$dir/report"
code=0
"$TIDEGATE" demo wordcount --input "$dir/text" --output "$dir/out" --checkpoint-dir "$dir/c" --job-id "my job" \
    --restore latest >"$dir/restored" 2>&1 || code=$?
if ((code != 1)) || ! grep -q "^error: " "$dir/restored"; then
    cat "$dir/restored" >&2
    exit 1
fi

# Each step of each checkpoint is logged for whoever wants it.
TIDEGATE_LOG=tidegate::checkpoints=debug "$TIDEGATE" demo wordcount --input "$dir/text" --output "$dir/logged" \
    >/dev/null 2>"$dir/log"
for step in "started, " "triggered v0/0" "acknowledged, 0 missing" "all in" "decided Complete"; do
    if ! grep "DEBUG tidegate::checkpoints" "$dir/log" | grep -qF -e "$step"; then
        echo "no event \"$step\" was logged" >&2
        cat "$dir/log" >&2
        exit 1
    fi
done
echo "options listed, checkpoints listed and shown, one wrong bit found in $(basename "$(dirname "$metadata")")"

#!/usr/bin/env bash
# What goes wrong around a running job: a full disk, two processes on one checkpoint directory, damaged and missing
# checkpoints, a checkpoint of another job. One error each that names the thing, and nothing is lost.
set -euo pipefail

dir=$(mktemp -d)
pids=()
finish() {
    for pid in "${pids[@]}"; do kill -9 "$pid" 2>/dev/null || true; done
    if mountpoint -q "$dir/small"; then umount "$dir/small"; fi
    rm -rf "$dir"
}
trap finish EXIT

# refused TEXT COMMAND...: exits with 1 and one error that has the text in it.
refused() {
    local text=$1 code=0
    shift
    timeout 60 "$TIDEGATE" "$@" >"$dir/stdout" 2>"$dir/stderr" </dev/null || code=$?
    if ((code != 1)) || ! grep -qF -e "$text" "$dir/stderr" || grep -qi -e panic -e RUST_BACKTRACE "$dir/stderr" ||
        (($(grep -c '^error' "$dir/stderr") != 1)); then
        echo "tidegate $*: exit code $code, expected 1 with one error that has: $text" >&2
        cat "$dir/stderr" >&2
        exit 1
    fi
}

# wait_for WHAT COMMAND...: until the command succeeds, for a minute at most.
wait_for() {
    local what=$1 end=$((SECONDS + 60))
    shift
    until "$@" >/dev/null 2>&1; do
        if ((SECONDS > end)); then
            echo "waited a minute for $what" >&2
            exit 1
        fi
        sleep 0.02
    done
}

# newest_of DIR: sets $newest to the id of the newest complete checkpoint there.
newest_of() {
    newest=$("$TIDEGATE" checkpoint list "$1/wordcount" --json 2>/dev/null | python3 -c '
import json, sys
checkpoints = json.load(sys.stdin)[0]["checkpoints"]
print(max(c["id"] for c in checkpoints if c["state"]["state"] == "complete"))' 2>/dev/null)
}

counted() { sort "$1"/* | cmp - "$dir/expected"; }

for i in $(seq 1 30000); do echo "word$i and word$((i % 100))"; done >"$dir/text"
tr ' ' '\n' <"$dir/text" | sort | uniq -c | awk '{ print $2 "\t" $1 }' | sort >"$dir/expected"
count=(demo wordcount --input "$dir/text")

# A disk that is too small, for state and then for output. With room again the job goes on where it was.
mkdir "$dir/small"
if mount -t tmpfs -o size=200k tmpfs "$dir/small" 2>/dev/null; then
    on_small=(--output "$dir/out-state" --checkpoint-dir "$dir/small/state" --interval 20ms)
    refused "the disk is full" "${count[@]}" "${on_small[@]}" --rate 20000
    mount -o remount,size=64m "$dir/small"
    "$TIDEGATE" "${count[@]}" "${on_small[@]}" --restore latest >/dev/null
    counted "$dir/out-state"
    mount -o remount,size=64m "$dir/small"
    head -c $((64 * 1024 * 1024)) /dev/zero >"$dir/small/filler" 2>/dev/null || true
    on_small=(--output "$dir/small/out" --checkpoint-dir "$dir/state" --interval 20ms)
    mkdir "$dir/small/out"
    refused "is full" "${count[@]}" "${on_small[@]}"
    rm "$dir/small/filler"
    "$TIDEGATE" "${count[@]}" "${on_small[@]}" --restore latest >/dev/null
    counted "$dir/small/out"
    rm -rf "$dir/small/out"

    # A disk that fills up while the job runs and stays full: nothing can be written any more, not even that a
    # checkpoint has failed.
    on_small=(--output "$dir/out-filled" --checkpoint-dir "$dir/small/filled" --interval 30ms)
    "$TIDEGATE" "${count[@]}" "${on_small[@]}" --rate 5000 >"$dir/stdout" 2>"$dir/stderr" </dev/null &
    pids+=($!)
    wait_for "a complete checkpoint" newest_of "$dir/small/filled"
    head -c $((64 * 1024 * 1024)) /dev/zero >"$dir/small/filler" 2>/dev/null || true
    gone() { ! kill -0 "${pids[-1]}"; }
    wait_for "the end of a job whose disk is full" gone
    code=0
    wait "${pids[-1]}" || code=$?
    if ((code != 1)) || ! grep -q "disk is full" "$dir/stderr"; then
        echo "a disk that stays full: exit code $code, expected 1 with an error that says so" >&2
        cat "$dir/stderr" >&2
        exit 1
    fi
    rm "$dir/small/filler"
    "$TIDEGATE" "${count[@]}" "${on_small[@]}" --restore latest >/dev/null
    counted "$dir/out-filled"
    umount "$dir/small"
    full="a full disk,"
else
    echo "a file system can't be mounted here: the full disk is left out" >&2
    full=""
fi

# Two processes on one directory: the second one says who is there and touches nothing.
slow=("${count[@]}" --output "$dir/out-two" --checkpoint-dir "$dir/two" --interval 50ms)
"$TIDEGATE" "${slow[@]}" --rate 3000 >"$dir/first" 2>&1 &
pids+=($!)
wait_for "a complete checkpoint" newest_of "$dir/two"
refused "${pids[-1]}" "${slow[@]}" --restore latest
# The first one dies in the middle; its successor brings it to the end.
kill -9 "${pids[-1]}"
wait "${pids[-1]}" 2>/dev/null || true
cp -r "$dir/two" "$dir/damaged"
cp -r "$dir/two" "$dir/missing"
"$TIDEGATE" "${slow[@]}" --restore latest >/dev/null
counted "$dir/out-two"

# Damage: in the newest checkpoint's decision, in its state, and a file that is gone.
files=(-D execution.checkpointing.data-inline-threshold=0b)
run=("${count[@]}" --output "$dir/out-files" --checkpoint-dir "$dir/files" --interval 500ms "${files[@]}")
"$TIDEGATE" "${run[@]}" --rate 3000 >/dev/null 2>&1 &
pids+=($!)
state_of_newest() {
    newest_of "$dir/files" || return 1
    state=$(find "$dir/files/wordcount/chk-$newest" -name '*.state' | sort | head -n 1)
    metadata=$dir/files/wordcount/chk-$newest/_metadata
    [[ -n $state ]]
}
wait_for "a complete checkpoint with state in files" state_of_newest
kill -9 "${pids[-1]}"
wait "${pids[-1]}" 2>/dev/null || true
state_of_newest
flip() { python3 -c '
import sys
path = sys.argv[1]
data = bytearray(open(path, "rb").read())
data[len(data) // 2] ^= 0x10
open(path, "wb").write(data)' "$1"; }
flip "$state"
refused "$(basename "$state")" "${run[@]}" --restore latest
refused "$(basename "$state")" checkpoint verify "$(dirname "$metadata")"
mv "$state" "$dir/kept"
refused "$(basename "$state")" "${run[@]}" --restore latest
refused "$(basename "$state")" checkpoint verify "$(dirname "$metadata")"
mv "$dir/kept" "$state"
flip "$state"
cp "$metadata" "$dir/kept"
flip "$metadata"
refused "_metadata" "${run[@]}" --restore latest
refused "_metadata" checkpoint verify "$(dirname "$metadata")"
cp "$dir/kept" "$metadata"
# Mended, it goes on as if nothing had been.
"$TIDEGATE" "${run[@]}" --restore latest >/dev/null
counted "$dir/out-files"

# Somebody else's checkpoint.
"$TIDEGATE" "${count[@]}" --output "$dir/out-hers" --checkpoint-dir "$dir/hers" --job-id hers >/dev/null
other=$(find "$dir/hers/hers" -name _metadata | sort | tail -n 1)
refused 'belongs to job "hers"' "${count[@]}" --output "$dir/out-other" --checkpoint-dir "$dir/c-other" \
    --restore "$(dirname "$other")"
echo "${full} two processes, damaged, missing and foreign checkpoints: one error each, and the counts are right after it"

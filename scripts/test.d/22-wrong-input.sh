#!/usr/bin/env bash
# Whatever a person gets wrong: one block of text on standard error that names the thing, no panic, and an exit code that
# isn't 0 (2 if the command line or configuration is wrong, 1 if something failed).
set -euo pipefail

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
tried=0

# refused CODE TEXT COMMAND...: ends with the code and one error that has the text in it.
refused() {
    local expected=$1 text=$2 code=0
    shift 2
    timeout 30 "$TIDEGATE" "$@" >"$dir/stdout" 2>"$dir/stderr" </dev/null || code=$?
    if ((code != expected)) || ! grep -qF -e "$text" "$dir/stderr" || grep -qi -e panic -e RUST_BACKTRACE "$dir/stderr" ||
        (($(grep -c '^error' "$dir/stderr") != 1)); then
        echo "tidegate $*: exit code $code, expected $expected with one error that has: $text" >&2
        cat "$dir/stderr" >&2
        exit 1
    fi
    tried=$((tried + 1))
}

count=(demo wordcount --output "$dir/out")
echo "one two" >"$dir/good"
printf 'fine\nbad \xff\xfe here\n' >"$dir/binary"
head -c 9000000 /dev/zero | tr '\0' x >"$dir/long"
echo 'execution.checkpointing.intervall: 1s' >"$dir/key.yaml"
printf 'a: b\n\tc' >"$dir/broken.yaml"
mkdir "$dir/empty"

refused 1 "$dir/none" "${count[@]}" --input "$dir/none"
refused 1 "$dir/empty" "${count[@]}" --input "$dir/empty"
refused 1 "no file matches" "${count[@]}" --input "$dir/*.gz"
refused 1 "byte 5" "${count[@]}" --input "$dir/binary"
refused 1 "longer than the limit" "${count[@]}" --input "$dir/long"
refused 1 "$dir/good" demo wordcount --input "$dir/good" --output "$dir/good"
refused 2 "--checkpoint-dir" "${count[@]}" --input "$dir/good" --restore latest
refused 2 "execution.checkpointing.interval" "${count[@]}" --input "$dir/good" --config "$dir/key.yaml"
refused 2 "broken.yaml" "${count[@]}" --input "$dir/good" --config "$dir/broken.yaml"
refused 2 "can't be read" config --config "$dir/none.yaml"
refused 2 "parallelism.default" config -D parallelism.default=many
refused 2 "key=value" config -D parallelism.default
refused 2 "--input" "${count[@]}"
refused 2 "at-least-once" demo backpressure --modes fast
refused 2 "pipeline.max-parallelism" "${count[@]}" --input "$dir/good" --parallelism 4096
refused 1 "$dir/none" "${count[@]}" --input "$dir/good" --checkpoint-dir "$dir/c" --restore "$dir/none"
refused 1 "$dir/none" checkpoint show "$dir/none"
refused 1 "$dir/empty" checkpoint list "$dir/empty"
refused 1 "$dir/good" checkpoint verify "$dir/good"
refused 1 "nothing listens" cancel --job a --rest 127.0.0.1:1
printf 'pipeline.name: x\npipeline:\n\tname: y' >"$dir/tab.yaml"
printf 'pipeline.name: a\0b' >"$dir/nul.yaml"
refused 1 "--on-error skip" "${count[@]}" --input "$dir/binary"
refused 2 "parallelism.default\` = 500 (--parallelism)" "${count[@]}" --input "$dir/good" --parallelism 500
refused 2 "3 ms\` (--interval)" "${count[@]}" --input "$dir/good" --interval 3
refused 2 "(--job-id): expected a text of 1 to 200 bytes" "${count[@]}" --input "$dir/good" --job-id a/b
refused 2 "more than 1048576 bytes" config --config /dev/zero
refused 2 "tab.yaml:3:2: a tab" config --config "$dir/tab.yaml"
refused 2 "nul.yaml:1:" config --config "$dir/nul.yaml"
refused 2 "(-D) is decided by this demo itself; use --modes" demo backpressure -D execution.checkpointing.mode=aligned
refused 2 "(-D) is decided by this demo itself; use --in-flight" demo backpressure -D task.gate.budget=fixed:3
refused 2 "(-D) is decided by this demo itself; use --interval" demo backpressure -D execution.checkpointing.interval=off
refused 2 "(-D) is decided by this demo itself; use --intervals" demo interval -D execution.checkpointing.interval=1s
TIDEGATE_TASK_GATE_BUDGET=50ms refused 2 "use --in-flight" demo backpressure
TIDEGATE_PARALLELISM_DEFAULT=$'\xff' refused 2 "TIDEGATE_PARALLELISM_DEFAULT" config
"$TIDEGATE" config -D pipeline.max-parallelism=1_000 | grep -q "^pipeline.max-parallelism = 1000  (-D)"
TIDEGATE_LOG='a=b=c' refused 2 "TIDEGATE_LOG" config
TIDEGATE_PARALLELISM_DEFOULT=2 refused 2 "TIDEGATE_PARALLELISM_DEFAULT" config

# What is skipped is counted.
timeout 30 "$TIDEGATE" "${count[@]}" --input "$dir/good" "$dir/binary" "$dir/long" --on-error skip >"$dir/stdout" 2>"$dir/stderr"
grep -q "skipped in this run: invalid UTF-8 1, too long 1" "$dir/stdout"
grep -q "this run wrote 3 distinct words, 3 in all, to $dir/out" "$dir/stdout"
sort "$dir"/out/* | cmp - <(printf 'fine\t1\none\t1\ntwo\t1\n')
# A second run from the beginning would write everything twice.
refused 1 "an earlier run of this job" "${count[@]}" --input "$dir/good"
# Nobody reads: no error.
"$TIDEGATE" config | head -n 1 >/dev/null
echo "$tried mistakes each have one error, skipped lines are counted"

# What black-box scripts share; sourced, not run. Sets $dir, a directory that goes with the script, as does the process $pid.

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

# fail WORD...: ends the script, with the ends of the logs in $dir.
fail() {
    local log
    echo "$*" >&2
    for log in "$dir"/log "$dir"/*.log; do
        if [[ -f $log ]]; then
            tail -n 40 "$log" >&2
        fi
    done
    exit 1
}

# eventually SECONDS COMMAND...: until the command succeeds.
eventually() {
    local limit=$((SECONDS + $1))
    shift
    until "$@"; do
        ((SECONDS < limit)) || fail "waited in vain for: $*"
        sleep 0.05
    done
}

#!/usr/bin/env bash
# Makes everything in runs/: five training runs of two ranks, one after another, and one timing by hand.
# A run that other work on the machine disturbed is made again.
# Needs Linux, Python 3.10 or newer, two idle cores and a C++ compiler (DeepSpeed builds a small operator, once).
# Usage: ./make_runs.sh [DIRECTORY]    (default: runs; an existing file there is replaced)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
runs=$(mkdir -p "${1:-$here/runs}" && cd "${1:-$here/runs}" && pwd)
venv=${VENV:-${TMPDIR:-/tmp}/tiny-gpt-venv}

if [ ! -x "$venv/bin/torchrun" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --extra-index-url https://download.pytorch.org/whl/cpu \
        torch==2.13.0 numpy setuptools wheel ninja
    DS_BUILD_OPS=0 "$venv/bin/pip" install --quiet deepspeed==0.19.8
fi
export PATH="$venv/bin:$PATH" DS_ACCELERATOR=cpu OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=lo

# Replaces host, user, folders and addresses, but never on a line that DeepSpeed printed a time on.
scrub() {
    sed -E -e '/time \(ms\)/b' \
        -e "s#$here#/example#g; s#$venv#/venv#g; s#${HOME%/}/#/home/#g" \
        -e "s#\b$(hostname)\b#host#g; s#\b$(id -un)@#user@#g" \
        -e 's#\b([0-9]{1,3}\.){3}[0-9]{1,3}\b#0.0.0.0#g'
}

# Prints the ticks (1/100 s) that the whole machine has worked or was kept waiting: user, nice, system, irq, steal.
worked() {
    awk '/^cpu /{print $2 + $3 + $4 + $7 + $8 + $9}' /proc/stat
}

# Waits until the machine has been idle for two seconds.
wait_for_quiet() {
    local before
    while before=$(worked) && sleep 2 && (($(worked) - before > 10)); do :; done
}

# Makes one log. A run beside which other processes took over 3 % of the machine is made again, at most 30 times.
train() {
    local name=$1 before others attempt
    shift
    for attempt in {1..30}; do
        wait_for_quiet
        before=$(worked)
        TIMEFORMAT='%R %U %S'
        { time torchrun --standalone --nproc-per-node 2 "$here/train.py" "$@" >"$scratch/log" 2>"$scratch/stderr"; } \
            2>"$scratch/time" || { cat "$scratch/stderr" >&2 && exit 1; }
        others=$(awk -v ticks=$(($(worked) - before)) -v cores="$(nproc --all)" \
            '{printf "%.1f", 100 * (ticks / 100 - $2 - $3) / ($1 * cores)}' "$scratch/time")
        echo "$name, attempt $attempt: others took $others % of the machine" >&2
        if awk -v others="$others" 'BEGIN {exit !(others <= 3)}'; then
            scrub <"$scratch/log" >"$runs/$name.log"
            return
        fi
    done
    echo "$name: this machine is not quiet enough" >&2
    exit 1
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
torchrun --standalone --nproc-per-node 2 "$here/train.py" --steps 20 >"$scratch/log" # builds the operator, fills caches
train main-1
train main-2
train main-3
train change
train slow --slowdown 0.2
wait_for_quiet
python "$here/time_blocks.py" --warmup 5 >"$runs/timing.json"

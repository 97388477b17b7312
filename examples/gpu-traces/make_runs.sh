#!/usr/bin/env bash
# Makes everything in runs/ and baselines/: the traces of three runs on one GPU, one after another, and the baseline of
# the first one.
# Needs one GPU, and Python with perfgate and torch (the kept runs: torch 2.11.0 on an NVIDIA H100).
# Usage: ./make_runs.sh
set -euo pipefail
cd "$(dirname "$0")"
rm -rf runs baselines
python train.py runs/main-1  # a new machine is slow at first: this run is made again
for name in main-1 main-2; do
    python train.py "runs/$name"
done
python train.py runs/slow --attention plain
perfgate baseline approve runs/main-1 --reason "first baseline" --by "the perfgate authors"

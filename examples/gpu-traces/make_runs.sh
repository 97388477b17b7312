#!/usr/bin/env bash
# Makes everything in runs/: the traces of three runs on one GPU, one after another.
# Needs one GPU and Python with torch (the kept runs: torch 2.11.0 on an NVIDIA H100).
# Usage: ./make_runs.sh
set -euo pipefail
cd "$(dirname "$0")"
rm -rf runs
python train.py runs/main-1  # a new machine is slow at first: this run is made again
for name in main-1 main-2; do
    python train.py "runs/$name"
done
python train.py runs/slow --attention plain

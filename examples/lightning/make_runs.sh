#!/usr/bin/env bash
# Makes everything in runs/ and baselines/: five recordings, one after another, and the baseline of the first three.
# Needs Python with perfgate, and lightning and torch (the kept runs: lightning 2.6.6, torch 2.13.0 on the CPU).
# Usage: ./make_runs.sh
set -euo pipefail
cd "$(dirname "$0")"
rm -rf runs baselines
for name in main-1 main-2 main-3 change; do
    python train.py "runs/$name.json"
done
python train.py runs/slow.json --wasted 2
perfgate() { python -m perfgate "$@"; }
perfgate baseline approve runs/main-1.json --reason "first baseline" --by "the perfgate authors"
perfgate baseline add runs/main-2.json --by "the perfgate authors"
perfgate baseline add runs/main-3.json --by "the perfgate authors"

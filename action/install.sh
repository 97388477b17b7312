#!/usr/bin/env bash
# Install perfgate from the commit of the action into a virtual environment outside of the workspace, or use the one that
# the cache restored. With the argument `key`, only name that one. Isolated (-I): Python imports no file of the workspace
# as a module.
set -euo pipefail
unset PYTHONPATH PYTHONHOME # the pip that runs for another environment does not inherit -I
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
wheels=${WHEELS:-}
if ! command -v "$PYTHON" >/dev/null; then
    echo "::error::${PYTHON//[^A-Za-z0-9._\/-]/?} is not installed: use actions/setup-python first, or the input python"
    exit 2
fi
if [[ ! $EXTRAS =~ ^[a-z0-9,-]*$ ]]; then
    echo "::error::the input extras is a list of names separated by commas, such as gpu,html"
    exit 2
fi
if [ -n "$wheels" ] && [ ! -d "$wheels" ]; then
    echo "::error::the input wheels names no folder on this machine"
    exit 2
fi
[ -z "$HTML" ] || EXTRAS="${EXTRAS:+$EXTRAS,}html"
if [ "${1:-}" = key ]; then
    EXTRAS=$EXTRAS exec "$PYTHON" -I "$root/action/cache_key.py"
fi
venv=${VENV:-$(mktemp -d "${RUNNER_TEMP:-/tmp}/perfgate-XXXXXX")}
if [ "${CACHED:-}" = true ] && "$venv/bin/python" -I -m perfgate --version >/dev/null 2>&1; then
    echo "python=$venv/bin/python" >>"$GITHUB_OUTPUT"
    exit
fi
# pip 22.3 or newer installs into another environment: that environment needs no pip, which takes longer to make than
# all the rest of it.
if "$PYTHON" -I -m pip --python "$PYTHON" --version >/dev/null 2>&1; then
    "$PYTHON" -I -m venv --clear --without-pip "$venv"
    pip=("$PYTHON" -I -m pip --python "$venv/bin/python")
else
    "$PYTHON" -I -m venv --clear "$venv"
    pip=("$venv/bin/python" -I -m pip)
fi
[ -z "$wheels" ] || set -- --no-index --find-links "$wheels"
# --compile: without bytecode, each command takes twice as long to start.
"${pip[@]}" install --quiet --disable-pip-version-check --compile "$@" "$root${EXTRAS:+[$EXTRAS]}"
echo "python=$venv/bin/python" >>"$GITHUB_OUTPUT"

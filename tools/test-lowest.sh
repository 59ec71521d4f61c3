#!/usr/bin/env bash
# test-lowest.sh PYTHON FOLDER: the demo and the suite's core part with the lowest versions that pyproject.toml allows.
# The environment is FOLDER/venv, made anew when the versions change. What tests compare with is of today.
set -euo pipefail
python=$1 folder=$2
extras=efficientnet,serve,compete,tune,records,heif,hdf5,remote,overlap,sql
tools=(pytest pytest-xdist pytest-timeout hypothesis scikit-learn statsmodels networkx pandas tqdm pot)
mkdir -p "$folder"
LONGSHOT_CACHE=$(cd "$folder" && pwd)/cache  # pictures and features of other versions must not stand in for these
export LONGSHOT_CACHE
rm -rf "$LONGSHOT_CACHE"
"$python" tools/lowest.py > "$folder/wanted.txt"
if ! cmp -s "$folder/wanted.txt" "$folder/installed.txt"; then
  echo "==> lowest versions: installing longshot[$extras] into $folder/venv (several minutes)"
  "$python" -m venv --clear "$folder/venv"
  "$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --constraint "$folder/wanted.txt" \
    --editable ".[$extras]" "${tools[@]}" 2> >(grep -v '^WARNING: Location' >&2)
  cp "$folder/wanted.txt" "$folder/installed.txt"
fi
"$folder/venv/bin/python" -m pip check
(cd "$folder" && rm -rf longshot-demo && venv/bin/longshot demo)
"$folder/venv/bin/python" -m pytest -n auto --dist worksteal --durations=10 tests/base tests/statistics tests/tasks tests/evaluation

#!/usr/bin/env bash
# coverage.sh PYTHON [PYTEST ARGUMENTS…]: run the tests and print which lines of src they leave out, per file and in all.
# The same table in Markdown goes to build/coverage/table.md; a test that fails is the exit code, after the table.
set -u
python=$1; shift
rm -rf build/coverage && mkdir -p build/coverage
"$python" -m coverage run -m pytest -n auto --dist worksteal "$@"; code=$?
"$python" -m coverage combine --quiet &&
  "$python" -m coverage report &&
  "$python" -m coverage report --format markdown > build/coverage/table.md || exit 2
exit $code

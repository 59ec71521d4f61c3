#!/usr/bin/env bash
# test-elsewhere.sh PYTHON [PYTEST ARGUMENTS…]: the suite as other machines would run it.
# Every value of a factor occurs in some run; `make test` itself is the run with this processor's own instructions.
#   oldest    no vector instructions beyond SSE4.1, four threads, started in the background (where SIGINT is ignored)
#   avx2      AVX2 in PyTorch and oneDNN, one thread, beside eight busy processes (a load of ten on two cores)
set -u
python=$1; shift
cd "$(dirname "$0")/.."
failed=0

run() {  # run LABEL VARIABLES… : the suite with these variables; its last line goes into the summary
  local label=$1; shift
  echo "==> elsewhere, $label: $*"
  local start=$SECONDS log
  log=$(mktemp)
  env "$@" "$python" -m pytest -n auto --dist worksteal "${arguments[@]}" >"$log" 2>&1; local code=$?
  grep -E '^(FAILED|ERROR)' "$log"
  echo "==> elsewhere, $label: exit $code after $((SECONDS - start)) s: $(tail -n 1 "$log")"
  [ "$code" -eq 0 ] || { failed=1; echo "==> elsewhere, $label: the whole output is in $log"; }
}

arguments=("$@")
(trap '' INT; run oldest ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 LONGSHOT_TEST_THREADS=4; exit $failed) &
wait $! || failed=1

busy=()
for _ in 1 2 3 4 5 6 7 8; do
  (while :; do :; done) & busy+=($!)
done
trap 'kill "${busy[@]}" 2>/dev/null' EXIT
run avx2 ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 LONGSHOT_TEST_THREADS=1
exit $failed

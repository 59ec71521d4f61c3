#!/usr/bin/env bash
# timed.sh LABEL COMMAND…: say what runs, run it, say how long it took and pass on its exit code.
label=$1; shift
echo "==> $label: $*"
start=$SECONDS
"$@"; code=$?
echo "==> $label: exit $code after $((SECONDS - start)) s"
exit $code

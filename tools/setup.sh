#!/usr/bin/env bash
# setup.sh PYTHON VENV EXTRAS: create the virtual environment when it is missing and install Longshot into it, editable.
set -euo pipefail
python=$1 venv=$2 extras=$3 start=$SECONDS
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "setup: $("$python" --version) is too old; Longshot needs Python 3.11 or newer (make PYTHON=python3.11 …)" >&2; exit 2; }
if [ ! -x "$venv/bin/python" ]; then
  echo "==> setup: creating $venv"
  "$python" -m venv "$venv"
fi
echo "==> setup: installing longshot[$extras] into $venv (about a minute the first time)"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[$extras]" 2> >(grep -v '^WARNING: Location' >&2)
case ",$extras," in
  *,dev,*)  # a peer to compare with; its own requirements (torchvision) are not needed for what is compared
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps easyfsl==1.5.0 2> >(grep -v '^WARNING: Location' >&2)
    # timm and the torchvision it needs, which has no build beside a CPU torch on PyPI: in a folder of their own, for tests
    # that put it on PYTHONPATH of a process of their own (tests/models/features/test_timm.py)
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target "$venv/peers" timm==1.0.30 torchvision==0.28.0 2> >(grep -v '^WARNING: Location' >&2) ||
      echo "setup: timm could not be installed; the tests that compare with it will be skipped" >&2 ;;
esac
echo "==> setup: done after $((SECONDS - start)) s"

#!/usr/bin/env bash
# Install the Debian packages that some tests need. Without root or off Debian those tests skip with their reason.
set -u
packages=(chromium wordnet-base bubblewrap postgresql strace)
missing=()
for package in "${packages[@]}"; do
  dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0
if ! command -v apt-get >/dev/null || [ "$(id -u)" -ne 0 ]; then
  echo "==> system packages: cannot install ${missing[*]} (needs root on Debian); the tests that use them will skip"
  exit 0
fi
echo "==> system packages: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null \
  || echo "==> system packages: apt-get failed; the tests that use ${missing[*]} will skip"

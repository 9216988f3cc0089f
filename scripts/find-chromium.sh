#!/usr/bin/env bash
# Prints the path of a Chromium that the page's tests can run: $CHROMIUM_BIN, else one on the PATH, else Debian's package, which is
# installed where this runs as root on a system that has it. Exit status 1, with what to do on stderr, if there is none.
set -euo pipefail

# runs BINARY: is it a Chromium that starts here?
runs() { "$1" --version --no-sandbox 2>/dev/null | grep -qE '^(Chromium|Google Chrome|HeadlessChrome)'; }

find_it() {
  local name found
  for name in chromium chromium-browser google-chrome-stable google-chrome chrome-headless-shell; do
    if found=$(command -v "$name") && runs "$found"; then
      echo "$found"
      return 0
    fi
  done
  return 1
}

if [[ -n ${CHROMIUM_BIN:-} ]]; then
  if runs "$CHROMIUM_BIN"; then
    echo "$CHROMIUM_BIN"
    exit 0
  fi
  echo "CHROMIUM_BIN=$CHROMIUM_BIN is no Chromium that starts" >&2
  exit 1
fi
if find_it; then
  exit 0
fi
if [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
  { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends chromium fonts-dejavu-core; } >&2 || true
  if find_it; then
    exit 0
  fi
fi
cat >&2 <<-MSG
	No Chromium was found. Install one (Debian: apt-get install chromium) and put it on the PATH or into CHROMIUM_BIN.
	MSG
exit 1

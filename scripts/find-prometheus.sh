#!/usr/bin/env bash
# Prints the path of a program of Prometheus that tidemark's tests can run (2.37 or later): prometheus, or what the argument
# names (promtool). It is $PROMETHEUS_BIN or what lies beside that, else the one on the PATH, else the one of Debian's or Ubuntu's
# package, which is taken apart once into .cache/ of the repository: nothing is installed and no service starts. After that it
# works offline. Exit status 1, with what to do on stderr, if there is none.
set -euo pipefail

readonly oldest=2.37
readonly program=${1:-prometheus}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly root
readonly cache=$root/.cache
readonly unpacked=$cache/prometheus/usr/bin

# recent BINARY: does it run here and is it not too old?
recent() {
  local have
  have=$("$1" --version 2>&1 | sed -n 's/^[a-z]*, version \([0-9][0-9.]*\).*/\1/p') || return 1
  [[ -n $have && $(printf '%s\n%s\n' "$oldest" "$have" | sort -V | head -n 1) == "$oldest" ]]
}

# unpack puts the package's files into the cache in one step, so that two of us at once do no harm.
unpack() {
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 1
  mkdir -p "$cache"
  echo '*' >"$cache/.gitignore"
  local tmp
  tmp=$(mktemp -d "$cache/install.XXXXXX")
  chmod 755 "$tmp"
  # shellcheck disable=SC2064 # the path as it is now
  trap "rm -rf '$tmp'" EXIT
  (
    cd "$tmp"
    apt-get download --quiet prometheus >&2 || { [[ $(id -u) == 0 ]] && apt-get update --quiet >&2 && apt-get download --quiet prometheus >&2; }
  ) || return 1
  dpkg-deb -x "$tmp"/prometheus_*.deb "$tmp/files" || return 1
  recent "$tmp/files/usr/bin/prometheus" || return 1
  rm -rf "$cache/prometheus"
  mv -T "$tmp/files" "$cache/prometheus" 2>/dev/null || [[ -x $unpacked/prometheus ]]
}

if [[ -n ${PROMETHEUS_BIN:-} ]]; then
  found=$(dirname "$PROMETHEUS_BIN")/$program
  [[ $program == prometheus ]] && found=$PROMETHEUS_BIN
  if recent "$found"; then
    echo "$found"
    exit 0
  fi
  echo "$found, by PROMETHEUS_BIN, is no $program of Prometheus $oldest or later" >&2
  exit 1
fi
if found=$(command -v "$program") && recent "$found"; then
  echo "$found"
  exit 0
fi
if [[ ! -x $unpacked/$program ]] && ! unpack; then
  cat >&2 <<-MSG
	No Prometheus $oldest or later was found, and the distribution's package could not be had.
	Either put prometheus and promtool (https://prometheus.io/download/) on the PATH or into the folder of PROMETHEUS_BIN, or make
	apt-get with a package index available.
	MSG
  exit 1
fi
echo "$unpacked/$program"

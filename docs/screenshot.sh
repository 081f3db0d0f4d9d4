#!/usr/bin/env bash
# Makes the README's pictures: a browser test plays the demo and photographs the page on the way.
# Needs Chromium, a font with emoji and pngquant (Debian: apt-get install chromium fonts-noto-core
# fonts-noto-color-emoji pngquant).
set -euo pipefail
cd "$(dirname "$0")/.."
command -v pngquant >/dev/null || { echo "no pngquant found: apt-get install pngquant" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

go test -tags=browser -count=1 -run '^TestPictures$' ./internal/emulator -args -pictures "$work"
for picture in "$work"/*.png; do
  pngquant --force --speed 1 --strip --quality 60-95 --output "docs/$(basename "$picture")" 128 "$picture"
done
ls -l docs/*.png

#!/usr/bin/env bash
# Makes docs/demo.png: runs the demo, decides two of its requests, and photographs the chat page in
# headless Chromium (Debian: apt-get install chromium fonts-noto-color-emoji).
set -euo pipefail
cd "$(dirname "$0")/.."
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || { echo "no Chromium found" >&2; exit 1; }
work=$(mktemp -d)
trap 'kill "${demo:-}" 2>/dev/null || true; wait; rm -rf "$work"' EXIT

go build -o "$work/countersign" ./cmd/countersign
"$work/countersign" demo --dir "$work/demo" --pace 300ms >"$work/out" &
demo=$!
until grep -q 'close_books.*' "$work/out"; do sleep 0.2; done
eval "export $(grep -o 'COUNTERSIGN_SERVER=.*' "$work/out")"
page=$(grep -o 'http://[0-9.:]*' "$work/out" | head -n 1)
id() { "$work/countersign" pending | awk -v tool="$1" '$0 ~ tool {print $1; exit}'; }
"$work/countersign" approve "$(id transfer_credits)" --reason "invoice checked"
"$work/countersign" deny "$(id delete_file)" --reason "keep it for the auditors"
sleep 3
"$browser" --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking \
  --disable-component-update --disable-sync --hide-scrollbars --user-data-dir="$work/profile" \
  --window-size=1280,1000 --timeout=4000 --screenshot="$PWD/docs/demo.png" "$page/" 2>/dev/null
ls -l docs/demo.png

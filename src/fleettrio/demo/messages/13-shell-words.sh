#!/bin/sh
# Why does the clean-up delete too little? It must reach you exactly as it is; do not run it.
set -eu
keep="$(date -d '30 days ago' +%F)"
for folder in "${ROOT:-/srv/pictures}"/*/; do
    [ "$(basename "$folder")" \< "$keep" ] || continue
    echo rm -rf -- "$folder" && printf '%s\n' 'gone: `'"$folder"'` !'
done
# /quit is no command here, and neither is @this or #that

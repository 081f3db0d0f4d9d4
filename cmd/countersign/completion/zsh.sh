#compdef countersign
_countersign() {
    local -a found
    local word help
    while IFS=$'\t' read -r word help; do
        if [[ $word == ":files" ]]; then
            _files
            return
        fi
        found+=("${word//:/\\:}${help:+:$help}")
    done < <("${words[1]}" complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)
    _describe countersign found
}
if [[ $funcstack[1] == _countersign ]]; then
    _countersign "$@"
else
    compdef _countersign countersign
fi

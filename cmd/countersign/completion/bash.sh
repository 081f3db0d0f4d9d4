# bash completion for countersign
_countersign() {
    local cur words line
    cur=${COMP_WORDS[COMP_CWORD]}
    # Bash splits a word at =; put --flag = value together again.
    words=()
    local i
    for ((i = 1; i <= COMP_CWORD; i++)); do
        if [[ ${COMP_WORDS[i]} == "=" && ${#words[@]} -gt 0 ]]; then
            words[${#words[@]}-1]+="="
        elif [[ $i -gt 1 && ${COMP_WORDS[i-1]} == "=" && ${words[${#words[@]}-1]} == --*= ]]; then
            words[${#words[@]}-1]+=${COMP_WORDS[i]}
        else
            words+=("${COMP_WORDS[i]}")
        fi
    done
    COMPREPLY=()
    while IFS=$'\t' read -r line _; do
        if [[ $line == ":files" ]]; then
            [[ $cur == "=" ]] && cur=
            compopt -o filenames 2>/dev/null
            while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$cur")
            return
        fi
        [[ $line == --*=* ]] && line=${line#*=}
        COMPREPLY+=("$line")
    done < <("${COMP_WORDS[0]}" complete -- "${words[@]}" 2>/dev/null)
}
complete -F _countersign countersign

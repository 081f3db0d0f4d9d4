# fish completion for countersign
function __countersign_complete
    set -l words (commandline -opc)
    set -l program $words[1]
    set -e words[1]
    set -l found ($program complete -- $words (commandline -ct) 2>/dev/null)
    if test "$found" = ":files"
        __fish_complete_path (commandline -ct)
    else
        printf '%s\n' $found
    end
end
complete -c countersign -f -a '(__countersign_complete)'

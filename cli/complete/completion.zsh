#compdef tidings
# Completion of tidings for zsh, made by `tidings completion zsh`.

@TABLES@

# Takes the quotes off a word. Fails where the shell would expand it: what comes out
# then stays unknown, because nothing is evaluated here.
_tidings_plain() {
    plain=${(Q)1}
    [[ $1 != '~/'* ]] || plain=$HOME/${plain:2}
    [[ $1 != *[\$\`]* ]]
}

# Asks the server whose address is the first operand, for a short time, and with the
# options of this command that `tidings ls` has as well.
_tidings_ask() { # LIST
    local plain url option value
    local -a specs names through
    _tidings_plain "$line[1]" || return 1
    [[ $plain == (http|https)://* ]] || return 1
    url=$plain
    _tidings_table ls
    for ((option = 2; option < CURRENT; option++)); do
        value=${words[option]}
        case $value in
        (--timeout*|--json|--names) continue ;;
        (--*=*)
            (( ${specs[(I)(\*|)${(b)value%%=*}=*]} )) || continue
            _tidings_plain "${value#*=}" || return 1
            through+=("${value%%=*}=$plain")
            ;;
        (--*)
            if (( ${specs[(I)(\*|)${(b)value}=*]} )); then
                _tidings_plain "${words[option + 1]}" || return 1
                through+=("$value=$plain")
            elif (( ${specs[(I)${(b)value}\[*]} )); then
                through+=("$value")
            fi
            ;;
        esac
    done
    through+=("--timeout=${TIDINGS_COMPLETION_TIMEOUT:-2s}")
    names=("${(@f)$(command "$program" ls --names --$1 "${through[@]}" "$url" \
        </dev/null 2>/dev/null)}")
    names=("${(@)names:#}")
    (( $#names )) && _wanted "$1" expl "$1" compadd -a names
}

_tidings() {
    local context state line curcontext=$curcontext expl kind ret=1
    local -a specs
    typeset -A opt_args
    local -i dashes=${words[(i)--]}
    local program=${(Q)words[1]}
    [[ $program == */* && -x $program ]] || program=tidings
    if ((CURRENT == 2)); then
        _tidings_commands && ret=0
        [[ $PREFIX == -* ]] && _wanted options expl option compadd -- --help --version && ret=0
        return ret
    fi
    if ((dashes < CURRENT)); then # a program and its arguments
        shift dashes words
        ((CURRENT -= dashes))
        _normal
        return
    fi
    _tidings_table ${words[2]}
    shift words
    ((CURRENT--))
    _arguments -S $specs && ret=0
    for kind in ${=state}; do
        case $kind in
        (\=*) _wanted words expl word compadd -- "${kind#\=}" && ret=0 ;;
        (files) _files && ret=0 ;;
        (commands) _tidings_commands && ret=0 ;;
        (target) _wanted targets expl address compadd -- http://127.0.0.1:8808/mcp && ret=0 ;;
        (*) _tidings_ask $kind && ret=0 ;;
        esac
    done
    return ret
}

_tidings "$@"

# Completion of tidings for bash, made by `tidings completion bash`.

@TABLES@

# Takes simple quotes off a word. Fails where the word is more than a plain one: what
# the shell would expand stays unknown, because nothing is evaluated here.
_tidings_plain() {
    plain=$1
    [[ $plain != '~/'* ]] || plain=$HOME/${plain:2}
    case $plain in
    \'*\' | \"*\") plain=${plain:1:${#plain}-2} ;;
    esac
    [[ $plain != *[\'\"\\\$\`]* ]]
}

# Reads words, one per line, and keeps those that continue $cur, quoted as it is.
_tidings_offer() {
    local word quoted
    while IFS= read -r word; do
        case $cur in
        \'*)
            quoted=\'${word//\'/\'\\\'\'}
            # Readline adds no closing quote where one seems to be there already.
            [[ $word != *\' ]] || quoted=${quoted%\'}
            ;;
        \"*)
            [[ $word != *'!'* ]] || continue # nothing keeps it from the history
            quoted=${word//\\/\\\\}
            quoted=${quoted//\$/\\\$}
            quoted=${quoted//\`/\\\`}
            quoted=\"${quoted//\"/\\\"}
            [[ $word != *\" ]] || quoted+=\"
            ;;
        *)
            printf -v quoted %q "$word"
            ;;
        esac
        [[ $quoted != "$cur"* ]] || COMPREPLY+=("${quoted#"$stem"}")
    done
}

# Asks the server whose address is the first operand, for a short time, and with the
# options of this command that `tidings ls` has as well.
_tidings_ask() {
    local plain url i options valued operands
    local -a through=()
    [[ -n ${given[0]-} ]] && _tidings_plain "${given[0]}" || return 0
    [[ $plain == http://* || $plain == https://* ]] || return 0
    url=$plain
    _tidings_table ls
    for ((i = 2; i < ${#typed[@]} - 1; i++)); do
        case ${typed[i]} in
        --timeout | --timeout=* | --json | --names) ;;
        --*=*)
            [[ $valued == *" ${typed[i]%%=*} "* ]] || continue
            _tidings_plain "${typed[i]#*=}" || return 0
            through+=("${typed[i]%%=*}=$plain")
            ;;
        --*)
            if [[ $valued == *" ${typed[i]} "* ]]; then
                _tidings_plain "${typed[i + 1]-}" || return 0
                through+=("${typed[i]}=$plain")
            elif [[ " $options " == *" ${typed[i]} "* ]]; then
                through+=("${typed[i]}")
            fi
            ;;
        esac
    done
    through+=("--timeout=${TIDINGS_COMPLETION_TIMEOUT:-2s}")
    _tidings_offer < <("$program" ls --names "--$1" "${through[@]}" "$url" \
        </dev/null 2>/dev/null)
}

# Puts together what readline took apart: the words up to the cursor, in `typed`.
_tidings_words() {
    local rest=${COMP_LINE:0:COMP_POINT} i word blank
    typed=()
    for ((i = 0; i <= COMP_CWORD; i++)); do
        blank=${rest%%[![:space:]]*}
        rest=${rest#"$blank"}
        word=${COMP_WORDS[i]}
        ((i < COMP_CWORD)) || word=$rest
        rest=${rest#"$word"}
        if ((i == 0)) || [[ -n $blank ]]; then
            typed+=("$word")
        else
            typed[${#typed[@]} - 1]+=$word
        fi
    done
}

# The part of $cur that readline leaves as it is.
_tidings_stem() {
    local i character
    stem=''
    case $cur in
    \'* | \"*)
        stem=${cur:0:1}
        return
        ;;
    esac
    for ((i = 0; i < ${#cur}; i++)); do
        character=${cur:i:1}
        if [[ $character == \\ ]]; then
            ((++i))
        elif [[ $COMP_WORDBREAKS == *"$character"* ]]; then
            stem=${cur:0:i+1}
        fi
    done
}

_tidings_value() { # OPTION PREFIX
    local values
    values=$(_tidings_values "${typed[1]}" "$1")
    if (($? == 2)); then
        compopt -o default # readline completes files by itself
    elif [[ -n $values ]]; then
        _tidings_offer < <(while IFS= read -r value; do
            printf '%s\n' "$2$value"
        done <<<"$values")
    fi
}

_tidings_operand() { # POSITION
    local operand place
    for operand in $operands; do
        place=${operand%%[:=]*}
        [[ $place == "$1" || $place == *+ && ${place%+} -le $1 ]] || continue
        case ${operand#"$place"} in
        =*) _tidings_offer <<<"${operand#*=}" ;;
        :files) compopt -o default ;;
        :commands) _tidings_offer <<<"${_tidings_commands// /$'\n'}" ;;
        :target) _tidings_offer <<<'http://127.0.0.1:8808/mcp' ;;
        :*) _tidings_ask "${operand#*:}" ;;
        esac
    done
}

_tidings() {
    local IFS=$' \t\n' program=${1//\\/} cur stem options valued operands i wants=''
    local -a typed given=()
    COMPREPLY=()
    type -P -- "$program" >/dev/null || program=tidings
    _tidings_words
    cur=${typed[${#typed[@]} - 1]}
    _tidings_stem
    if ((${#typed[@]} == 2)); then
        _tidings_offer <<<"${_tidings_commands// /$'\n'}"$'\n--help\n--version'
        return
    fi
    _tidings_table "${typed[1]}"
    for ((i = 2; i < ${#typed[@]} - 1; i++)); do
        if [[ -n $wants ]]; then
            wants=''
        elif [[ ${typed[i]} == -- ]]; then
            compopt -o default # a program and its arguments
            return
        elif [[ $valued == *" ${typed[i]} "* ]]; then
            wants=${typed[i]}
        elif [[ ${typed[i]} != -* ]]; then
            given+=("${typed[i]}")
        fi
    done
    if [[ -n $wants ]]; then
        _tidings_value "$wants" ''
    elif [[ $cur == --*=* ]]; then
        _tidings_value "${cur%%=*}" "${cur%%=*}="
    elif [[ $cur == -* ]]; then
        _tidings_offer <<<"${options// /$'\n'}"
    else
        _tidings_operand "${#given[@]}"
    fi
}

complete -F _tidings tidings

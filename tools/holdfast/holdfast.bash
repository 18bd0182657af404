# SPDX-License-Identifier: Apache-2.0
# Completion for bash. Verbs and options are taken from --help, so that they are those of the program
# at hand; only values of options are listed here.

_holdfast_verbs() { "$1" --help 2>/dev/null | sed -n '/^Verbs:/,/^$/s/^  \([a-z]\{1,\}\) .*/\1/p'; }

# "--long=" where a value follows, "--long" where none does, and the short ones.
_holdfast_options() {
    "$1" "$2" --help 2>/dev/null | sed -n 's/^ *\(-[^ ]*\( *--[^ ]*\)\{0,1\}\).*/\1/p' | tr -d ',' |
        tr ' ' '\n' | sed -n 's/=.*/=/; s/\[$//; /^-/p'
}

# What may follow an option of a verb: words, or file names.
_holdfast_values() {
    case $1:$2 in
    inject:--init | kmeans:--init) echo kmeans++ kmeans-parallel random ;;
    kmeans:--centroids) echo f32 same ;;
    kmeans:--empty) echo relocate split keep error ;;
    *:--nan) echo error drop ;;
    gemm:--guard) echo off detect correct ;;
    *:--guard) echo off detect correct sampled weighted ;;
    *:--labels-format) echo npy csv ;;
    kmeans:--chain) echo auto off on ;;
    replay:--data) ;; # a file
    kmeans:--scale) echo none standard robust minmax ;;
    inject:--skipping | kmeans:--skipping) echo auto off on ;;
    *:--header) echo auto yes no ;;
    gemm:--type) echo auto f32 f64 i8 ;;
    gemm:--sign) echo t+o l+o t+o:fletcher l+o:fletcher ;;
    diagnose:--replicas) echo 2 3 ;;
    screen:--level) echo short medium long ;;
    screen:--format) echo text tap json ;;
    inject:--form) echo seq avx both ;;
    inject:--type) echo f32 f16 bf16 ;;
    gemm:--out-type) echo auto f32 ;;
    solve:--method) echo auto jacobi gauss-seidel async schwarz cg chebyshev ;;
    solve:--precond) echo auto jacobi blocks ;;
    solve:--partition) echo auto strips graph ;;
    solve:--timing) echo tagged free ;;
    solve:--coarse | solve:--one-launch) echo auto on off ;;
    solve:--exchange) echo push amc dc dk ;;
    solve:--inside) echo f64 f32 ;;
    *:--metric) echo euclidean cosine dot ;;
    *:--precision) echo exact fast ;;
    inject:--guard) echo correct detect sampled weighted off ;;
    inject:--synthetic) echo normal blobs whole offset scales exponents zeros outlier-1e4 outlier-1e8 \
        sentinels lognormal cauchy column decades nested copies spikes far-centroid ;;
    *:--dtype) echo f32 f64 f16 bf16 u8 ;;
    *:--data) echo blobs normal plain fletcher_i crc32_i uniform ;;
    *:--op) "$3" info 2>/dev/null | sed -n 's/^kernels of \([a-z_]*\).*/\1/p' ;;
    *:--device) echo auto && "$3" info 2>/dev/null |
        sed -n '/^devices/,/^$/s/^  \([^ ]*\) *available.*/\1/p' ;;
    esac
}

_holdfast() {
    local program=$1 verb=${COMP_WORDS[1]-} word=${COMP_WORDS[COMP_CWORD]} previous option
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W "$(_holdfast_verbs "$program") --help --version" -- "$word")
        return
    fi
    # Bash takes = for a word of its own: "--metric", "=", "cos".
    previous=${COMP_WORDS[COMP_CWORD - 1]}
    option=$previous
    if [[ $word == "=" ]]; then
        option=$previous
        word=
    elif [[ $previous == "=" ]]; then
        option=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    if [[ $word == -* && $previous != "=" ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_holdfast_options "$program" "$verb")" -- "$word")
        if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]]; then
            compopt -o nospace 2>/dev/null
        fi
        return
    fi
    mapfile -t COMPREPLY < <(compgen -W "$(_holdfast_values "$verb" "$option" "$program")" -- "$word")
    if [[ ${#COMPREPLY[@]} == 0 || $option == --init ]]; then
        mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$word")
        compopt -o filenames 2>/dev/null
    fi
}

complete -F _holdfast holdfast

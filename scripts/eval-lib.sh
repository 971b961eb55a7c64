# Functions of eval-diploid.sh and eval-planted.sh, which set $pore.
# shellcheck shell=bash

# cpu NAME COMMAND... runs a command and prints its processor time.
cpu() {
	local name=$1 used
	shift
	exec 3>&1
	used=$({ TIMEFORMAT='%U %S'; time "$@" >&3 2>&4; } 4>&2 2>&1)
	exec 3>&-
	awk -v name="$name" '{ printf "%s: %.1f CPU seconds\n", name, $1 + $2 }' <<<"$used" >&2
}

# evaluate NAME REFERENCE TRUTH CALLS [FLAGS] compares calls with the truth.
evaluate() {
	local name=$1 ref=$2 truth=$3 calls=$4
	shift 4
	case " $* " in *" --json "*) ;; *) echo "-- $name" ;; esac
	"$pore" eval variants --ref "$ref" --truth "$truth" "$@" "$calls"
}

# bcftools_wanted tells whether to run bcftools too.
bcftools_wanted() {
	[ "${BCFTOOLS:-1}" != 0 ] || return 1
	command -v bcftools >/dev/null || { echo "bcftools is not installed: nothing to compare with" >&2; return 1; }
}

# plain FROM TO writes a FASTA file without compression, as bcftools wants it.
plain() { gzip -cdf "$1" >"$2"; }

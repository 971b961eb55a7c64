# Functions of eval-diploid.sh, eval-planted.sh and eval-events.sh, which set $pore.
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

# whole NAME FILE... sums the tables of whole events that evaluate wrote, a line for each kind.
whole() {
	local name=$1
	shift
	awk -v name="$name" '
		/^ *Events as a whole/ { table = 1; next }
		NF == 0 { table = 0 }
		table { if (!($1 in seen)) { seen[$1] = 1; order[++n] = $1 } truth[$1] += $2; found[$1] += $3; one[$1] += $4; called[$1] += $7; right[$1] += $8 }
		function share(a, b) { return b ? sprintf("%.4f", a / b) : "-" }
		END {
			print "== whole events, " name ", all seeds"
			for (i = 1; i <= n; i++) {
				k = order[i]
				printf "%s: %d of %d found (%d in one record), recall %s; %d of %d calls right, precision %s\n", k, found[k], truth[k], one[k], share(found[k], truth[k]), right[k], called[k], share(right[k], called[k])
			}
		}' "$@"
}

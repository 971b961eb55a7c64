#!/usr/bin/env bash
# Runs every fuzz target of the module for FUZZTIME each.
set -euo pipefail
cd "$(dirname "$0")/.."
fuzztime=${FUZZTIME:-10s}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# Whatever reaches new code is made smaller first, for up to a minute by default: in
# ten seconds that is all there is time for where one input takes milliseconds. Ten tries do.
minimize=${FUZZMINIMIZETIME:-10x}

# Now and then Go's fuzzer reports the end of its own time as a failure: "context
# deadline exceeded", and no input. That is no finding, and the target runs again.
fuzz() {
	for _ in 1 2 3; do
		if go test -run '^$' -fuzz "^$2\$" -fuzztime "$fuzztime" -fuzzminimizetime "$minimize" "$1" </dev/null >"$log" 2>&1; then
			grep -E 'elapsed|^ok' "$log" | tail -2
			return 0
		fi
		if grep -q 'Failing input' "$log" || ! grep -qx ' *context deadline exceeded' "$log"; then
			cat "$log"
			return 1
		fi
		echo "fuzz: $2 ended by the fuzzer's own deadline, without an input; again"
	done
	cat "$log"
	return 1
}

grep -rlE --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u | while read -r dir; do
	grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$dir"/*_test.go | sed 's/^func //' | while read -r target; do
		echo "fuzz: $dir $target"
		fuzz "$dir" "$target"
	done
done

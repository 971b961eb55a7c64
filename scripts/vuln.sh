#!/usr/bin/env bash
# Looks for known vulnerabilities in what the programs call, and in what the tests and
# the tools of the repository call, with govulncheck and the Go vulnerability database.
#
#   scripts/vuln.sh [PACKAGES]   all packages, or those; fails where the database can't be reached, too
#   scripts/vuln.sh --if-reached says so and succeeds in that case, for machines without a network
#   GOVULNDB=file:///path        a copy of the database (https://go.dev/doc/security/vuln/database)
#
# That it finds what it should is tried in e2e/vuln_test.go with a database of one advisory.
# Exit codes: 0 nothing found, 1 something found or the check failed, 2 wrong usage.
set -euo pipefail
cd "$(dirname "$0")/.."

version=v1.9.0
database=${GOVULNDB:-https://vuln.go.dev}
tolerant=false
if [ "${1:-}" = --if-reached ]; then
	tolerant=true
	shift
fi
case "${1:-}" in
-*) echo "vuln: unknown argument $1" >&2; exit 2 ;;
"") set -- ./... ;;
esac

reached() {
	case "$database" in
	file://*) [ -f "${database#file://}/index/db.json" ] ;;
	*) python3 -c 'import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=20).read()' "$database/index/db.json" 2>/dev/null ;;
	esac
}

if ! reached; then
	echo "vuln: NOT CHECKED: the vulnerability database $database can't be reached from here; run make vuln where it can" >&2
	$tolerant && exit 0
	exit 1
fi
go run "golang.org/x/vuln/cmd/govulncheck@$version" -db "$database" -test "$@" || {
	echo "vuln: govulncheck found something or failed: its message is above" >&2
	exit 1
}
echo "vuln: no known vulnerability in what is called" >&2

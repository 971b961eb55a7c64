#!/usr/bin/env bash
# Installs into a folder and has systemd judge the units there: they load without a
# warning, name programs and users that are there, and are as closed as they say.
#
#   deploy/systemd/check.sh
#
# Needs systemd-analyze, systemd-sysusers and systemd-tmpfiles; systemd need not run.
set -euo pipefail
cd "$(dirname "$0")/../.."
say() { echo "deploy/systemd: $*" >&2; }
fail() { say "$@"; exit 1; }

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
DESTDIR=$root deploy/systemd/install.sh
# Settings of the user's are kept.
echo '# mine' >>"$root/etc/porestream/processor.env"
DESTDIR=$root deploy/systemd/install.sh
tail -1 "$root/etc/porestream/processor.env" | grep -qx '# mine' || fail "install overwrote /etc/porestream/processor.env"

say "users and folders"
systemd-sysusers --root="$root" "$root/usr/local/lib/sysusers.d/porestream.conf"
for user in porestream porestream-kafka; do
	grep -q "^$user:" "$root/etc/passwd" || fail "no user $user"
done
systemd-tmpfiles --root="$root" --create "$root/usr/local/lib/tmpfiles.d/porestream.conf"
[ "$(stat -c %a "$root/etc/porestream")" = 750 ] || fail "/etc/porestream is open"

say "units"
# What the machine has, and units may refer to.
mkdir -p "$root/usr/lib/systemd/system" "$root/bin" "$root/opt/kafka/bin"
cp -a /usr/lib/systemd/system/*.target /usr/lib/systemd/system/*.slice "$root/usr/lib/systemd/system/" 2>/dev/null ||
	cp -a /lib/systemd/system/*.target "$root/usr/lib/systemd/system/"
install -m 755 /bin/kill "$root/bin/kill"
for script in kafka-storage.sh kafka-server-start.sh; do
	install -m 755 /dev/null "$root/opt/kafka/bin/$script"
done
units=(porestream-ingest.service porestream-processor.service porestream-kafka.service porestream.target)
mkdir -p "$root/etc/systemd/system"
cp "$root"/usr/local/lib/systemd/system/porestream* "$root/etc/systemd/system/"
verify() {
	systemd-analyze verify --root="$root" --man=no --recursive-errors=no "${units[@]}" >"$root/verify" 2>&1 || { cat "$root/verify" >&2; return 1; }
	! grep -i porestream "$root/verify" >&2
}
verify || fail "units are not in order"

# 0 is closed and 100 open: programs, and Java, which makes code while it runs.
for limit in porestream-ingest.service:18 porestream-processor.service:18 porestream-kafka.service:22; do
	systemd-analyze security --offline=true --root="$root" --no-pager --threshold="${limit#*:}" "${limit%:*}" >"$root/security" 2>&1 ||
		{ grep -E '✗|Overall' "$root/security" >&2 || cat "$root/security" >&2; fail "${limit%:*} is more open than ${limit#*:}"; }
	say "$(grep Overall "$root/security" || tail -1 "$root/security")"
done
mkdir -p "$root/etc/systemd/system/porestream-processor.service.d"
cp deploy/systemd/gpu/porestream-processor.conf "$root/etc/systemd/system/porestream-processor.service.d/gpu.conf"
verify || fail "units are not in order with the drop-in for GPUs"

say "this check finds what is wrong"
sed -i 's/^ProtectSystem=strict/ProtectSytem=strict/' "$root/etc/systemd/system/porestream-ingest.service"
! verify 2>/dev/null || fail "a misspelt setting was not found"

say "sources"
# What MinKNOW's machine and the user have yet to bring.
if ! "$root/usr/local/bin/ingest" check "$root/etc/porestream/sources.yaml" 2>"$root/sources"; then
	sed -E '/: [0-9]+ errors?$/d; /(minknow\.token|minknow\/ca\.crt): no such file or directory$/d' "$root/sources" >"$root/wrong"
	[ ! -s "$root/wrong" ] || { cat "$root/wrong" >&2; fail "sources.yaml is not in order"; }
fi
"$root/usr/local/bin/ingest" run --help >/dev/null
args=$(sed -n 's/^PROCESSOR_ARGS=//p' "$root/etc/porestream/processor.env")
# Words, as systemd makes them.
# shellcheck disable=SC2086
"$root/usr/local/bin/processor" --listen=127.0.0.1:9102 --log-format=json $args --help >/dev/null || fail "the processor doesn't understand its arguments"
say ok

#!/usr/bin/env bash
# Checks what is deployed with the tools that will read it: Prometheus' own
# checker on configuration, rules and the exported page, Compose's loader on the
# Compose files, Kubernetes' types on the manifests, systemd on the units, the
# images, a Prometheus that watches a real run, from which every query of the
# dashboards must get data, and one that watches programs to which faults happen, of
# each of which the alerts must tell.
#
#   make build && deploy/check.sh
#
# Needs Go, curl, systemd-analyze, and prometheus with promtool (Debian: the packages
# systemd and prometheus, which are installed where this runs as root with apt-get). hadolint is used where
# it is there. Images are left out where PORESTREAM_UNCHANGED lists them, as CI has it. PORESTREAM_COMPOSE_TRIAL=1 runs the Compose file, too, with an engine of its own.
set -euo pipefail
cd "$(dirname "$0")/.."

service=127.0.0.1:${PORESTREAM_CHECK_PORT:-9109}         # the run's metrics
watcher=127.0.0.1:${PORESTREAM_CHECK_PROMETHEUS_PORT:-9190} # Prometheus

say() { echo "deploy/check: $*" >&2; }
fail() { say "$@"; exit 1; }

missing() {
	local tool
	for tool in go curl prometheus promtool systemd-analyze; do
		command -v "$tool" >/dev/null || echo "$tool"
	done
}
if [ -n "$(missing)" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	say "installing prometheus, systemd and curl"
	apt-get install -y -q prometheus systemd curl >&2 || { apt-get update -q >&2 && apt-get install -y -q prometheus systemd curl >&2; } || true
fi
[ -z "$(missing)" ] || fail "missing: $(missing | tr '\n' ' ')(Debian: apt-get install prometheus systemd curl)"
for program in pore ingest processor; do
	[ -x "bin/$program" ] || fail "bin/$program is missing: run make build"
done

say "Prometheus configuration and rules"
promtool check config deploy/prometheus/prometheus.yml >&2
(cd deploy/prometheus && promtool test rules rules_test.yml >&2)

say "Compose files"
(
	cd deploy/composecheck
	go run . ../compose/compose.yaml
	go run . ../compose/compose.yaml ../compose/compose.cuda.yaml
) >&2

say "Kubernetes manifests"
(
	cd deploy/kubecheck
	go run . -bin ../../bin ../kubernetes/overlays/* ../kubernetes/setup/*
) >&2

if command -v hadolint >/dev/null; then
	say "Dockerfile"
	hadolint deploy/docker/Dockerfile >&2
else
	say "Dockerfile: skipped, hadolint is not there"
fi

say "units of systemd"
deploy/systemd/check.sh >&2

tmp=$(mktemp -d)
pids=()
cleanup() {
	for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
	wait 2>/dev/null || true
	rm -rf "$tmp"
}
trap cleanup EXIT

# unless_impossible WHAT COMMAND...: 77 is the exit code of what can't be done here, and has said why.
unless_impossible() {
	local rc=0
	say "$1"
	"${@:2}" >&2 || rc=$?
	case $rc in
	0) ;;
	77) say "$1: skipped" ;;
	*) fail "$1: exit code $rc" ;;
	esac
}
save=()
[ "${PORESTREAM_COMPOSE_TRIAL:-}" != 1 ] || save=(--save "$tmp/image.tar")
case ",${PORESTREAM_UNCHANGED:-}," in
*,images,*) say "images: unchanged since they passed" ;;
*) unless_impossible images deploy/docker/images.sh "${save[@]}" cpu demo default ;;
esac
if [ -s "$tmp/image.tar" ]; then
	unless_impossible "Compose, with Docker's engine" deploy/composetrial/trial.sh "$tmp/image.tar"
	rm "$tmp/image.tar"
fi

say "a run under a real Prometheus"
cat >"$tmp/prometheus.yml" <<YAML
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [$PWD/deploy/prometheus/rules.yml]
scrape_configs:
  - job_name: processor
    static_configs: [{targets: ["$service"]}]
YAML
prometheus --config.file="$tmp/prometheus.yml" --storage.tsdb.path="$tmp/tsdb" \
	--web.listen-address="$watcher" --log.level=warn >"$tmp/prometheus.log" 2>&1 &
watching=$!
pids+=("$watching")
for _ in $(seq 60); do
	curl -sf "http://$watcher/-/ready" >/dev/null && break
	kill -0 "$watching" 2>/dev/null || { cat "$tmp/prometheus.log" >&2; fail "Prometheus ended"; }
	sleep 0.5
done
curl -sf "http://$watcher/-/ready" >/dev/null || { cat "$tmp/prometheus.log" >&2; fail "Prometheus did not get ready on $watcher"; }

# With a network and a panel, so that what is shown about them has data.
bin/pore run --listen "$service" --pace 20 --snapshot-interval 2s --out "$tmp/out" --variant-model r9-r10-pileup --panel testdata/lambda/panel.yaml \
	--ref testdata/lambda/reference.fa --gff testdata/lambda/genes.gff3 testdata/lambda/reads.pod5 >"$tmp/run.log" 2>&1 &
run=$!
pids+=("$run")
while kill -0 "$run" 2>/dev/null; do
	# The last page before the end has seen most of the run.
	if curl -sf "http://$service/metrics" -o "$tmp/page.new"; then mv "$tmp/page.new" "$tmp/page"; fi
	sleep 1
done
wait "$run" || { cat "$tmp/run.log" >&2; fail "pore run failed"; }
[ -s "$tmp/page" ] || fail "pore run exported nothing on $service"

say "the exported page"
promtool check metrics <"$tmp/page" >&2

say "every query of dashboards and rules"
PORESTREAM_TEST_PROMETHEUS="http://$watcher" go test -vet=off -count=1 -run '^TestLive(Queries|Labels)' ./deploy/deploytest >&2
say "every alert, by faults of running programs"
PORESTREAM_TEST_FAULTS=. go test -vet=off -count=1 -timeout 20m -v -run '^TestAlertsReportFaults$' ./deploy/deploytest >&2
say "ok"

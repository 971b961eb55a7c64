#!/usr/bin/env bash
# Measures basecalling on a GPU and writes what comes out to docs/measured/gpu.md: what make gpu
# runs. For each model: whether it runs, and which nodes of its network a GPU leaves to
# the CPU; throughput, utilisation and energy over batch sizes; whether the GPU calls what
# the CPU calls; and the time from a read's last signal to its call.
#
# ORT_LIB names a CUDA build of ONNX Runtime whose libraries are found. Without it the one
# that the images have is fetched, with CUDA's and cuDNN's libraries (2 GB), into GPU_HOME.
#
# What can be set from outside: DEVICE (cuda:0; with cpu it tries itself, with little and
# in a few minutes), SIGNAL, MODELS, OUT (- for standard output), SAMPLES, ROUNDS, BATCHES,
# DURATION, GPU_HOME, PORE (the program).
set -euo pipefail
cd "$(dirname "$0")/.."
fail() {
	echo "gpu: $*" >&2
	exit 1
}

pore=${PORE:-bin/pore}
device=${DEVICE:-cuda:0}
signal=${SIGNAL:-testdata/lambda/reads.pod5}
[ -e "$signal" ] || fail "$signal is not there; SIGNAL names another recording"
sweep=(--sweep) agreement=()
case $device in
cpu)
	read -ra models <<<"${MODELS:-r9.4-fast}"
	out=${OUT:--} samples=${SAMPLES:-1} rounds=${ROUNDS:-1} duration=${DURATION:-2s}
	sweep+=(--scaling=false --sweep-batches "${BATCHES:-1,4}")
	agreement=(--least-identity 0.99 --least-identity-int8 0.9 --least-identity-scores 0.98) # of a read or two, where one edit is a lot
	;;
cuda | cuda:*)
	read -ra models <<<"${MODELS:-r9.4-fast r9.4-hac}"
	out=${OUT:-docs/measured/gpu.md} samples=${SAMPLES:-10000000} rounds=${ROUNDS:-3} duration=${DURATION:-30s}
	[ -z "${BATCHES:-}" ] || sweep+=(--sweep-batches "$BATCHES")
	command -v nvidia-smi >/dev/null || fail "no NVIDIA GPU can be used here: there is no nvidia-smi, which comes with the driver; make gpu DEVICE=cpu tries the same on the CPU"
	gpus=$(nvidia-smi --query-gpu=index,name,driver_version,memory.total,power.limit --format=csv,noheader 2>&1) ||
		fail "no NVIDIA GPU can be used here (nvidia-smi: ${gpus##*$'\n'}); make gpu DEVICE=cpu tries the same on the CPU"
	;;
*) fail "DEVICE=$device is neither cpu nor cuda:N" ;;
esac

if [[ $device == cuda* && -z ${ORT_LIB:-} ]]; then
	home=${GPU_HOME:-.cache/gpu}
	version=$(sed -n 's/^ort_gpu_version=//p' deploy/docker/stage.sh)
	if [ "$(cat "$home/.version" 2>/dev/null)" != "$version" ]; then
		echo "gpu: fetching onnxruntime-gpu $version with CUDA's libraries into $home" >&2
		rm -rf "$home"
		python3 -m venv "$home" || fail "making a Python environment failed: python3 -m venv is needed, or ORT_LIB"
		"$home/bin/pip" install --quiet --disable-pip-version-check "onnxruntime-gpu[cuda,cudnn]==$version" ||
			fail "fetching onnxruntime-gpu $version: pip's message is above; ORT_LIB names a library that is here already"
		echo "$version" >"$home/.version"
	fi
	packages=$("$home/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
	export ORT_LIB=$packages/onnxruntime/capi/libonnxruntime.so.$version
	for folder in "$packages"/nvidia/*/lib; do
		LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
	done
	export LD_LIBRARY_PATH
fi
# In the order in which nvidia-smi has them.
export CUDA_DEVICE_ORDER=${CUDA_DEVICE_ORDER:-PCI_BUS_ID}

report=$(mktemp)
trap 'rm -f "$report"' EXIT
wrong=()

# measured ARGUMENTS...: runs pore, and reports the command and what it prints. What it says when
# it fails is a part of the report, and the others are measured all the same.
measured() {
	local message status=0
	message=$(mktemp)
	echo "gpu: pore $*" >&2
	printf '\n`pore %s`\n\n' "$*" >>"$report"
	"$pore" "$@" >>"$report" 2>"$message" || status=$?
	cat "$message" >&2
	if [ "$status" -ne 0 ]; then
		wrong+=("pore $*")
		printf '\n**It failed:** %s\n' "$(tail -n 1 "$message")" >>"$report"
	elif [ -s "$message" ]; then
		sed 's/^/    /' "$message" | cat <(echo) - >>"$report" # warnings
	fi
	rm -f "$message"
}

{
	printf '# Basecalling, measured on %s\n\n' "$device"
	printf '`make gpu` wrote this on %s. What the columns mean is in [devices.md](../operate/devices.md).\n\n' "$(date -u +%F)"
	printf '| | |\n|---|---|\n'
	printf '| processor | %s, %s cores |\n' "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)"
	if [ -n "${gpus:-}" ]; then
		while IFS= read -r gpu; do printf '| GPU, driver, memory, power limit | %s |\n' "$gpu"; done <<<"$gpus"
	fi
	printf '| program | %s |\n' "$("$pore" version | sed 's/,.*//' | tr -s ' \n' ' ' | sed 's/ *$//')"
	printf '| recording | %s |\n' "$(basename "$signal")"
} >"$report"

for model in "${models[@]}"; do
	printf '\n## %s\n' "$(basename "$model")" >>"$report"
	measured model verify --device "$device" "$model"
	measured bench basecall --model "$model" --device "$device" --samples "$samples" --rounds "$rounds" "${sweep[@]}" "$signal"
	measured bench agreement --model "$model" --device "$device" "${agreement[@]}" --samples "$samples" "$signal"
	measured bench latency --model "$model" --device "$device" --samples "$samples" --duration "$duration" "$signal"
done

if [ "$out" = - ]; then
	cat "$report"
else
	mkdir -p "$(dirname "$out")"
	cat "$report" >"$out"
	echo "gpu: $out is written" >&2
fi
[ ${#wrong[@]} -eq 0 ] || fail "${#wrong[@]} of the measurements failed, which the report tells: ${wrong[0]}"

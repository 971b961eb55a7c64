#!/usr/bin/env bash
# What must be true of an image, however it was made. images.sh and rootfs.sh source this and define
#
#   say, fail MESSAGE   tell, and give up
#   within COMMAND...   runs a program as deployment does: read-only but for /tmp, unprivileged
#   serve COMMAND...    the same, of the one program that runs for longer; it returns when the program ends
#   beside COMMAND...   the same, where the ports of that program are reached
#
# Folders of the host: $work, which is removed in the end, and $scratch, which the programs have as /tmp.
# Run by itself this does nothing.
# shellcheck disable=SC2034,SC2154 # what the two give and take

lambda=/usr/local/share/porestream/lambda

# The port is that of the host where serve has no network of its own.
port=${PORESTREAM_ROOTFS_PORT:-9119}

# try_libraries: programs and ONNX Runtime find every library that they link against.
try_libraries() {
	local loader file
	case $(uname -m) in
	aarch64) loader=/lib/ld-linux-aarch64.so.1 ;;
	*) loader=/lib64/ld-linux-x86-64.so.2 ;;
	esac
	for file in /usr/local/bin/{ingest,processor,pore,healthcheck} /usr/local/lib/libonnxruntime.so; do
		# A program of Go alone has none, and the loader says so.
		within "$loader" --list "$file" >"$work/libraries" 2>&1 || grep -q 'statically linked' "$work/libraries" ||
			{ cat "$work/libraries" >&2; fail "$file does not load"; }
		! grep 'not found' "$work/libraries" >&2 || fail "$file misses libraries"
	done
}

# try_cuda_libraries ROOT: what the CUDA provider links against is in the image's file system, ROOT, or in NVIDIA's
# cudnn-runtime image and its driver.
try_cuda_libraries() {
	local library wanted
	wanted=$(readelf -d "$1/usr/local/lib/libonnxruntime_providers_cuda.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
	[ -n "$wanted" ] || fail "the CUDA provider links against nothing"
	for library in $wanted; do
		if [[ $library =~ ^lib(cublas|cublasLt|cudart|cufft|curand|nvrtc|nvJitLink)\.so\.1[0-9]$|^libcudnn\.so\.9$|^libcuda\.so\.1$ ]]; then
			continue
		fi
		[ -n "$(find "$1/usr/lib" "$1/usr/local/lib" -name "$library" -print -quit)" ] ||
			fail "the CUDA provider links against what neither the image nor NVIDIA's has: $library"
	done
	say "the CUDA provider wants: ${wanted//$'\n'/ }"
}

# try_programs COMMIT: they start, and say of which commit they are.
try_programs() {
	local program version
	for program in ingest processor pore; do
		version=$(within "$program" --version) || fail "$program does not start"
		[ "${version%% *}" = "$program" ] || fail "$program says that it is: $version"
		[[ $version = *"(${1:0:12})"* ]] || fail "$program doesn't say of which commit it is: $version"
	done
	say "${version%%$'\n'*}"
}

# try_no_shell: there is none to get hold of.
try_no_shell() {
	! within /bin/sh -c 'echo a shell' >"$work/shell" 2>&1 || { cat "$work/shell" >&2; fail "there is a shell"; }
}

# try_read_only FOLDER: what pore is given in FOLDER it can't write beside.
try_read_only() {
	! within pore run --ref "$1/reference.fa" --out /out /nothing 2>"$work/err" || fail "pore run wrote to the image"
	grep -q 'read-only\|permission denied' "$work/err" || { cat "$work/err" >&2; fail "pore run failed for another reason than that it can't write"; }
}

# try_recording FOLDER: the recording of phage lambda in FOLDER is processed on the CPU, healthcheck sees the run
# healthy while it lasts and not afterwards, and the variants are the truth's.
try_recording() {
	local pid healthy=no url=http://127.0.0.1:$port/healthz
	rm -rf "${scratch:?}"/out
	serve pore run --listen "127.0.0.1:$port" --pace max --device cpu --out /tmp/out \
		--ref "$1/reference.fa" --gff "$1/genes.gff3" "$1/reads.pod5" >"$work/run.log" 2>&1 &
	pid=$!
	while kill -0 "$pid" 2>/dev/null; do
		if [ $healthy = no ] && beside healthcheck "$url" >"$work/health" 2>&1; then healthy=yes; fi
		sleep 0.5
	done
	wait "$pid" || { cat "$work/run.log" >&2; fail "pore run failed"; }
	[ $healthy = yes ] || { cat "$work/health" >&2; fail "healthcheck never saw the run healthy"; }
	! within healthcheck "$url" 2>"$work/health" || fail "healthcheck says healthy when nothing is there"
	grep -q 'connection refused' "$work/health" || { cat "$work/health" >&2; fail "healthcheck gives another reason than that nobody listens"; }
	[ "$(stat -c %u:%g "$scratch/out/variants.vcf")" = 65532:65532 ] || fail "the programs don't run as 65532:65532"
	diff <(passed testdata/lambda/truth.vcf) <(passed "$scratch/out/variants.vcf") >&2 || fail "the variants are not the truth's"
	say "the truth's variants; $(tail -1 "$work/run.log")"
}

passed() { awk -F'\t' '!/^#/ && ($7 == "PASS" || $7 == ".") {print $1, $2, $4, $5}' "$1"; }

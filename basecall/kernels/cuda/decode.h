// What decoding scores is whatever network they are of: how it is called, and how a GPU gets through windows.
#pragma once
#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#define BOTH_SIDES __host__ __device__
#else
#define BOTH_SIDES
#endif

constexpr uint8_t no_number = 0xFF;

// Decoding is some windows to decode. The scores are floats or half floats, [steps][windows][classes] or
// [windows][steps][classes].
//
// Of each frame the path says whether a base begins there (4) and which is the newest (0 to 3),
// or that a score was no finite number (no_number), after which there is nothing. The probability
// is that of the base which begins there.
struct Decoding {
	const void *scores;
	bool half, windows_first;
	const int32_t *frames; // that count, of each window
	int steps, windows;
	uint8_t *path; // [windows][steps]
	float *probability;
};

// DecodePlan says what a GPU needs to decode. A warp has a window to itself from its first pass to its last, so
// that no warp waits for another; windows are decoded in parts for which there is memory.
struct DecodePlan {
	int warps;     // of a block
	size_t shared; // bytes of a block
	size_t window; // bytes in global memory, of each window
	int at_a_time; // windows

	DecodePlan(const Decoding &call, int warps_of_block, size_t shared_of_warp, size_t window_bytes, size_t most_global)
		: warps(warps_of_block), shared(warps_of_block * shared_of_warp), window(window_bytes) {
		at_a_time = (int)(most_global / window) / warps * warps;
		if (at_a_time < warps) at_a_time = warps;
		if (at_a_time > call.windows) at_a_time = call.windows;
	}
};

// Part is the windows of a call that are decoded at a time.
template <class CALL> struct Part {
	CALL call;
	char *memory;       // the plan's bytes of each window
	int first, windows; // of the call's
};

// in_parts has run decode part after part with so many blocks, until one fails, and is false then.
template <class CALL, class RUN> bool in_parts(const CALL &call, const DecodePlan &plan, char *memory, RUN run) {
	Part<CALL> part{call, memory, 0, 0};
	for (; part.first < call.windows; part.first += plan.at_a_time) {
		const int left = call.windows - part.first;
		part.windows = plan.at_a_time < left ? plan.at_a_time : left;
		if (!run(part, (unsigned)((part.windows + plan.warps - 1) / plan.warps))) return false;
	}
	return true;
}

#ifdef __CUDACC__

constexpr size_t most_memory = (size_t)1 << 30; // of windows that are decoded at a time

// launch_parts queues a kernel, which takes a Part<CALL>, for all parts of a call.
template <class CALL> const char *launch_parts(const CALL &call, const DecodePlan &plan, const void *kernel, void *stream_handle) {
	cudaStream_t stream = (cudaStream_t)stream_handle;
	cudaError_t err;
	if ((err = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)plan.shared)) != cudaSuccess) return cudaGetErrorString(err);
	char *memory;
	if ((err = cudaMallocAsync((void **)&memory, plan.at_a_time * plan.window, stream)) != cudaSuccess) return cudaGetErrorString(err);
	in_parts(call, plan, memory, [&](Part<CALL> &part, unsigned blocks) {
		void *arguments[] = {&part};
		err = cudaLaunchKernel(kernel, dim3(blocks), dim3(32 * plan.warps), arguments, plan.shared, stream);
		return err == cudaSuccess;
	});
	const cudaError_t freed = cudaFreeAsync(memory, stream);
	if (err == cudaSuccess) err = freed;
	return err == cudaSuccess ? nullptr : cudaGetErrorString(err);
}

#endif

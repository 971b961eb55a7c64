// The layer before a decoder on a GPU: scores of states, with their bias and activation.
//
// A block keeps 32 or 64 rows and multiplies them by all weights, which stream from the second cache right into the registers of
// the one warp that needs them. A thread has eight neighbours of a row's scores, and writes them at once.
#include "columns.h"
#include "head.h"

// TILES is the number of tiles of 16 rows that a block has.
template <int TILES>
__global__ void __launch_bounds__(linear_threads, 2) head_kernel(const Head a) {
	const int width = a.width, pitch = lstm_row(width), steps = width / 16;
	uint16_t *const x = (uint16_t *)dynamic_shared;
	const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
	const size_t first = (size_t)blockIdx.x * 16 * TILES;
	const int rows = (int)min(a.rows - first, (size_t)(16 * TILES));

	for (int r = warp; r < 16 * TILES; r += linear_warps)
		for (int c = 8 * lane; c < width; c += 256) {
			if (r < rows)
				copy_async(x + r * pitch + c, a.x + (first + r) * width + c);
			else
				*(uint4 *)(x + r * pitch + c) = uint4{0, 0, 0, 0};
		}
	copy_wait();
	__syncthreads();

	const uint16_t *const mine = x + lane % 16 * pitch + lane / 16 * 8; // of the first tile and step
#pragma unroll 1
	for (int group = warp; group < linear_groups(a.classes); group += linear_warps) {
		const int column = linear_group * group + 8 * (lane % 4);
		float d[4][TILES][4];
		begin_sums<TILES>(d, a.bias + column);
		add_products<TILES == 4 ? 1 : 2, TILES>(d, a.weights + ((size_t)group * steps * 64 + lane) * 8, steps, [&](int m, int k) { return mine + m * 16 * pitch + k * 16; });
		uint16_t *to = a.y + (first + lane / 4) * a.classes + column;
#pragma unroll
		for (int m = 0; m < TILES; m++)
#pragma unroll
			for (int after = 0; after < 2; after++, to += 8 * a.classes)
				if (16 * m + 8 * after + lane / 4 < rows) *(uint4 *)to = eight_of<TILES>(d, m, after, a.activation);
	}
}

#ifdef __CUDACC__

#include "launch.h"

const char *launch_head(const Head &call, void *stream) {
	int processors, most;
	if (const char *what = read_device(processors, most)) return what;
	const LinearPlan plan = plan_head(call.width, call.rows, processors, most);
	if (plan.tiles == 0) return "the GPU's multiprocessors have too little shared memory for a layer of this width";
	return launch_linear(plan.tiles == 2 ? head_kernel<2> : head_kernel<4>, plan, call, stream);
}

#endif

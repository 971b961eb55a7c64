// The LSTM layer on a GPU.
//
// A block keeps 16 to 64 windows for all steps, so no block ever waits for another. In each
// step it multiplies [x|h] by all weights of the layer. These stream from the second cache right
// into the registers of the one warp that needs them, packed as the tensor cores take them
// (kernels.PackLSTM), a few ahead of their use. A warp has eight units at a time with all four gates
// of each, so that one thread has all that a cell needs.
//
// Factors are half floats; sums and cells are floats. The order of a sum is that of its
// factors, whatever the number of windows and of blocks.
#include "gpu.h"
#include "lstm.h"

// WIDTH is that of the layer if the compiler is to know it, and 0 for any. TILES is the
// number of tiles of 16 windows that a block has.
template <int WIDTH, int TILES>
__global__ void __launch_bounds__(lstm_threads, 1) lstm_kernel(const LSTM a) {
	const int width = WIDTH ? WIDTH : a.width;
	const int row = lstm_row(width), groups = width / 8, passes = lstm_passes(width);
	const int steps_x = width / 16, steps_all = 2 * steps_x; // of 16 factors, x first and then h
	// As many weights are on their way as divide the steps, so that x ends where a round ends.
	constexpr int ahead = WIDTH == 0 || WIDTH / 16 % 4 == 0 ? 4 : WIDTH / 16 % 7 == 0 ? 7 : 1;
	const size_t tile = (size_t)16 * TILES * row;
	uint16_t *const shared = (uint16_t *)dynamic_shared; // x of two steps, then h of two
	const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
	const int first = blockIdx.x * 16 * TILES, windows = a.windows - first;
	const size_t cell_count = lstm_cells(width, TILES);
	float *const cells = a.cells ? a.cells + blockIdx.x * cell_count : (float *)(shared + 4 * tile);

	auto fetch = [&](int t, uint16_t *to) {
		const uint16_t *from = a.x + ((size_t)t * a.windows + first) * width;
		for (int r = warp; r < 16 * TILES; r += lstm_warps)
			for (int c = 8 * lane; c < width; c += 256) {
				if (r < windows)
					copy_async(to + r * row + c, from + (size_t)r * width + c);
				else
					*(uint4 *)(to + r * row + c) = uint4{0, 0, 0, 0};
			}
	};

	for (size_t i = thread; i < tile; i += lstm_threads) shared[2 * tile + i] = 0;
	for (size_t i = thread; i < cell_count; i += lstm_threads) cells[i] = 0;
	fetch(a.reverse ? a.steps - 1 : 0, shared);

	for (int step = 0; step < a.steps; step++) {
		const int t = a.reverse ? a.steps - 1 - step : step, parity = step & 1;
		const uint16_t *const x = shared + parity * tile;
		const uint16_t *const h = shared + (2 + parity) * tile;
		uint16_t *const next = shared + (2 + (parity ^ 1)) * tile;
		copy_wait();
		__syncthreads();
		if (step + 1 < a.steps) fetch(a.reverse ? t - 1 : t + 1, shared + (parity ^ 1) * tile);

#pragma unroll 1
		for (int pass = 0; pass < passes; pass++) {
			const int group = pass * lstm_warps + warp;
			if (group >= groups) break; // the last pass needn't have work for all warps
			const uint16_t *weights = a.weights + ((size_t)group * steps_all * 64 + lane) * 8;
			const int unit = group * 8 + 2 * (lane % 4);
			float d[4][TILES][4];
#pragma unroll
			for (int gate = 0; gate < 4; gate++) {
				const float b0 = a.bias[gate * width + unit], b1 = a.bias[gate * width + unit + 1];
#pragma unroll
				for (int m = 0; m < TILES; m++) {
					d[gate][m][0] = d[gate][m][2] = b0;
					d[gate][m][1] = d[gate][m][3] = b1;
				}
			}
			uint4 b[ahead][2];
#pragma unroll
			for (int k = 0; k < ahead; k++)
				if (k < steps_all) {
					b[k][0] = load_once(weights + k * 512);
					b[k][1] = load_once(weights + k * 512 + 256);
				}
#pragma unroll 1
			for (int k0 = 0; k0 < steps_all; k0 += ahead) {
				const uint16_t *round = k0 < steps_x ? x + k0 * 16 : h + (k0 - steps_x) * 16;
#pragma unroll
				for (int j = 0; j < ahead; j++) {
					const int k = k0 + j;
					if (WIDTH == 0 && k >= steps_all) break;
					const uint4 e = b[j][0], f = b[j][1];
					if (k + ahead < steps_all) {
						b[j][0] = load_once(weights + (k + ahead) * 512);
						b[j][1] = load_once(weights + (k + ahead) * 512 + 256);
					}
					const uint16_t *from = WIDTH || k < steps_x || k0 >= steps_x ? round + j * 16 : h + (k - steps_x) * 16;
#pragma unroll
					for (int m = 0; m < TILES; m++) {
						uint32_t factors[4];
						load_matrix4(factors, from + (m * 16 + lane % 16) * row + lane / 16 * 8);
						multiply_add(d[0][m], factors, e.x, e.y);
						multiply_add(d[1][m], factors, e.z, e.w);
						multiply_add(d[2][m], factors, f.x, f.y);
						multiply_add(d[3][m], factors, f.z, f.w);
					}
				}
			}
#pragma unroll
			for (int m = 0; m < TILES; m++) {
				float state[4];
#pragma unroll
				for (int i = 0; i < 4; i++) {
					float *cell = cells + ((size_t)(pass * TILES + m) * 4 + i) * lstm_threads + thread;
					const float in = sigmoid(d[0][m][i]), forget = sigmoid(d[1][m][i]);
					const float value = forget * *cell + in * hyperbolic_tangent(d[2][m][i]);
					*cell = value;
					state[i] = sigmoid(d[3][m][i]) * hyperbolic_tangent(value);
				}
				uint16_t *to = next + (m * 16 + lane / 4) * row + unit;
				*(uint32_t *)to = to_half(state[0]) | (uint32_t)to_half(state[1]) << 16;
				*(uint32_t *)(to + 8 * row) = to_half(state[2]) | (uint32_t)to_half(state[3]) << 16;
			}
		}
		__syncthreads();

		uint16_t *y = a.y + ((size_t)t * a.windows + first) * width;
		for (int r = warp; r < 16 * TILES && r < windows; r += lstm_warps)
			for (int c = 8 * lane; c < width; c += 256) {
				uint4 v = *(const uint4 *)(next + r * row + c);
				if (a.residual) {
					const uint4 u = *(const uint4 *)(x + r * row + c);
					auto add = [](uint32_t p, uint32_t q) {
						return to_half(from_half((uint16_t)p) + from_half((uint16_t)q)) |
							(uint32_t)to_half(from_half((uint16_t)(p >> 16)) + from_half((uint16_t)(q >> 16))) << 16;
					};
					v = uint4{add(u.x, v.x), add(u.y, v.y), add(u.z, v.z), add(u.w, v.w)};
				}
				*(uint4 *)(y + (size_t)r * width + c) = v;
			}
	}
}

#ifdef __CUDACC__

#include "launch.h"

namespace {

template <int WIDTH> void (*lstm_of(int tiles))(const LSTM) {
	switch (tiles) {
	case 1: return lstm_kernel<WIDTH, 1>;
	case 2: return lstm_kernel<WIDTH, 2>;
	default: return lstm_kernel<WIDTH, 4>;
	}
}

} // namespace

const char *check_device() {
	int device, major;
	cudaError_t err;
	if ((err = cudaGetDevice(&device)) != cudaSuccess || (err = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device)) != cudaSuccess)
		return cudaGetErrorString(err);
	if (major < 8) return "the GPU is older than compute capability 8.0 (Ampere)";
	// What a launch needs of the card's memory stays with the process from then on: taking it anew each time would cost milliseconds.
	cudaMemPool_t pool;
	uint64_t all = UINT64_MAX;
	if ((err = cudaDeviceGetDefaultMemPool(&pool, device)) != cudaSuccess || (err = cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all)) != cudaSuccess)
		return cudaGetErrorString(err);
	return nullptr;
}

const char *read_device(int &processors, int &most_shared) {
	int device;
	cudaError_t err;
	if ((err = cudaGetDevice(&device)) != cudaSuccess ||
		(err = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device)) != cudaSuccess ||
		(err = cudaDeviceGetAttribute(&most_shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device)) != cudaSuccess)
		return cudaGetErrorString(err);
	return nullptr;
}

const char *launch_lstm(LSTM call, void *stream_handle) {
	cudaStream_t stream = (cudaStream_t)stream_handle;
	int processors, most;
	cudaError_t err;
	if (const char *what = read_device(processors, most)) return what;
	const LSTMPlan plan = plan_lstm(call.width, call.windows, processors, most);
	if (plan.tiles == 0) return "the GPU's multiprocessors have too little shared memory for a layer of this width";
	void (*kernel)(const LSTM);
	switch (call.width) {
	case 112: kernel = lstm_of<112>(plan.tiles); break;
	case 256: kernel = lstm_of<256>(plan.tiles); break;
	case 384: kernel = lstm_of<384>(plan.tiles); break;
	default: kernel = lstm_of<0>(plan.tiles);
	}
	if ((err = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)plan.shared)) != cudaSuccess)
		return cudaGetErrorString(err);
	call.cells = nullptr;
	if (plan.cells && (err = cudaMallocAsync((void **)&call.cells, plan.cells * sizeof(float), stream)) != cudaSuccess)
		return cudaGetErrorString(err);
	kernel<<<plan.blocks, lstm_threads, plan.shared, stream>>>(call);
	err = cudaGetLastError();
	if (call.cells) {
		cudaError_t freed = cudaFreeAsync(call.cells, stream);
		if (err == cudaSuccess) err = freed;
	}
	return err == cudaSuccess ? nullptr : cudaGetErrorString(err);
}

#endif

// The convolutions between a signal and the first LSTM layer on a GPU.
//
// A block has 32 or 64 frames of one window. It computes what the last convolution takes for them in shared memory, as floats, and rounds
// that to half floats, [position][16 channels]: a tap of the last convolution is then a row of a matrix for each frame, a stride apart,
// and the products are the tensor cores'. Where the signal ends each convolution is given zeros.
#include "columns.h"
#include "stem.h"

namespace {

DEVICE float small_activated(float v, const Activation &f) { return f.kind == Activation::silu ? v * sigmoid(v) : f.kind == Activation::tanh ? f.scale * hyperbolic_tangent(v) : v; }

} // namespace

// TILES is the number of tiles of 16 frames that a block has.
template <int TILES>
__global__ void __launch_bounds__(linear_threads, 2) stem_kernel(const Stem a) {
	const StemShape at(a, TILES);
	uint16_t *const positions = (uint16_t *)dynamic_shared;
	float *const level = (float *)(dynamic_shared + at.level), *const small = (float *)(dynamic_shared + at.small), *const signal = (float *)(dynamic_shared + at.signal);
	const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
	const int parts = stem_parts(a.frames, TILES), window = blockIdx.x / parts, frame = blockIdx.x % parts * 16 * TILES;
	const int origin = frame * a.stride - a.left; // of the positions, in samples
	const int start = origin - a.second / 2, begin = start - a.taps / 2;

	const float *const x = a.x + (size_t)window * a.samples;
	for (int i = thread; i < at.samples; i += linear_threads) {
		const int p = begin + i;
		signal[i] = p >= 0 && p < a.samples ? x[p] : 0.f;
	}
	for (int i = thread; i < a.small_count(); i += linear_threads) small[i] = a.small[i];
	__syncthreads();

	const float *const biases = small + a.channels * a.taps;
	for (int i = thread; i < (a.second ? at.before : at.positions) * a.channels; i += linear_threads) {
		const int position = i / a.channels, channel = i % a.channels, p = start + position;
		float v = 0;
		if (p >= 0 && p < a.samples) {
			v = biases[channel];
			for (int k = 0; k < a.taps; k++) v += small[channel * a.taps + k] * signal[position + k];
			v = small_activated(v, a.activations[0]);
		}
		if (a.second)
			level[i] = v;
		else
			positions[position * stem_pitch + channel] = to_half(v);
	}
	if (a.second) {
		__syncthreads();
		const float *const weights = biases + a.channels, *const more = weights + stem_channels * a.channels * a.second;
		for (int i = thread; i < at.positions * stem_channels; i += linear_threads) {
			const int position = i / stem_channels, channel = i % stem_channels, p = origin + position;
			float v = 0;
			if (p >= 0 && p < a.samples) {
				v = more[channel];
				for (int k = 0; k < a.second; k++)
					for (int c = 0; c < a.channels; c++) v += weights[(channel * a.channels + c) * a.second + k] * level[(position + k) * a.channels + c];
				v = small_activated(v, a.activations[1]);
			}
			positions[position * stem_pitch + channel] = to_half(v);
		}
	}
	__syncthreads();

	const uint16_t *const mine = positions + lane % 16 * a.stride * stem_pitch + lane / 16 * 8; // of the first tile and tap
#pragma unroll 1
	for (int group = warp; group < linear_groups(a.width); group += linear_warps) {
		const int column = linear_group * group + 8 * (lane % 4);
		float d[4][TILES][4];
		begin_sums<TILES>(d, a.bias + column);
		add_products<TILES == 4 ? 1 : 2, TILES>(d, a.weights + ((size_t)group * a.last * 64 + lane) * 8, a.last, [&](int m, int k) { return mine + (m * 16 * a.stride + k) * stem_pitch; });
		uint16_t *to = a.y + ((size_t)(frame + lane / 4) * a.windows + window) * a.width + column;
#pragma unroll
		for (int m = 0; m < TILES; m++)
#pragma unroll
			for (int after = 0; after < 2; after++, to += (size_t)8 * a.windows * a.width)
				if (column < a.width && frame + 16 * m + 8 * after + lane / 4 < a.frames) *(uint4 *)to = eight_of<TILES>(d, m, after, a.activations[2]);
	}
}

#ifdef __CUDACC__

#include "launch.h"

const char *launch_stem(const Stem &call, void *stream) {
	int processors, most;
	if (const char *what = read_device(processors, most)) return what;
	const LinearPlan plan = plan_stem(call, processors, most);
	if (plan.tiles == 0) return "the GPU's multiprocessors have too little shared memory for convolutions of this size";
	return launch_linear(plan.tiles == 2 ? stem_kernel<2> : stem_kernel<4>, plan, call, stream);
}

#endif

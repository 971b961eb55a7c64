// The convolutions between a signal and the first LSTM layer: how they are called, and how the work is divided among the blocks of
// a GPU.
#pragma once
#include "linear.h"

constexpr int stem_channels = 16; // that the last convolution takes: a tap of it is a step of the tensor cores
constexpr int stem_pitch = 24;    // half floats from one position to the next, so that those some strides apart lie in different banks

// Stem is two or three convolutions, each with an activation, of which the last one alone has a stride. x is the signal, [windows][samples],
// and y are [frames][windows][width] half floats. All but the last have an odd number of taps and as many positions as samples. Their
// weights and biases are floats one behind the other, [channels][taps] and [channels] and then, with a second one, [16][channels][second]
// and [16]. The last one's weights are packed for the tensor cores (see kernels.Linear) with 16 factors for each tap, and its biases are
// as many as the columns of the groups.
struct Stem {
	const float *x;
	uint16_t *y;
	const uint16_t *weights;
	const float *bias, *small;
	int windows, samples, frames;
	int channels, taps; // of the first
	int second;         // taps; 0: there are two convolutions
	int last, stride, left, width;
	Activation activations[3];
	BOTH_SIDES int small_count() const { return channels * (taps + 1) + (second ? stem_channels * (channels * second + 1) : 0); }
};

constexpr int stem_most_taps = 64, stem_most_stride = 16;

// stem_frames is what the last convolution makes of so many samples, with so many zeros before and behind them.
constexpr int64_t stem_frames(int64_t samples, int64_t left, int64_t right, int64_t last, int64_t stride) {
	return samples + left + right < last ? 0 : (samples + left + right - last) / stride + 1;
}

inline bool stem_can(int64_t width, int64_t channels, int64_t taps, int64_t second, int64_t last, int64_t stride, int64_t left, int64_t right) {
	const auto odd = [](int64_t n) { return n > 0 && n <= stem_most_taps && n % 2 == 1; };
	return lstm_width((int)width) && width <= lstm_most && odd(taps) && channels > 0 && channels <= stem_channels && (second ? odd(second) : channels == stem_channels) &&
		last > 0 && last <= stem_most_taps && stride > 0 && stride <= stem_most_stride && left >= 0 && left < last && right >= 0 && right < last;
}

// StemShape are the places of a block's numbers in shared memory, of TILES x 16 frames of a window.
struct StemShape {
	int positions; // that the last convolution takes
	int before;    // that the second one takes; 0 without
	int samples;
	size_t level, small, signal, all; // bytes; positions lie at 0
	BOTH_SIDES StemShape(const Stem &a, int tiles) {
		positions = (16 * tiles - 1) * a.stride + a.last;
		before = a.second ? positions + a.second - 1 : 0;
		samples = (a.second ? before : positions) + a.taps - 1;
		level = (size_t)positions * stem_pitch * 2;
		small = level + (size_t)before * a.channels * 4;
		signal = small + (size_t)a.small_count() * 4;
		all = signal + (size_t)samples * 4;
	}
};

BOTH_SIDES inline int stem_parts(int frames, int tiles) { return (frames + 16 * tiles - 1) / (16 * tiles); } // of a window

inline LinearPlan plan_stem(const Stem &a, int processors, size_t most_shared) {
	return plan_linear(
		processors, most_shared, [&](int tiles) { return (unsigned)a.windows * stem_parts(a.frames, tiles); }, [&](int tiles) { return StemShape(a, tiles).all; });
}

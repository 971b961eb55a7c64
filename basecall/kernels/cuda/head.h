// The layer before a decoder, from states to scores: how it is called, and how the work is divided among the blocks of a GPU.
#pragma once
#include "linear.h"

// Head is a linear layer of rows, which are each step of each window: x are [rows][width] half floats, y [rows][classes]. The
// weights are packed for the tensor cores (see kernels.Linear), the biases are [classes].
struct Head {
	const uint16_t *x;
	uint16_t *y;
	const uint16_t *weights;
	const float *bias;
	size_t rows;
	int width, classes;
	Activation activation;
};

constexpr int head_most = 8 * 1024; // scores, in steps of 32

constexpr bool head_can(int64_t width, int64_t classes) {
	return width >= lstm_least && width <= lstm_most && width % 16 == 0 && classes > 0 && classes <= head_most && classes % linear_group == 0;
}

inline LinearPlan plan_head(int width, size_t rows, int processors, size_t most_shared) {
	return plan_linear(
		processors, most_shared, [=](int tiles) { return (unsigned)((rows + 16 * tiles - 1) / (16 * tiles)); }, [=](int tiles) { return lstm_tile_bytes(width, tiles); });
}

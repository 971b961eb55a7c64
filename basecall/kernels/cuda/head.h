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

// HeadPlan says how many tiles of 16 rows a block keeps in its shared memory. What a row gets doesn't depend on it.
struct HeadPlan {
	int tiles = 0; // 0: no block has room for a layer of this width
	unsigned blocks = 0;
	size_t shared = 0; // bytes of a block
};

// plan_head divides a layer for a GPU with a number of multiprocessors, of which each lets a block have some bytes of shared
// memory. Few rows are spread over all of them.
inline HeadPlan plan_head(int width, size_t rows, int processors, size_t most_shared) {
	HeadPlan best;
	for (int tiles = 2; tiles <= 4; tiles *= 2) {
		HeadPlan p;
		p.tiles = tiles;
		p.blocks = (unsigned)((rows + 16 * tiles - 1) / (16 * tiles));
		p.shared = lstm_tile_bytes(width, tiles);
		if (p.shared > most_shared) break;
		best = p;
		if (p.blocks <= (unsigned)processors) break;
	}
	return best;
}

// What layers that multiply by a matrix have in common: what is made of their sums, and how their columns are divided.
#pragma once
#include <cstddef>
#include <cstdint>

#include "lstm.h" // BOTH_SIDES

// Activation is what a layer makes of a sum. What is not a number stays so.
struct Activation {
	enum Kind { none, tanh, clamp, silu } kind = none;
	float scale = 1;         // of tanh
	float low = 0, high = 0; // of clamp
};

constexpr int linear_threads = 256, linear_warps = linear_threads / 32;
constexpr int linear_group = 32; // columns that a warp has at a time

BOTH_SIDES constexpr int linear_groups(int columns) { return (columns + linear_group - 1) / linear_group; }
// Weights of so many factors, which are a multiple of 16, as kernels.Linear packs them.
BOTH_SIDES constexpr size_t linear_weights(int factors, int columns) { return (size_t)linear_groups(columns) * linear_group * factors; }

// LinearPlan says how many tiles of 16 rows a block keeps in its shared memory. What a row gets doesn't depend on it.
struct LinearPlan {
	int tiles = 0; // 0: no block has room for a layer of this size
	unsigned blocks = 0;
	size_t shared = 0; // bytes of a block
};

// plan_linear divides a layer for a GPU with a number of multiprocessors, of which each lets a block have some bytes of shared
// memory. blocks and shared say how many blocks and how many bytes it takes with so many tiles. Few rows are spread over all multiprocessors.
template <class BLOCKS, class SHARED> LinearPlan plan_linear(int processors, size_t most_shared, BLOCKS blocks, SHARED shared) {
	LinearPlan best;
	for (int tiles = 2; tiles <= 4; tiles *= 2) {
		LinearPlan p;
		p.tiles = tiles;
		p.blocks = blocks(tiles);
		p.shared = shared(tiles);
		if (p.shared > most_shared) break;
		best = p;
		if (p.blocks <= (unsigned)processors) break;
	}
	return best;
}

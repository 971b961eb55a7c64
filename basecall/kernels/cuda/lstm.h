// One LSTM layer: how it is called, and how the work is divided among the blocks of a GPU.
#pragma once
#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#define BOTH_SIDES __host__ __device__
#else
#define BOTH_SIDES
#endif

// LSTM is one layer over all steps of some windows. x and y are [steps][windows][width] half
// floats, y the states, to which x is added if it is a residual layer. The weights are packed
// for the tensor cores (see kernels.PackLSTM), the biases are [4][width], of the gates in, forget,
// cell and out.
struct LSTM {
	const uint16_t *x;
	uint16_t *y;
	const uint16_t *weights;
	const float *bias;
	float *cells; // memory for LSTMPlan::cells floats if it isn't 0
	int width, steps, windows;
	bool reverse, residual;
};

constexpr int lstm_threads = 256, lstm_warps = lstm_threads / 32;
constexpr int lstm_least = 16, lstm_most = 1024; // widths, in steps of 16

// LSTMPlan says how a layer is divided: a block keeps some tiles of 16 windows in its shared
// memory, and the states of the cells there as well, or in global memory where there is no room.
// What a window gets doesn't depend on it.
struct LSTMPlan {
	int tiles = 0; // 0: no block has room for a layer of this width
	unsigned blocks = 0;
	size_t shared = 0; // bytes of a block
	size_t cells = 0;  // floats in global memory, of all blocks
};

constexpr bool lstm_width(int width) { return width >= lstm_least && width <= lstm_most && width % 16 == 0; }

// Elements from one row of a tile to the next: 16 bytes more than the width, so that the rows
// of a matrix lie in different banks.
BOTH_SIDES constexpr int lstm_row(int width) { return width + 8; }
BOTH_SIDES constexpr int lstm_passes(int width) { return (width / 8 + lstm_warps - 1) / lstm_warps; }
BOTH_SIDES constexpr size_t lstm_tile_bytes(int width, int tiles) { return (size_t)16 * tiles * lstm_row(width) * 2; }
BOTH_SIDES constexpr size_t lstm_cells(int width, int tiles) { return (size_t)lstm_passes(width) * tiles * 4 * lstm_threads; }

// plan_lstm divides a layer for a GPU with a number of multiprocessors, of which each lets a block
// have some bytes of shared memory. Few windows are spread over all of them.
inline LSTMPlan plan_lstm(int width, int windows, int processors, size_t most_shared) {
	LSTMPlan best;
	if (!lstm_width(width)) return best;
	for (int tiles = 1; tiles <= 4; tiles *= 2) {
		LSTMPlan p;
		p.tiles = tiles;
		p.blocks = (windows + 16 * tiles - 1) / (16 * tiles);
		p.shared = 4 * lstm_tile_bytes(width, tiles);
		if (p.shared + 4 * lstm_cells(width, tiles) <= most_shared)
			p.shared += 4 * lstm_cells(width, tiles);
		else
			p.cells = p.blocks * lstm_cells(width, tiles);
		if (p.shared > most_shared) break;
		best = p;
		if (p.blocks <= (unsigned)processors) break;
	}
	return best;
}

// Layers that multiply by a matrix on a CPU: the same numbers as on a GPU, to the order of a sum.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "half.h"
#include "linear.h"

// activate returns what a layer makes of a sum.
inline float activate(float v, const Activation &f) {
	switch (f.kind) {
	case Activation::tanh: return f.scale * std::tanh(v);
	case Activation::clamp: return v < f.low ? f.low : v > f.high ? f.high : v;
	case Activation::silu: return v / (1.f + std::exp(-v));
	default: return v;
	}
}

constexpr int rows_together = 6; // for which weights are loaded once: as many as registers have room for

// add_rows adds to each of rows_together sums, [columns], its factors, [count], times the rows of weights, [count][columns], in their order.
// Columns are a multiple of 16.
void add_rows(float *sums, const float *factors, const float *weights, int count, int columns);

// unpacked are weights as a CPU reads them, [factors][groups of columns], of what kernels.Linear packs.
std::vector<float> unpacked(const uint16_t *packed, int factors, int columns);

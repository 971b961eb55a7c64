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

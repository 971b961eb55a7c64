// What decoding on a CPU has in common, whatever network the scores are of.
#pragma once
#include <algorithm>

#include "decode.h"
#include "half.h"

// row_of is the place of a frame's scores among those of all frames.
inline size_t row_of(const Decoding &a, int window, int t) { return a.windows_first ? (size_t)window * a.steps + t : (size_t)t * a.windows + window; }

// score_at is a score as a float, by its place among all.
inline float score_at(const Decoding &a, size_t i) { return a.half ? from_half(((const uint16_t *)a.scores)[i]) : ((const float *)a.scores)[i]; }

// begin_window leaves nothing on a window's path, and returns how many of its frames count.
inline int begin_window(const Decoding &a, int window) {
	std::fill_n(a.path + (size_t)window * a.steps, a.steps, (uint8_t)0);
	std::fill_n(a.probability + (size_t)window * a.steps, a.steps, 0.f);
	return std::max(0, std::min(a.steps, (int)a.frames[window]));
}

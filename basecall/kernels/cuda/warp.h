// What a warp that decodes does, whatever network the scores are of: above all, how it keeps the best of what its lanes
// have. Keys are numbers of 32 bits; 0 is what there is not.
#pragma once
#include "crf.h"
#include "gpu.h"

namespace {

DEVICE float as_float(float v) { return v; }
DEVICE float as_float(uint16_t v) { return from_half(v); }

// A key of what is worth more than 0, ordered as that is.
DEVICE uint32_t key_of(float worth) { return crf_bits(worth) + 1; }
DEVICE float worth_of(uint32_t key) { return crf_float(key - 1); }

template <class KEY> DEVICE int count_from(KEY key, int count, uint32_t least, int lane) {
	int n = 0;
	for (int base = 0; base < count; base += 32) n += count_bits(lanes_where(base + lane < count && key(base + lane) >= least));
	return n;
}

// choose lists those whose key isn't below the threshold's, the highest width of them, in
// ascending order. Of those that tie with the last the first ones have room.
template <class KEY> DEVICE int choose(KEY key, int count, int width, uint32_t least, uint16_t *list, int lane) {
	const bool crowded = count_from(key, count, least, lane) > width;
	int room = 0;
	if (crowded) {
		least = 0;
		for (int bit = 31; bit >= 0; bit--) {
			const uint32_t higher = least | (uint32_t)1 << bit;
			if (count_from(key, count, higher, lane) >= width) least = higher;
		}
		room = width - count_from(key, count, least + 1, lane);
	}
	const unsigned below = ((unsigned)1 << lane) - 1;
	int kept = 0, ties = 0;
	for (int base = 0; base < count; base += 32) {
		const uint32_t k = base + lane < count ? key(base + lane) : 0;
		const bool tie = crowded && k == least;
		const unsigned tied = lanes_where(tie);
		const bool keep = k > 0 && k >= least && (!tie || ties + count_bits(tied & below) < room);
		ties += count_bits(tied);
		const unsigned keeping = lanes_where(keep);
		if (keep) list[kept + count_bits(keeping & below)] = (uint16_t)(base + lane);
		kept += count_bits(keeping);
	}
	warp_barrier();
	return kept;
}

} // namespace

// Decoding the scores of a network trained by CTC on a GPU.
//
// A warp decodes a window by itself: probabilities of all frames, the search over prefixes, and the way back. An
// entry of the beam is that of a lane, in its registers. Each frame's candidates are the entries themselves and, for each
// class, what it makes of them; their sums lie in shared memory, where the best are found.
//
// All numbers are those of basecall/ctc, to the bit: this file is compiled without fused products.
#include "ctc.h"
#include "gpu.h"
#include "warp.h"

namespace {

DEVICE uint32_t key_if_any(float worth) { return worth == 0 ? 0 : key_of(worth); }

} // namespace

// SCORE is float, or uint16_t for half floats.
template <class SCORE> __global__ void __launch_bounds__(32 * ctc_warps, 4) ctc_kernel(const Part<CTC> work) {
	const CTC &a = work.call;
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, window = blockIdx.x * ctc_warps + warp;
	if (window >= work.windows) return;
	const int steps = a.steps, classes = a.classes, frames = min(steps, max(0, a.frames[work.first + window]));

	unsigned char *const shared = dynamic_shared + warp * ctc_shared;
	uint32_t *const keys = (uint32_t *)shared;
	float *const sums = (float *)(keys + ctc_candidates), *const bests = sums + ctc_candidates;
	int *const origins = (int *)(bests + ctc_candidates);
	uint16_t *const list = (uint16_t *)(origins + ctc_candidates);

	const CTCMemory at(classes, steps, a.width);
	char *const memory = work.memory + window * at.all;
	float *const posteriors = (float *)memory;
	uint32_t *const emissions = (uint32_t *)(memory + at.emissions);
	uint8_t *const out = a.path + (size_t)(work.first + window) * steps;
	float *const probability = a.probability + (size_t)(work.first + window) * steps;

	for (int t = lane; t < steps; t += 32) {
		out[t] = 0;
		probability[t] = 0;
	}
	warp_barrier();
	for (int base = 0; base < frames; base += 32) {
		const int t = base + lane;
		bool number = true;
		if (t < frames) {
			const size_t row = a.windows_first ? (size_t)(work.first + window) * steps + t : (size_t)t * a.windows + work.first + window;
			const SCORE *const scores = (const SCORE *)a.scores + row * classes;
			number = ctc_posteriors([&](int k) { return as_float(scores[k]); }, classes, a.logits, posteriors + (size_t)t * classes);
		}
		if (const unsigned wrong = lanes_where(!number)) {
			if (lane == 0) out[base + lowest_bit(wrong)] = no_number;
			return;
		}
	}
	warp_barrier();

	// Of lane i: entry i of the beam, if it has as many.
	int entries = 1;
	uint64_t hash = 0, parent = 0;
	int length = 0, last = 0, label_origin = -1, blank_origin = -1;
	float label = 0, blank = lane == 0, best_label = 0, best_blank = lane == 0;

	for (int t = 0; t < frames; t++) {
		float p[ctc_most_classes];
		unsigned likely = 0; // bases
#pragma unroll
		for (int k = 0; k < ctc_most_classes; k++) {
			p[k] = k < classes ? posteriors[(size_t)t * classes + k] : 0;
			if (k > 0 && k < classes && p[k] >= a.cut) likely |= 1u << k;
		}
		const bool mine = lane < entries;
		const float total = label + blank;
		const bool by_label = best_label >= best_blank;
		const float best = by_label ? best_label : best_blank;
		const int origin = by_label ? label_origin : blank_origin;
		if (!likely) {
			best_blank = best;
			blank_origin = origin;
			blank = total;
			label = best_label = 0;
			continue;
		}

		// The entries themselves.
		float to_label = 0, to_blank = 0, to_best_label = 0, to_best_blank = 0;
		int to_label_origin = label_origin, to_blank_origin = 0;
		bool fresh = false;
		if (p[0] >= a.cut) {
			to_blank = total * p[0];
			to_best_blank = best * p[0];
			to_blank_origin = origin;
		}
#pragma unroll
		for (int k = 1; k < ctc_most_classes; k++)
			if (k == last && likely >> k & 1) {
				to_label = label * p[k];
				to_best_label = best_label * p[k];
			}

		// What each base makes of them.
		float sum[ctc_most_classes], path[ctc_most_classes];
		unsigned some = 0;
#pragma unroll
		for (int k = 1; k < ctc_most_classes; k++) {
			const bool again = k == last; // only a blank between makes it another base
			const float from = again ? blank : total;
			const float q = p[k] * a.bonus;
			if (mine && likely >> k & 1 && from != 0) some |= 1u << k;
			sum[k] = from * q;
			path[k] = (again ? best_blank : best) * q;
		}
		// Entries that such a sequence is already get its sum.
		unsigned known = 0;
		int source = -1;
		for (int j = 0; j < entries; j++) {
			const uint64_t of = from_lane(parent, j);
			const int l = from_lane(last, j), longer = from_lane(length, j);
			const unsigned lanes = lanes_where(mine && hash == of && length + 1 == longer);
			if (!lanes) continue;
			const int mover = lowest_bit(lanes);
			if (lane == mover) known |= 1u << l;
			if (lane == j) source = mover;
		}
		{
			const int of = source < 0 ? lane : source;
			float added = 0, added_path = 0;
#pragma unroll
			for (int k = 1; k < ctc_most_classes; k++) {
				const float s = from_lane(sum[k], of), b = from_lane(path[k], of);
				if (k == last) {
					added = s;
					added_path = b;
				}
			}
			const unsigned there = from_lane(some, of);
			const int its_last = from_lane(last, of), its_origin = from_lane(origin, of), its_blank_origin = from_lane(blank_origin, of);
			if (source >= 0 && there >> last & 1) {
				to_label += added;
				if (added_path > to_best_label) {
					to_best_label = added_path;
					to_label_origin = its_last == last ? its_blank_origin : its_origin;
					fresh = true;
				}
			}
		}

		const int bases = classes - 1, count = (1 + bases) * entries;
		if (mine) {
			keys[lane] = key_if_any(to_label + to_blank);
#pragma unroll
			for (int k = 1; k < ctc_most_classes; k++) {
				if (k >= classes) break;
				const int c = entries + bases * lane + k - 1;
				keys[c] = some >> k & 1 && !(known >> k & 1) ? key_if_any(sum[k]) : 0;
				sums[c] = sum[k];
				bests[c] = path[k];
				origins[c] = k == last ? blank_origin : origin;
			}
		}
		warp_barrier();
		const int kept = choose([&](int c) { return keys[c]; }, count, a.width, 1, list, lane);

		// The better first, and of those that tie the first.
		int chosen = lane < kept ? list[lane] : 0, rank = 0;
		uint32_t key = lane < kept ? keys[chosen] : 0;
		for (int j = 0; j < kept; j++) {
			const uint32_t other = from_lane(key, j);
			rank += other > key || (other == key && j < lane);
		}
		warp_barrier();
		if (lane < kept) list[rank] = (uint16_t)chosen;
		warp_barrier();
		const float top = worth_of(highest_of_lanes(key));
		chosen = lane < kept ? list[lane] : 0;
		key = lane < kept ? keys[chosen] : 0;
		const int before = entries;
		entries = count_bits(lanes_where(key != 0 && worth_of(key) >= top * ctc_negligible));

		const bool stays = chosen < before;
		const int of = stays ? chosen : (chosen - before) / bases, base = stays ? 0 : (chosen - before) % bases + 1;
		const uint64_t old_hash = from_lane(hash, of), old_parent = from_lane(parent, of);
		const int old_length = from_lane(length, of), old_last = from_lane(last, of);
		to_label = from_lane(to_label, of);
		to_blank = from_lane(to_blank, of);
		to_best_label = from_lane(to_best_label, of);
		to_best_blank = from_lane(to_best_blank, of);
		to_label_origin = from_lane(to_label_origin, of);
		to_blank_origin = from_lane(to_blank_origin, of);
		fresh = from_lane((int)fresh, of) != 0 || !stays;
		hash = stays ? old_hash : crf_extend(old_hash, (uint64_t)base);
		parent = stays ? old_parent : old_hash;
		length = stays ? old_length : old_length + 1;
		last = stays ? old_last : base;
		label = stays ? to_label : sums[chosen];
		blank = stays ? to_blank : 0;
		best_label = stays ? to_best_label : bests[chosen];
		best_blank = stays ? to_best_blank : 0;
		label_origin = stays ? to_label_origin : origins[chosen];
		blank_origin = stays ? to_blank_origin : 0;

		const bool in = lane < entries;
		const float most = crf_float(highest_of_lanes(in ? max(crf_bits(best_label), crf_bits(best_blank)) : 0));
		const float by = ctc_scale(top), by_best = ctc_scale(most);
		label *= by;
		blank *= by;
		best_label *= by_best;
		best_blank *= by_best;
		if (in && fresh) {
			emissions[(size_t)t * a.width + lane] = ctc_emission(label_origin, last - 1);
			label_origin = t * a.width + lane;
		}
		warp_barrier(); // candidates are written anew
	}

	warp_barrier();
	if (lane == 0)
		for (int e = best_label >= best_blank ? label_origin : blank_origin; e >= 0;) {
			const uint32_t emission = emissions[e];
			out[e / a.width] = (uint8_t)(4 | (emission & 3));
			e = ctc_previous(emission);
		}
	warp_barrier();
	for (int begin = 0, newest = 0; begin < frames; begin += 32) {
		const int t = begin + lane;
		const int v = t < frames ? out[t] : 0;
		const unsigned begins = lanes_where(v & 4), until = begins & (0xFFFFFFFF >> (31 - lane));
		const int there = until ? 31 - leading_zeros(until) : 0, base = from_lane(v & 3, there);
		const int mine = until ? base : newest;
		if (t < frames) out[t] = (uint8_t)((v & 4) | mine);
		newest = from_lane(mine, 31);
	}
	warp_barrier();
	for (int t = lane; t < frames; t += 32) {
		if (!(out[t] & 4)) continue;
		const int k = (out[t] & 3) + 1;
		float most = 0;
		int end = t;
		do most = fmaxf(most, posteriors[(size_t)end++ * classes + k]);
		while (end < frames && !(out[end] & 4));
		probability[t] = most;
	}
}

#ifdef __CUDACC__

#include "launch.h"

const char *launch_ctc(CTC call, void *stream) {
	return launch_parts(call, plan_ctc(call, most_memory), call.half ? (const void *)ctc_kernel<uint16_t> : (const void *)ctc_kernel<float>, stream);
}

#endif

// Decoding the scores of a CRF on a GPU.
//
// A warp decodes a window by itself: backward sums over all frames, which lie in global memory from then
// on, then the search, the way back, and forward sums, which give the probabilities of the path's
// bases and are kept of one frame alone. Weights are made of the scores anew in each pass: that takes less than
// writing and reading them would.
//
// A lane has the blocks lane, lane+32, ... of four states that follow the same four. The entries of the beam
// are those of the lanes. All numbers are those of basecall/crf, to the bit: this file is compiled without
// fused products, and sums of lanes are taken in that package's order.
#include "crf.h"
#include "gpu.h"
#include "warp.h"

namespace {

DEVICE bool is_number(float v) { return (crf_bits(v) & 0x7FFFFFFF) < 0x7F800000; }

// Ordered as floats are.
DEVICE unsigned ordered(float v) {
	const uint32_t u = crf_bits(v);
	return u >> 31 ? ~u : u | 0x80000000;
}
DEVICE float unordered(unsigned u) { return crf_float(u >> 31 ? u & 0x7FFFFFFF : ~u); }

// A sum as blockSums of basecall/crf has it: each lane gets it.
DEVICE float sum_of_lanes(float v, int lane) {
	for (int half = 16; half > 0; half /= 2) v += from_lane(v, lane ^ half);
	return v;
}

} // namespace

// STATES is the number of states if the compiler is to know it, and 0 for any. SCORE is float, or uint16_t
// for half floats; BEAM says that a beam is searched.
template <int STATES, class SCORE, bool BEAM>
__global__ void __launch_bounds__(128, 4) crf_kernel(const Part<CRF> work) {
	const CRF &a = work.call;
	const int n = STATES ? STATES : 1 << 2 * a.state_length, q = n / 4;
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, window = blockIdx.x * (blockDim.x / 32) + warp;
	if (window >= work.windows) return;
	const int steps = a.steps, frames = min(steps, max(0, a.frames[work.first + window]));
	const int each = a.stays ? 5 : 4, stays = each - 4;

	unsigned char *const shared = dynamic_shared + warp * crf_shared(n, BEAM);
	uint64_t *const hashes = (uint64_t *)shared; // of the candidates, before all have emitted a whole state
	uint32_t *const keys = (uint32_t *)(hashes + (BEAM ? crf_candidates : 0));
	float *const weights = (float *)(keys + (BEAM ? crf_candidates : 0));
	float *now = weights + (BEAM ? crf_candidates : 0), *then = now + n;
	float *best = then + n, *better = best + n; // without a beam
	float *const roots = BEAM ? then + n : better + n;
	uint16_t *const origin_of = (uint16_t *)(roots + crf_roots), *const state_of = origin_of + crf_candidates, *const list = state_of + crf_candidates;

	char *const memory = work.memory + window * CRFMemory(n, steps, a.width).all;
	const CRFMemory at(n, steps, a.width);
	float *const backward = (float *)memory, *const tops = (float *)(memory + at.tops), *const sure = (float *)(memory + at.probabilities);
	uint32_t *const path = (uint32_t *)(memory + at.path), *const origins = (uint32_t *)(memory + at.origins);
	uint8_t *const choices = (uint8_t *)(memory + at.origins);
	uint8_t *const out = a.path + (size_t)(work.first + window) * steps;
	float *const probability = a.probability + (size_t)(work.first + window) * steps;

	for (int t = lane; t < steps; t += 32) {
		out[t] = 0;
		probability[t] = 0;
	}
	if (frames == 0) return;
	if (lane < crf_roots) roots[lane] = crf_root(lane);
	for (int s = lane; s < n; s += 32) {
		now[s] = 1;
		backward[(size_t)frames * n + s] = 1;
	}
	warp_barrier();

	auto scores_of = [&](int t) {
		const size_t row = a.windows_first ? (size_t)(work.first + window) * steps + t : (size_t)t * a.windows + work.first + window;
		return (const SCORE *)a.scores + row * each * n;
	};
	// The scores of the moves to four states, those of one after those of the other.
	auto moves_to = [&](const SCORE *row, int block, float (&m)[16]) {
		if (stays) {
			const SCORE *const from = row + 20 * block + 1;
#pragma unroll
			for (int i = 0; i < 16; i++) m[i] = as_float(from[i / 4 * 5 + i % 4]);
			return;
		}
		// 16 bytes at a time: rows are multiples of that.
		constexpr int together = 16 / sizeof(SCORE);
		const SCORE *const from = row + 16 * block;
#pragma unroll
		for (int i = 0; i < 16; i += together) {
			const uint4 loaded = *(const uint4 *)(from + i);
			SCORE v[together];
			memcpy(v, &loaded, sizeof v);
#pragma unroll
			for (int j = 0; j < together; j++) m[i + j] = as_float(v[j]);
		}
	};

	// Backward sums.
	float scale = 1;
	for (int t = frames - 1; t >= 0; t--) {
		const SCORE *const row = scores_of(t);
		float top = a.stays ? as_float(row[0]) : a.stay;
		bool number = is_number(top);
		for (int block = lane; block < q; block += 32) {
			float m[16];
			moves_to(row, block, m);
#pragma unroll
			for (int i = 0; i < 16; i++) {
				number = number && is_number(m[i]);
				top = fmaxf(top, m[i]);
			}
			for (int b = 0; a.stays && b < 4; b++) {
				const float v = as_float(row[5 * (4 * block + b)]);
				number = number && is_number(v);
				top = fmaxf(top, v);
			}
		}
		if (lanes_where(!number)) {
			if (lane == 0) out[t] = no_number;
			return;
		}
		top = unordered(highest_of_lanes(ordered(top)));
		if (lane == 0) tops[t] = top;
		const float stay = a.stays ? 0 : crf_weight(a.stay, top, roots);
		float highest = 0;
		for (int block = lane; block < q; block += 32) {
			float m[16];
			moves_to(row, block, m);
#pragma unroll
			for (int i = 0; i < 16; i++) m[i] = crf_weight(m[i], top, roots);
			const float a0 = now[4 * block] * scale, a1 = now[4 * block + 1] * scale, a2 = now[4 * block + 2] * scale, a3 = now[4 * block + 3] * scale;
#pragma unroll
			for (int j = 0; j < 4; j++) {
				const int s = j * q + block;
				const float w = a.stays ? crf_weight(as_float(row[5 * s]), top, roots) : stay;
				const float sum = now[s] * scale * w + crf_tiny + (a0 * m[j] + a1 * m[4 + j]) + (a2 * m[8 + j] + a3 * m[12 + j]);
				then[s] = sum;
				backward[(size_t)t * n + s] = sum;
				highest = fmaxf(highest, sum);
			}
		}
		scale = crf_scale(crf_float(highest_of_lanes(crf_bits(highest))));
		warp_barrier();
		float *const swap = now;
		now = then;
		then = swap;
	}

	if (BEAM) {
		// Of lane i: entry i of the beam, if it has as many.
		uint64_t hash = crf_empty, parent = 0;
		uint32_t recent = 0;
		int emitted = 0, state;
		float weight, worth;
		bool whole = false;
		const float *const first = now;
		int entries = choose([&](int s) { return key_of(first[s]); }, n, a.width, 1, list, lane);
		{
			uint32_t top = 0;
			for (int s = lane; s < n; s += 32) top = max(top, key_of(now[s]));
			state = lane < entries ? list[lane] : 0;
			weight = crf_scale(crf_float(highest_of_lanes(top) - 1));
			worth = now[state];
		}
		warp_barrier();

		for (int t = 0; t < frames; t++) {
			const SCORE *const row = scores_of(t);
			const float *const after = backward + (size_t)(t + 1) * n;
			const float top = tops[t];
			const bool mine = lane < entries;
			const int following = (state & (q - 1)) * 4, dropped = state / q;

			// Stays, and what moves come to: those that say what a stay does are added to it.
			const float stay = crf_weight(a.stays ? as_float(row[5 * state]) : a.stay, top, roots);
			float stay_weight = weight * stay, move_weight[4];
			int from = lane, known = 0;
			bool moved = false;
#pragma unroll
			for (int b = 0; b < 4; b++) move_weight[b] = weight * crf_weight(as_float(row[each * (following + b) + stays + dropped]), top, roots);
			if (whole) {
				int source = -1;
				for (int j = 0; j < entries; j++) {
					const uint64_t of = from_lane(parent, j);
					const int base = from_lane(state, j) & 3;
					const unsigned lanes = lanes_where(mine && hash == of);
					if (!lanes) continue;
					const int mover = lowest_bit(lanes);
					if (lane == mover) known |= 1 << base;
					if (lane == j) source = mover;
				}
				float added = 0;
#pragma unroll
				for (int b = 0; b < 4; b++) {
					const float v = from_lane(move_weight[b], source < 0 ? lane : source);
					if (b == (state & 3)) added = v;
				}
				if (source >= 0) {
					if (added > stay_weight) {
						from = source;
						moved = true;
					}
					stay_weight += added;
				}
			}
			const int count = 5 * entries; // candidates: the stays, and then the moves
			if (mine) {
				keys[lane] = key_of(stay_weight * after[state]);
				weights[lane] = stay_weight;
				origin_of[lane] = (uint16_t)(from | moved << 8);
				state_of[lane] = (uint16_t)state;
				hashes[lane] = hash;
#pragma unroll
				for (int b = 0; b < 4; b++) {
					const int c = entries + 4 * lane + b;
					keys[c] = known >> b & 1 ? 0 : key_of(move_weight[b] * after[following + b]);
					weights[c] = move_weight[b];
					origin_of[c] = (uint16_t)(lane | 1 << 8);
					state_of[c] = (uint16_t)(following + b);
					if (!whole) hashes[c] = crf_extend(hash, b + 1);
				}
			}
			warp_barrier();
			if (!whole) {
				// What says the same is added up, in its order, in the place of the first.
				uint32_t merged_key[5];
				float merged_weight[5];
				uint16_t merged_origin[5];
#pragma unroll
				for (int r = 0; r < 5; r++) {
					const int c = 32 * r + lane;
					merged_key[r] = 0;
					merged_weight[r] = 0;
					merged_origin[r] = 0;
					if (c >= count) continue;
					auto same = [&](int d) { return hashes[d] == hashes[c] && state_of[d] == state_of[c]; };
					bool leads = true;
					for (int d = 0; d < c && leads; d++) leads = !same(d);
					if (!leads) continue;
					float w = weights[c], g = crf_float(keys[c] - 1);
					uint16_t o = origin_of[c];
					for (int d = c + 1; d < count; d++) {
						if (!same(d)) continue;
						if (weights[d] > w) o = origin_of[d];
						w += weights[d];
						g += crf_float(keys[d] - 1);
					}
					merged_key[r] = key_of(g);
					merged_weight[r] = w;
					merged_origin[r] = o;
				}
				warp_barrier();
#pragma unroll
				for (int r = 0; r < 5; r++) {
					const int c = 32 * r + lane;
					if (c >= count) continue;
					keys[c] = merged_key[r];
					weights[c] = merged_weight[r];
					origin_of[c] = merged_origin[r];
				}
				warp_barrier();
			}

			uint32_t highest = 0;
			for (int c = lane; c < count; c += 32) highest = max(highest, keys[c]);
			const float top_worth = crf_float(highest_of_lanes(highest) - 1);
			entries = choose([&](int c) { return keys[c]; }, count, a.width, a.cut > 0 ? key_of(top_worth / a.cut) : 1, list, lane);

			const int before = count / 5; // entries that there were
			const int chosen = lane < entries ? list[lane] : 0;
			const int of = chosen < before ? chosen : (chosen - before) / 4;
			const uint32_t base = (chosen - before) & 3;
			const uint64_t old_hash = from_lane(hash, of), old_parent = from_lane(parent, of);
			const uint32_t old_recent = from_lane(recent, of);
			const int old_emitted = from_lane(emitted, of);
			const bool extends = chosen >= before;
			hash = extends ? crf_extend(old_hash, base + 1) : old_hash;
			parent = extends ? old_hash : old_parent;
			recent = extends ? old_recent << 2 | base : old_recent;
			emitted = extends ? min(old_emitted + 1, crf_memory) : old_emitted;
			state = state_of[chosen];
			weight = weights[chosen] * crf_scale(top_worth);
			worth = crf_float(keys[chosen] - 1);
			uint32_t origin = origin_of[chosen];
			whole = !lanes_where(lane < entries && emitted < a.state_length);
			warp_barrier();

			// Of those whose last bases are the same the more probable one stays, in the place of the first.
			const bool settled = lane < entries && emitted == crf_memory;
			const unsigned alike = lanes_with(settled ? recent & ((1u << 2 * crf_memory) - 1) : 1u << 31 | lane);
			if (lanes_where(count_bits(alike) > 1)) {
				const int leader = lowest_bit(alike);
				int winner = leader;
				float most = from_lane(weight, leader);
				for (int j = 1; j < entries; j++) {
					const float w = from_lane(weight, j);
					if (j > leader && alike >> j & 1 && w > most) {
						most = w;
						winner = j;
					}
				}
				const unsigned leaders = lanes_where(lane < entries && leader == lane);
				if (leaders >> lane & 1) list[count_bits(leaders & (((unsigned)1 << lane) - 1))] = (uint16_t)winner;
				warp_barrier();
				entries = count_bits(leaders);
				const int to_take = lane < entries ? list[lane] : lane;
				hash = from_lane(hash, to_take);
				parent = from_lane(parent, to_take);
				recent = from_lane(recent, to_take);
				emitted = from_lane(emitted, to_take);
				state = from_lane(state, to_take);
				weight = from_lane(weight, to_take);
				worth = from_lane(worth, to_take);
				origin = from_lane(origin, to_take);
			}
			if (lane < entries) origins[(size_t)t * a.width + lane] = (uint32_t)state | origin << 16;
		}

		// The way back. Origins of several frames are loaded before it is known which are needed.
		const uint32_t last = lane < entries ? key_of(worth) : 0;
		int entry = lowest_bit(lanes_where(last == highest_of_lanes(last)));
		constexpr int ahead = 8;
		warp_barrier();
		for (int t = frames - 1; t >= 0; t -= ahead) {
			uint32_t of[ahead];
#pragma unroll
			for (int i = 0; i < ahead; i++) of[i] = t - i >= 0 && lane < a.width ? origins[(size_t)(t - i) * a.width + lane] : 0;
#pragma unroll
			for (int i = 0; i < ahead; i++) {
				const uint32_t o = from_lane(of[i], entry);
				if (t - i < 0) continue;
				entry = o >> 16 & 0xFF;
				if (lane == 0) path[t - i] = (o & 0xFFFF) | o >> 24 << 16;
			}
		}
		warp_barrier();
	}

	// Forward sums: without a beam first for the search, and then for what is sure of its path.
#pragma unroll 1
	for (int pass = BEAM ? 1 : 0; pass < 2; pass++) {
		scale = 1;
		float best_scale = 1;
		for (int s = lane; s < n; s += 32) {
			now[s] = 1;
			if (!BEAM) best[s] = 1;
		}
		warp_barrier();
		for (int t = 0; t < frames; t++) {
			const SCORE *const row = scores_of(t);
			const float top = tops[t];
			const float *const after = backward + (size_t)(t + 1) * n;
			const float stay = a.stays ? 0 : crf_weight(a.stay, top, roots);
			auto stay_of = [&](int s) { return a.stays ? crf_weight(as_float(row[5 * s]), top, roots) : stay; };
			if (!BEAM && pass == 0) {
				// Posterior probabilities of transitions, and with them the best paths.
				auto transitions = [&](int block, float (&p)[20]) {
					float m[16];
					moves_to(row, block, m);
					const float b0 = now[block], b1 = now[q + block], b2 = now[2 * q + block], b3 = now[3 * q + block];
#pragma unroll
					for (int b = 0; b < 4; b++) {
						const float z = after[4 * block + b];
						p[5 * b] = now[4 * block + b] * stay_of(4 * block + b) * z;
						p[5 * b + 1] = b0 * crf_weight(m[4 * b], top, roots) * z;
						p[5 * b + 2] = b1 * crf_weight(m[4 * b + 1], top, roots) * z;
						p[5 * b + 3] = b2 * crf_weight(m[4 * b + 2], top, roots) * z;
						p[5 * b + 4] = b3 * crf_weight(m[4 * b + 3], top, roots) * z;
					}
				};
				float total = 0;
				for (int block = lane; block < q; block += 32) {
					float p[20], sum = 0;
					transitions(block, p);
#pragma unroll
					for (int b = 0; b < 4; b++) sum += p[5 * b] + (p[5 * b + 1] + p[5 * b + 2]) + (p[5 * b + 3] + p[5 * b + 4]);
					total += sum;
				}
				const float inverse = 1 / sum_of_lanes(total, lane);
				float highest = 0;
				for (int block = lane; block < q; block += 32) {
					float p[20];
					transitions(block, p);
#pragma unroll
					for (int b = 0; b < 4; b++) {
						float x = best[4 * block + b] * (p[5 * b] * inverse + crf_floor);
						int choice = 0;
#pragma unroll
						for (int j = 0; j < 4; j++) {
							const float y = best[j * q + block] * (p[5 * b + 1 + j] * inverse + crf_floor);
							if (y > x) {
								x = y;
								choice = 1 + j;
							}
						}
						x = x * best_scale + crf_tiny;
						better[4 * block + b] = x;
						choices[(size_t)t * n + 4 * block + b] = (uint8_t)choice;
						highest = fmaxf(highest, x);
					}
				}
				best_scale = crf_scale(crf_float(highest_of_lanes(crf_bits(highest))));
				float *const swap = best;
				best = better;
				better = swap;
			}
			float total = 0, highest = 0;
			for (int block = lane; block < q; block += 32) {
				float m[16], sum[4];
				moves_to(row, block, m);
#pragma unroll
				for (int i = 0; i < 16; i++) m[i] = crf_weight(m[i], top, roots);
				const float a0 = now[block] * scale, a1 = now[q + block] * scale, a2 = now[2 * q + block] * scale, a3 = now[3 * q + block] * scale;
#pragma unroll
				for (int b = 0; b < 4; b++) {
					const int s = 4 * block + b;
					sum[b] = now[s] * scale * stay_of(s) + (a0 * m[4 * b] + a1 * m[4 * b + 1]) + (a2 * m[4 * b + 2] + a3 * m[4 * b + 3]) + crf_tiny;
					then[s] = sum[b];
					highest = fmaxf(highest, sum[b]);
				}
				total += (sum[0] * after[4 * block] + sum[1] * after[4 * block + 1]) + (sum[2] * after[4 * block + 2] + sum[3] * after[4 * block + 3]);
			}
			scale = crf_scale(crf_float(highest_of_lanes(crf_bits(highest))));
			warp_barrier();
			float *const swap = now;
			now = then;
			then = swap;
			if (!BEAM && pass == 0) continue;

			// The state that the path comes to, and those that come before it and after it: a lane each.
			const float sum = sum_of_lanes(total, lane);
			const int state = path[t] & 0xFFFF, before = state >> 2;
			const int s = lane == 0 ? state : lane <= 4 ? before + (lane - 1) * q : (4 * state & (n - 1)) + ((lane - 5) & 3);
			const bool counts = lane == 0 || (s != state && (lane <= 4 || (s & (q - 1)) != before));
			const float posterior = lane < 9 && counts ? now[s] * after[s] / sum : 0;
			float near = from_lane(posterior, 0);
#pragma unroll
			for (int i = 1; i < 9; i++) near += from_lane(posterior, i);
			if (lane == 0) sure[t] = fminf(1, near);
		}
		warp_barrier();
		if (BEAM || pass == 1) continue;
		uint32_t highest = 0;
		for (int s = lane; s < n; s += 32) highest = max(highest, crf_bits(best[s]));
		highest = highest_of_lanes(highest);
		unsigned place = n;
		for (int s = lane; s < n; s += 32)
			if (crf_bits(best[s]) == highest) place = min(place, (unsigned)s);
		int state = (int)lowest_of_lanes(place);
		for (int t = frames - 1; t >= 0; t--) {
			const int choice = choices[(size_t)t * n + state];
			if (lane == 0) path[t] = (uint32_t)state | (uint32_t)(choice != 0) << 16;
			if (choice != 0) state = (choice - 1) * q + state / 4;
		}
		warp_barrier();
	}

	for (int t = lane; t < frames; t += 32) sure[t] = crf_power(sure[t]);
	warp_barrier();
	auto begins = [&](int t) { return t == 0 || path[t] >> 16 != 0; };
	for (int t = lane; t < frames; t += 32) {
		out[t] = (uint8_t)((begins(t) ? 4 : 0) | (path[t] & 3));
		if (!begins(t)) continue;
		float sum = 0;
		int end = t;
		do sum += sure[end++];
		while (end < frames && !begins(end));
		probability[t] = sum / (float)(end - t);
	}
}

#ifdef __CUDACC__

#include "launch.h"

namespace {

template <int STATES, class SCORE> const void *crf_of(bool beam) {
	return beam ? (const void *)crf_kernel<STATES, SCORE, true> : (const void *)crf_kernel<STATES, SCORE, false>;
}

template <class SCORE> const void *crf_of(int state_length, bool beam) {
	switch (state_length) {
	case 3: return crf_of<64, SCORE>(beam);
	case 4: return crf_of<256, SCORE>(beam);
	case 5: return crf_of<1024, SCORE>(beam);
	default: return crf_of<0, SCORE>(beam);
	}
}

} // namespace

const char *launch_crf(CRF call, void *stream) {
	const bool beam = call.width > 0;
	return launch_parts(call, plan_crf(call, most_memory), call.half ? crf_of<uint16_t>(call.state_length, beam) : crf_of<float>(call.state_length, beam), stream);
}

#endif

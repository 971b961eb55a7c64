#include "crf_cpu.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "decode_cpu.h"

namespace {

// Sums are those of the blocks of four states, added up as a warp does.
struct BlockSums {
	float of[32] = {};
	void add(int block, float v) { of[block % 32] += v; }
	float sum() {
		for (int half = 16; half > 0; half /= 2)
			for (int i = 0; i < half; i++) of[i] += of[i + half];
		return of[0];
	}
};

struct Hypothesis {
	uint64_t hash, parent;
	uint32_t recent;
	int state, from, emitted;
	bool moved;
	float weight, guided;
};
struct Origin {
	uint16_t state;
	uint8_t from, moved;
};

// Window decodes one window after the other.
struct Window {
	const CRF &a;
	const int n, q;
	int frames = 0;
	float roots[crf_roots];
	std::vector<float> row, guided, moves, stays, forward, backward, totals, best, next, transitions;
	std::vector<uint8_t> choices;
	std::vector<Origin> origins;
	std::vector<int> states;
	std::vector<uint8_t> moved;
	std::vector<Hypothesis> beam, candidates;

	explicit Window(const CRF &call) : a(call), n(1 << 2 * call.state_length), q(n / 4) {
		for (int b = 0; b < crf_roots; b++) roots[b] = crf_root(b);
		const size_t steps = call.steps, states_of_all = (steps + 1) * n;
		row.resize(classes());
		moves.resize(steps * 4 * n);
		stays.resize(steps * n);
		forward.resize(states_of_all);
		backward.resize(states_of_all);
		totals.resize(steps + 1);
		states.resize(steps);
		moved.resize(steps);
		if (call.width > 0) {
			origins.resize(steps * call.width);
		} else {
			choices.resize(steps * n);
			best.resize(n);
			next.resize(n);
			transitions.resize(5 * n);
		}
	}
	int classes() const { return (a.stays ? 5 : 4) * n; }

	// weigh turns the scores of a frame into weights, if all are numbers.
	bool weigh(int window, int t) {
		const size_t first = row_of(a, window, t) * classes();
		for (int i = 0; i < classes(); i++) row[i] = score_at(a, first + i);
		float top = row[0];
		for (float v : row) {
			if (!std::isfinite(v)) return false;
			top = std::max(top, v);
		}
		if (!a.stays) top = std::max(top, a.stay);
		float *const move = &moves[(size_t)4 * t * n], *const stay = &stays[(size_t)t * n];
		const int each = a.stays ? 5 : 4;
		for (int s = 0; s < n; s++) {
			stay[s] = crf_weight(a.stays ? row[5 * s] : a.stay, top, roots);
			for (int j = 0; j < 4; j++) move[4 * s + j] = crf_weight(row[each * s + each - 4 + j], top, roots);
		}
		return true;
	}

	float step_back(int t, float scale) {
		const float *const after = &backward[(size_t)(t + 1) * n], *const stay = &stays[(size_t)t * n];
		float *const before = &backward[(size_t)t * n], top = 0;
		for (int i = 0; i < q; i++) {
			const float *const w = &moves[(size_t)4 * t * n + 16 * i], *const to = after + 4 * i;
			const float a0 = to[0] * scale, a1 = to[1] * scale, a2 = to[2] * scale, a3 = to[3] * scale;
			for (int j = 0; j < 4; j++) {
				const int s = j * q + i;
				before[s] = after[s] * scale * stay[s] + crf_tiny + (a0 * w[j] + a1 * w[4 + j]) + (a2 * w[8 + j] + a3 * w[12 + j]);
				top = std::max(top, before[s]);
			}
		}
		return top;
	}

	float step(int t, float scale) {
		const float *const before = &forward[(size_t)t * n], *const stay = &stays[(size_t)t * n];
		float *const after = &forward[(size_t)(t + 1) * n], top = 0;
		for (int i = 0; i < q; i++) {
			const float *const w = &moves[(size_t)4 * t * n + 16 * i];
			const float a0 = before[i] * scale, a1 = before[q + i] * scale, a2 = before[2 * q + i] * scale, a3 = before[3 * q + i] * scale;
			for (int b = 0; b < 4; b++) {
				const int s = 4 * i + b;
				after[s] = before[s] * scale * stay[s] + (a0 * w[4 * b] + a1 * w[4 * b + 1]) + (a2 * w[4 * b + 2] + a3 * w[4 * b + 3]) + crf_tiny;
				top = std::max(top, after[s]);
			}
		}
		return top;
	}

	// sums is false if a score is no number; the path says which.
	bool sums(int window) {
		std::fill_n(&backward[(size_t)frames * n], n, 1.f);
		float scale = 1;
		for (int t = frames - 1; t >= 0; t--) {
			if (!weigh(window, t)) {
				a.path[(size_t)window * a.steps + t] = no_number;
				return false;
			}
			scale = crf_scale(step_back(t, scale));
		}
		std::fill_n(&forward[0], n, 1.f);
		scale = 1;
		for (int t = 0; t < frames; t++) {
			scale = crf_scale(step(t, scale));
			BlockSums total;
			const float *const f = &forward[(size_t)(t + 1) * n], *const b = &backward[(size_t)(t + 1) * n];
			for (int i = 0; i < n; i += 4) total.add(i / 4, (f[i] * b[i] + f[i + 1] * b[i + 1]) + (f[i + 2] * b[i + 2] + f[i + 3] * b[i + 3]));
			totals[t + 1] = total.sum();
		}
		return true;
	}

	void viterbi() {
		std::fill(best.begin(), best.end(), 1.f);
		float scale = 1;
		for (int t = 0; t < frames; t++) {
			const float *const before = &forward[(size_t)t * n], *const after = &backward[(size_t)(t + 1) * n], *const stay = &stays[(size_t)t * n];
			BlockSums total;
			for (int i = 0; i < q; i++) {
				const float *const w = &moves[(size_t)4 * t * n + 16 * i];
				float sum = 0;
				for (int b = 0; b < 4; b++) {
					const int s = 4 * i + b;
					const float z = after[s];
					float *const p = &transitions[5 * s];
					p[0] = before[s] * stay[s] * z;
					for (int j = 0; j < 4; j++) p[1 + j] = before[j * q + i] * w[4 * b + j] * z;
					sum += p[0] + (p[1] + p[2]) + (p[3] + p[4]);
				}
				total.add(i, sum);
			}
			const float inverse = 1 / total.sum();
			float top = 0;
			for (int s = 0; s < n; s++) {
				const float *const p = &transitions[5 * s];
				float x = best[s] * (p[0] * inverse + crf_floor);
				uint8_t choice = 0;
				for (int j = 0; j < 4; j++) {
					const float y = best[j * q + s / 4] * (p[1 + j] * inverse + crf_floor);
					if (y > x) x = y, choice = (uint8_t)(1 + j);
				}
				next[s] = x * scale + crf_tiny;
				choices[(size_t)t * n + s] = choice;
				top = std::max(top, next[s]);
			}
			scale = crf_scale(top);
			best.swap(next);
		}
		int state = (int)(std::max_element(best.begin(), best.end()) - best.begin());
		for (int t = frames - 1; t >= 0; t--) {
			const int choice = choices[(size_t)t * n + state];
			states[t] = state;
			moved[t] = choice != 0;
			if (choice != 0) state = (choice - 1) * q + state / 4;
		}
	}

	void search() {
		candidates.clear();
		for (int s = 0; s < n; s++) candidates.push_back({crf_empty, 0, 0, s, 0, 0, false, 1, backward[s]});
		bool whole = prune(0);
		for (int t = 0; t < frames; t++) {
			extend(t, whole);
			whole = prune(a.cut);
			for (size_t i = 0; i < beam.size(); i++) origins[(size_t)t * a.width + i] = {(uint16_t)beam[i].state, (uint8_t)beam[i].from, beam[i].moved};
		}
		int at = 0;
		for (size_t i = 1; i < beam.size(); i++)
			if (beam[i].guided > beam[at].guided) at = (int)i;
		for (int t = frames - 1; t >= 0; t--) {
			const Origin o = origins[(size_t)t * a.width + at];
			states[t] = o.state;
			moved[t] = o.moved;
			at = o.from;
		}
	}

	void extend(int t, bool whole) {
		const float *const after = &backward[(size_t)(t + 1) * n], *const move = &moves[(size_t)4 * t * n];
		const int entries = (int)beam.size();
		candidates.clear();
		for (int i = 0; i < entries; i++) {
			Hypothesis h = beam[i];
			h.from = i;
			h.moved = false;
			h.weight *= stays[(size_t)t * n + h.state];
			h.guided = h.weight * after[h.state];
			candidates.push_back(h);
		}
		int known[crf_widest_beam][4]; // the stay that says the same as a move
		std::fill_n(&known[0][0], 4 * crf_widest_beam, -1);
		for (int i = 0; whole && i < entries; i++)
			for (int k = 0; k < entries; k++)
				if (beam[k].hash == beam[i].parent) {
					known[k][beam[i].state & 3] = i;
					break;
				}
		for (int i = 0; i < entries; i++) {
			const Hypothesis &from = beam[i];
			const int dropped = from.state / q, first = from.state % q * 4;
			for (int b = 0; b < 4; b++) {
				const float weight = from.weight * move[4 * (first + b) + dropped];
				if (known[i][b] >= 0) {
					Hypothesis &k = candidates[known[i][b]];
					if (weight > k.weight) k.from = i, k.moved = true;
					k.weight += weight;
					k.guided = k.weight * after[first + b];
					continue;
				}
				candidates.push_back({crf_extend(from.hash, b + 1), from.hash, from.recent << 2 | (uint32_t)b, first + b, i, std::min(from.emitted + 1, crf_memory), true, weight, weight * after[first + b]});
			}
		}
		if (whole) return;
		size_t kept = 0;
		for (const Hypothesis h : candidates) {
			size_t i = 0;
			while (i < kept && (candidates[i].hash != h.hash || candidates[i].state != h.state)) i++;
			if (i == kept) {
				candidates[kept++] = h;
				continue;
			}
			Hypothesis &one = candidates[i];
			if (h.weight > one.weight) one.from = h.from, one.moved = h.moved;
			one.weight += h.weight;
			one.guided += h.guided;
		}
		candidates.resize(kept);
	}

	// prune fills the beam, and says whether all of it has emitted a whole state.
	bool prune(float cut) {
		guided.clear();
		float top = 0;
		for (const Hypothesis &h : candidates) {
			guided.push_back(h.guided);
			top = std::max(top, h.guided);
		}
		float threshold = cut > 0 ? top / cut : 0;
		int room = a.width;
		if ((int)guided.size() > a.width) {
			std::nth_element(guided.begin(), guided.begin() + a.width - 1, guided.end(), std::greater<float>());
			threshold = std::max(threshold, guided[a.width - 1]);
			for (const Hypothesis &h : candidates) room -= h.guided > threshold;
		}
		const float scale = crf_scale(top);
		bool whole = true;
		beam.clear();
		for (Hypothesis h : candidates) {
			if (h.guided < threshold || (h.guided == threshold && room-- <= 0)) continue;
			h.weight *= scale;
			whole = whole && h.emitted >= a.state_length;
			beam.push_back(h);
		}
		size_t kept = 0;
		for (const Hypothesis h : beam) {
			size_t i = kept;
			if (h.emitted == crf_memory)
				for (i = 0; i < kept; i++)
					if (beam[i].emitted == crf_memory && ((beam[i].recent ^ h.recent) & ((1u << 2 * crf_memory) - 1)) == 0) break;
			if (i == kept)
				beam[kept++] = h;
			else if (h.weight > beam[i].weight)
				beam[i] = h;
		}
		beam.resize(kept);
		return whole;
	}

	float posterior(int t, int s) const { return forward[(size_t)t * n + s] * backward[(size_t)t * n + s] / totals[t]; }

	float near(int t, int state) const {
		const int before = state >> 2, after = 4 * state & (n - 1);
		float p = posterior(t, state);
		for (int b = 0; b < 4; b++)
			if (before + b * q != state) p += posterior(t, before + b * q);
		for (int b = 0; b < 4; b++)
			if (const int s = after + b; s != state && (s & (q - 1)) != before) p += posterior(t, s);
		return p;
	}

	void decode(int window) {
		uint8_t *const path = a.path + (size_t)window * a.steps;
		float *const probability = a.probability + (size_t)window * a.steps;
		frames = begin_window(a, window);
		if (frames == 0 || !sums(window)) return;
		if (a.width > 0)
			search();
		else
			viterbi();
		moved[0] = 1;
		for (int t = 0, base = 0, count = 0; t < frames; t++) {
			path[t] = (uint8_t)(moved[t] << 2 | (states[t] & 3));
			if (moved[t]) base = t, count = 0;
			probability[base] += crf_power(std::min(1.f, near(t + 1, states[t])));
			count++;
			if (t + 1 == frames || moved[t + 1]) probability[base] /= (float)count;
		}
	}
};

} // namespace

void run_crf(const CRF &call) {
	Window w(call);
	for (int i = 0; i < call.windows; i++) w.decode(i);
}

#include "ctc_cpu.h"

#include <algorithm>
#include <vector>

#include "decode_cpu.h"

namespace {

struct Prefix {
	uint64_t hash = 0;
	int length = 0, last = 0;
	float label = 0, blank = 0, best_label = 0, best_blank = 0;
	int label_origin = -1, blank_origin = -1;
	bool fresh = false;

	float total() const { return label + blank; }
	bool best_is_label() const { return best_label >= best_blank; }
	float best() const { return best_is_label() ? best_label : best_blank; }
	int origin() const { return best_is_label() ? label_origin : blank_origin; }
};

struct Emission { int previous, frame, base; };

// Window decodes one window after the other.
struct Window {
	const CTC &a;
	std::vector<float> posteriors;
	std::vector<Prefix> beam, next;
	std::vector<int> ranks;
	std::vector<Emission> emissions;

	explicit Window(const CTC &call) : a(call), posteriors((size_t)call.steps * call.classes) {}

	int find(uint64_t hash, int length) const {
		for (size_t i = 0; i < beam.size(); i++)
			if (beam[i].hash == hash && beam[i].length == length) return (int)i;
		return -1;
	}

	// extend is false if no base is probable enough: then all entries get a blank.
	bool extend(const float *p) {
		bool likely = false;
		for (int k = 1; k < a.classes; k++) likely = likely || p[k] >= a.cut;
		if (!likely) {
			for (Prefix &e : beam) {
				const float best = e.best();
				const int origin = e.origin();
				e.best_blank = best;
				e.blank_origin = origin;
				e.blank = e.total();
				e.label = e.best_label = 0;
			}
			return false;
		}
		next.clear();
		for (const Prefix &from : beam) {
			Prefix to;
			to.hash = from.hash;
			to.length = from.length;
			to.last = from.last;
			to.label_origin = from.label_origin;
			to.blank_origin = 0;
			if (p[0] >= a.cut) {
				to.blank = from.total() * p[0];
				to.best_blank = from.best() * p[0];
				to.blank_origin = from.origin();
			}
			if (const float q = p[from.last]; from.last != 0 && q >= a.cut) {
				to.label = from.label * q;
				to.best_label = from.best_label * q;
			}
			next.push_back(to);
		}
		for (const Prefix &from : beam)
			for (int k = 1; k < a.classes; k++) {
				if (!(p[k] >= a.cut)) continue;
				const float q = p[k] * a.bonus;
				const bool again = k == from.last; // only a blank between makes it another base
				float sum = again ? from.blank : from.total(), best = again ? from.best_blank : from.best();
				const int origin = again ? from.blank_origin : from.origin();
				if (sum == 0) continue;
				sum *= q;
				best *= q;
				const uint64_t hash = crf_extend(from.hash, k);
				if (const int known = find(hash, from.length + 1); known >= 0) {
					Prefix &to = next[known];
					to.label += sum;
					if (best > to.best_label) {
						to.best_label = best;
						to.label_origin = origin;
						to.fresh = true;
					}
					continue;
				}
				Prefix to;
				to.hash = hash;
				to.length = from.length + 1;
				to.last = k;
				to.label = sum;
				to.best_label = best;
				to.label_origin = origin;
				to.blank_origin = 0;
				to.fresh = true;
				next.push_back(to);
			}
		return true;
	}

	void prune() {
		ranks.clear();
		for (size_t i = 0; i < next.size(); i++)
			if (next[i].total() != 0) ranks.push_back((int)i);
		std::stable_sort(ranks.begin(), ranks.end(), [&](int i, int j) { return next[i].total() > next[j].total(); });
		if ((int)ranks.size() > a.width) ranks.resize(a.width);
		const float top = next[ranks[0]].total();
		while (next[ranks.back()].total() < top * ctc_negligible) ranks.pop_back();
		beam.clear();
		float best = 0;
		for (int i : ranks) {
			beam.push_back(next[i]);
			best = std::max(best, std::max(next[i].best_label, next[i].best_blank));
		}
		const float by = ctc_scale(top), by_best = ctc_scale(best);
		for (Prefix &e : beam) {
			e.label *= by;
			e.blank *= by;
			e.best_label *= by_best;
			e.best_blank *= by_best;
		}
	}

	void decode(int window) {
		uint8_t *const path = a.path + (size_t)window * a.steps;
		float *const probability = a.probability + (size_t)window * a.steps;
		const int frames = begin_window(a, window);
		for (int t = 0; t < frames; t++)
			if (!ctc_posteriors([&](int k) { return score_at(a, row_of(a, window, t) * a.classes + k); }, a.classes, a.logits, &posteriors[(size_t)t * a.classes])) {
				path[t] = no_number;
				return;
			}
		emissions.clear();
		beam.assign(1, Prefix());
		beam[0].blank = beam[0].best_blank = 1;
		for (int t = 0; t < frames; t++) {
			if (!extend(&posteriors[(size_t)t * a.classes])) continue;
			prune();
			for (Prefix &e : beam)
				if (e.fresh) {
					emissions.push_back({e.label_origin, t, e.last - 1});
					e.label_origin = (int)emissions.size() - 1;
					e.fresh = false;
				}
		}
		for (int at = beam[0].origin(); at >= 0; at = emissions[at].previous) path[emissions[at].frame] = (uint8_t)(4 | emissions[at].base);
		for (int t = 0, base = -1, start = 0; t < frames; t++) {
			if (path[t] & 4) {
				base = path[t] & 3;
				start = t;
			}
			if (base < 0) continue;
			path[t] = (uint8_t)((path[t] & 4) | base);
			probability[start] = std::max(probability[start], posteriors[(size_t)t * a.classes + base + 1]);
		}
	}
};

} // namespace

void run_ctc(const CTC &call) {
	Window w(call);
	for (int i = 0; i < call.windows; i++) w.decode(i);
}

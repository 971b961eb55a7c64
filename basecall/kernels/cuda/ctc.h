// Decoding the scores of a network trained by CTC: how it is called, and the numbers that a CPU and a GPU have to
// come to alike. Package ctc (basecall/ctc) has the same in Go, and says what it is for; all three give the same
// bits, so that each operation here is one of there, in its order. Files that include this are
// compiled without fused products.
#pragma once
#include <cmath>

#include "crf.h"

// CTC is some windows to decode. Class 0 is that of the blank; the bases are the classes less one.
struct CTC : Decoding {
	int classes;
	bool logits; // not log-probabilities
	int width;   // of the beam
	float cut;   // classes less probable aren't followed
	float bonus; // factor for each base
};

constexpr int ctc_most_classes = 5, ctc_widest_beam = 32;

inline bool ctc_can(int classes, int width, float cut) {
	return classes >= 2 && classes <= ctc_most_classes && width >= 1 && width <= ctc_widest_beam && cut >= 0 && cut < 1.f / classes;
}

// Bounds of the beam's scales.
constexpr float ctc_least_best = 0x1p-30f, ctc_most_best = 0x1p30f, ctc_negligible = 0x1p-50f;

BOTH_SIDES inline float ctc_scale(float best) { return best < ctc_least_best ? 0x1p30f : best > ctc_most_best ? 0x1p-30f : 1.f; }

BOTH_SIDES inline float ctc_exp(float x) {
	if (x <= -80.f) return 0;
	if (x >= 80.f) return INFINITY;
	if (x != x) return x;
	constexpr float rounding = 3 << 22;
	float n = x * 1.44269504f + rounding;
	n -= rounding;
	float r = x - n * 0.693359375f;
	r -= n * -2.12194440e-4f;
	float p = r * (1.f / 720) + 1.f / 120;
	p = p * r + 1.f / 24;
	p = p * r + 1.f / 6;
	p = p * r + 0.5f;
	p = p * r + 1.f;
	p = p * r + 1.f;
	return crf_float(crf_bits(p) + ((uint32_t)(int32_t)n << 23));
}

// ctc_posteriors turns a frame's scores into probabilities, and is false if they are none.
template <class SCORE> BOTH_SIDES inline bool ctc_posteriors(SCORE score, int classes, bool logits, float *p) {
	float top = 0;
	if (logits) {
		top = score(0);
		for (int k = 1; k < classes; k++) {
			const float s = score(k);
			if (s > top || s != s) top = s;
		}
	}
	float sum = 0;
	for (int k = 0; k < classes; k++) {
		const float e = ctc_exp(score(k) - top);
		p[k] = e;
		sum += e;
	}
	if (!(sum > 0.99f && (logits || sum < 1.01f))) return false;
	for (int k = 0; logits && k < classes; k++) p[k] /= sum;
	return true;
}

// A base on a path, with the place of the one before it, which is that of a frame and an entry of the beam; -1: none.
BOTH_SIDES inline uint32_t ctc_emission(int previous, int base) { return (uint32_t)(previous + 1) << 2 | (uint32_t)base; }
BOTH_SIDES inline int ctc_previous(uint32_t emission) { return (int)(emission >> 2) - 1; }

constexpr int ctc_candidates = ctc_most_classes * ctc_widest_beam; // the entries themselves, and as many as there are bases for each
constexpr int ctc_warps = 4;                                        // of a block
// Bytes of a warp in shared memory: of each candidate its key, sum, best path and that path's last emission, and a list.
constexpr size_t ctc_shared = ctc_candidates * 16 + 2 * ctc_widest_beam;

// Where what a window has in global memory begins, in bytes: probabilities [steps][classes], and emissions.
struct CTCMemory {
	size_t emissions, all;
	BOTH_SIDES CTCMemory(int classes, int steps, int width) {
		emissions = (size_t)4 * classes * steps;
		all = (emissions + (size_t)4 * width * steps + 255) / 256 * 256;
	}
};

inline DecodePlan plan_ctc(const CTC &call, size_t most_global) {
	return DecodePlan(call, ctc_warps, ctc_shared, CTCMemory(call.classes, call.steps, call.width).all, most_global);
}

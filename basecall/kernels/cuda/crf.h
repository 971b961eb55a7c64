// Decoding the scores of a CRF: how it is called, and the numbers that a CPU and a GPU have to come to
// alike. Package crf (basecall/crf) has the same in Go, and says what it is for; all three give the same
// bits, so that each operation here is one of there, in its order. Files that include this are
// compiled without fused products.
#pragma once
#include <cstring>

#include "decode.h"

// CRF is some windows to decode. A class is a state and the base that a move to it drops, or, if staying
// is scored for each state, 5 of a state, of which the first is staying.
struct CRF : Decoding {
	int state_length; // bases
	bool stays;       // are scored
	float stay;       // otherwise, of all states
	int width;        // of the beam; 0: the path of the highest product of posterior probabilities
	float cut;        // of the beam; 0: none
};

constexpr int crf_longest_state = 6, crf_widest_beam = 32;
constexpr int crf_memory = 10; // bases after which sequences that differ before are one

inline bool crf_can(int state_length, int width, float stay, float cut) {
	return state_length >= 1 && state_length <= crf_longest_state && width >= 0 && width <= crf_widest_beam && stay >= -100 && stay <= 100 && cut >= 0 && cut <= 1e6f;
}

constexpr float crf_tiny = 0x1p-80f;
constexpr float crf_floor = 1e-8f;
constexpr int crf_roots = 8;

// crf_root is 2^(b/8).
BOTH_SIDES inline float crf_root(int b) {
	constexpr float roots[crf_roots] = {0x1p+00f, 0x1.172b84p+00f, 0x1.306fep+00f, 0x1.4bfdaep+00f, 0x1.6a09e6p+00f, 0x1.8ace54p+00f, 0x1.ae89fap+00f, 0x1.d5818ep+00f};
	return roots[b];
}

BOTH_SIDES inline uint32_t crf_bits(float f) {
	uint32_t u;
	memcpy(&u, &f, 4);
	return u;
}
BOTH_SIDES inline float crf_float(uint32_t u) {
	float f;
	memcpy(&f, &u, 4);
	return f;
}

// crf_weight is exp(score-top), not below exp(-32); roots are those of crf_root.
BOTH_SIDES inline float crf_weight(float score, float top, const float *roots) {
	constexpr float round = 3 << 22, high = 0x1.62p-4f;
	float v = score - top;
	if (v < -32.f) v = -32.f;
	const float k = v * 0x1.715476p+03f + round, n = k - round;
	float r = v - n * high - n * 0x1.c85fep-13f;
	const int32_t whole = (int32_t)(crf_bits(k) - crf_bits(round));
	const float p = roots[whole & (crf_roots - 1)];
	r += r * r * (0x1.000a4p-01f + r * 0x1.555556p-03f);
	return (p + p * r) * crf_float((uint32_t)((whole >> 3) + 127) << 23);
}

// crf_scale is the power of two that brings a positive number between 1 and 2.
BOTH_SIDES inline float crf_scale(float x) { return crf_float((uint32_t)(127 - ((int)(crf_bits(x) >> 23) - 127)) << 23); }

// crf_power is x^0.4, as package crf calculates it.
BOTH_SIDES inline float crf_power(float x) {
	if (!(x > 0)) return 0;
	const double wide = x;
	uint64_t bits;
	memcpy(&bits, &wide, 8);
	const int exponent = (int)(bits >> 52) - 1023;
	const int fifth = (exponent + 2000) / 5 - 400, rest = exponent - 5 * fifth;
	const uint64_t fraction = (bits & (((uint64_t)1 << 52) - 1)) | (uint64_t)1023 << 52, power = (uint64_t)(1023 + 2 * fifth) << 52;
	double m, scale;
	memcpy(&m, &fraction, 8);
	memcpy(&scale, &power, 8);
	const double root = rest == 0 ? 1 : rest == 1 ? 1.3195079107728942 : rest == 2 ? 1.7411011265922482 : rest == 3 ? 2.29739670999407 : 3.0314331330207964;
	const double square = m * m * (double)((uint64_t)1 << 2 * rest);
	double y = (0.55371 + m * (0.51185 - m * 0.06462)) * root;
	for (int i = 0; i < 3; i++) {
		const double y2 = y * y;
		y = 0.8 * y + 0.2 * (square / (y2 * y2));
	}
	return (float)(y * scale);
}

// crf_extend is the hash of a sequence with one more base, 1 to 4; that of none is crf_empty.
constexpr uint64_t crf_empty = 1;
BOTH_SIDES inline uint64_t crf_extend(uint64_t hash, uint64_t code) {
	hash = (hash + code) * 0x9e3779b97f4a7c15u;
	return hash ^ hash >> 29;
}

constexpr int crf_states(int state_length) { return 1 << 2 * state_length; }
constexpr int crf_candidates = 5 * crf_widest_beam;

// Bytes of a warp in shared memory: sums before and after a frame (in a search for a path, its best
// ones, too), roots of two, and the candidates of the beam.
BOTH_SIDES constexpr size_t crf_shared(int states, bool beam) {
	return (size_t)4 * states * (beam ? 2 : 4) + 4 * crf_roots + (beam ? crf_candidates * (8 + 4 + 4 + 2 + 2) + 2 * crf_widest_beam : 0);
}

// Where what a window has in global memory begins, in bytes: sums [steps+1][states], and of each step
// its highest score, the path's state and probability, and either the beam's origins or the choices.
struct CRFMemory {
	size_t tops, path, probabilities, origins, all;
	BOTH_SIDES CRFMemory(int states, int steps, int width) {
		tops = (size_t)4 * states * (steps + 1);
		path = tops + (size_t)4 * steps;
		probabilities = path + (size_t)4 * steps;
		origins = probabilities + (size_t)4 * steps;
		all = (origins + (size_t)(width > 0 ? 4 * width : states) * steps + 255) / 256 * 256;
	}
};

inline DecodePlan plan_crf(const CRF &call, size_t most_global) {
	const int states = crf_states(call.state_length);
	const size_t warp = crf_shared(states, call.width > 0);
	const int warps = warp <= 12 << 10 ? 4 : warp <= 24 << 10 ? 2 : 1;
	return DecodePlan(call, warps, warp, CRFMemory(states, call.steps, call.width).all, most_global);
}

// Half floats (IEEE 754 binary16) on a CPU, without instructions for them.
#pragma once
#include <cstdint>
#include <cstring>

inline float from_half(uint16_t h) {
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = (uint32_t)(h & 0x7FFF) << 13, bits;
	float f;
	if (rest >= 0x7C00u << 13) {
		bits = sign | (rest + (112u << 23)) | 0x7F800000u; // infinities and NaNs
	} else if (rest >= 0x0400u << 13) {
		bits = sign | (rest + (112u << 23));
	} else { // subnormal: a multiple of 2^-24
		float s = (float)(h & 0x3FF) * 5.9604644775390625e-8f;
		memcpy(&bits, &s, 4);
		bits |= sign;
	}
	memcpy(&f, &bits, 4);
	return f;
}

// to_half rounds to the nearest, ties to even.
inline uint16_t to_half(float f) {
	uint32_t bits;
	memcpy(&bits, &f, 4);
	uint32_t sign = bits >> 16 & 0x8000, rest = bits & 0x7FFFFFFF;
	if (rest > 0x7F800000) return (uint16_t)(sign | 0x7E00);
	if (rest >= 0x477FF000) return (uint16_t)(sign | 0x7C00); // 65,520 and more
	if (rest < 0x38800000) {                                  // below 2^-14
		float s;
		memcpy(&s, &rest, 4);
		s += 0.5f; // brings the last bit to that of 2^-24
		uint32_t u;
		memcpy(&u, &s, 4);
		return (uint16_t)(sign | (u - 0x3F000000));
	}
	return (uint16_t)(sign | (rest - (112u << 23) + 0xFFF + (rest >> 13 & 1)) >> 13);
}

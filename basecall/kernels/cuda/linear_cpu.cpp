#include "linear_cpu.h"

namespace {

// Vector is eight floats of unaligned memory, which processors without such vectors take in parts.
typedef float Vector __attribute__((vector_size(32), aligned(4)));

} // namespace

// The sums of 16 columns stay in registers.
#if defined(__x86_64__)
__attribute__((target_clones("arch=x86-64-v3", "default")))
#endif
void add_rows(float *sums, const float *factors, const float *weights, int count, int columns) {
	for (int c = 0; c < columns; c += 16) {
		Vector sum[rows_together][2];
#pragma GCC unroll 8
		for (int n = 0; n < rows_together; n++) {
			sum[n][0] = *(const Vector *)(sums + (size_t)n * columns + c);
			sum[n][1] = *(const Vector *)(sums + (size_t)n * columns + c + 8);
		}
		for (int k = 0; k < count; k++) {
			const Vector *row = (const Vector *)(weights + (size_t)k * columns + c);
			const Vector first = row[0], second = row[1];
#pragma GCC unroll 8
			for (int n = 0; n < rows_together; n++) {
				sum[n][0] += factors[n * count + k] * first;
				sum[n][1] += factors[n * count + k] * second;
			}
		}
#pragma GCC unroll 8
		for (int n = 0; n < rows_together; n++) {
			*(Vector *)(sums + (size_t)n * columns + c) = sum[n][0];
			*(Vector *)(sums + (size_t)n * columns + c + 8) = sum[n][1];
		}
	}
}

std::vector<float> unpacked(const uint16_t *packed, int factors, int columns) {
	const int all = linear_groups(columns) * linear_group;
	std::vector<float> rows((size_t)factors * all);
	for (int group = 0; group < all / linear_group; group++)
		for (int step = 0; step < factors / 16; step++)
			for (int pair = 0; pair < 2; pair++)
				for (int lane = 0; lane < 32; lane++)
					for (int e = 0; e < 8; e++) {
						const int column = linear_group * group + 8 * (lane / 8) + 2 * (2 * pair + e / 4) + lane / 4 % 2;
						const int factor = 16 * step + 2 * (lane % 4) + e % 2 + 8 * (e % 4 / 2);
						rows[(size_t)factor * all + column] = from_half(*packed++);
					}
	return rows;
}

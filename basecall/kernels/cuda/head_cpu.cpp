#include "head_cpu.h"

#include "linear_cpu.h"

void run_head(const Head &a, const std::vector<float> &weights) {
	std::vector<float> factors((size_t)rows_together * a.width), sums((size_t)rows_together * a.classes);
	for (size_t first = 0; first < a.rows; first += rows_together) {
		const size_t rows = std::min<size_t>(rows_together, a.rows - first);
		for (size_t i = 0; i < rows * a.width; i++) factors[i] = from_half(a.x[first * a.width + i]);
		for (int n = 0; n < rows_together; n++) std::copy(a.bias, a.bias + a.classes, sums.begin() + (size_t)n * a.classes);
		add_rows(sums.data(), factors.data(), weights.data(), a.width, a.classes);
		for (size_t i = 0; i < rows * a.classes; i++) a.y[first * a.classes + i] = to_half(activate(sums[i], a.activation));
	}
}

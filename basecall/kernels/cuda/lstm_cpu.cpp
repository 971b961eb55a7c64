#include "lstm_cpu.h"

#include "linear_cpu.h"

namespace {

float sigmoid(float x) { return 1.f / (1.f + std::exp(-x)); }

} // namespace

LSTMWeights::LSTMWeights(const uint16_t *packed, int width) : rows((size_t)8 * width * width) {
	// The order is that of kernels.PackLSTM.
	for (int group = 0; group < width / 8; group++)
		for (int step = 0; step < width / 8; step++)
			for (int pair = 0; pair < 2; pair++)
				for (int lane = 0; lane < 32; lane++)
					for (int e = 0; e < 8; e++) {
						const int gate = 2 * pair + e / 4, unit = 8 * group + lane / 4;
						const int factor = 16 * step + 2 * (lane % 4) + e % 2 + 8 * (e % 4 / 2);
						rows[(size_t)factor * 4 * width + gate * width + unit] = from_half(*packed++);
					}
}

void run_lstm(const LSTM &a, const LSTMWeights &weights) {
	const int width = a.width;
	std::vector<float> factors((size_t)rows_together * 2 * width), cells((size_t)rows_together * width), sums((size_t)rows_together * 4 * width);
	for (int first = 0; first < a.windows; first += rows_together) {
		const int windows = std::min(rows_together, a.windows - first);
		std::fill(factors.begin(), factors.end(), 0.f);
		std::fill(cells.begin(), cells.end(), 0.f);
		for (int step = 0; step < a.steps; step++) {
			const int t = a.reverse ? a.steps - 1 - step : step;
			const size_t start = ((size_t)t * a.windows + first) * width;
			for (int n = 0; n < rows_together; n++) {
				std::copy(a.bias, a.bias + 4 * width, sums.begin() + (size_t)n * 4 * width);
				if (n < windows)
					for (int u = 0; u < width; u++) factors[(size_t)n * 2 * width + u] = from_half(a.x[start + (size_t)n * width + u]);
			}
			add_rows(sums.data(), factors.data(), weights.rows.data(), 2 * width, 4 * width);
			for (int n = 0; n < windows; n++) {
				const float *gates = sums.data() + (size_t)n * 4 * width;
				for (int u = 0; u < width; u++) {
					float &cell = cells[(size_t)n * width + u];
					cell = sigmoid(gates[width + u]) * cell + sigmoid(gates[u]) * std::tanh(gates[2 * width + u]);
					const uint16_t state = to_half(sigmoid(gates[3 * width + u]) * std::tanh(cell));
					factors[(size_t)n * 2 * width + width + u] = from_half(state);
					const size_t at = start + (size_t)n * width + u;
					a.y[at] = a.residual ? to_half(from_half(a.x[at]) + from_half(state)) : state;
				}
			}
		}
	}
}

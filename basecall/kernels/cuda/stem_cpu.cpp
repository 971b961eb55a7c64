#include "stem_cpu.h"

#include "linear_cpu.h"

namespace {

// convolve makes [samples][out] of [samples][in], with zeros before and behind; weights are [out][in][taps], and biases behind them.
void convolve(const std::vector<float> &from, std::vector<float> &to, const float *weights, int samples, int in, int out, int taps, const Activation &f) {
	const float *biases = weights + (size_t)out * in * taps;
	for (int p = 0; p < samples; p++) {
		const int first = std::max(0, taps / 2 - p), end = std::min(taps, samples + taps / 2 - p);
		for (int o = 0; o < out; o++) {
			float v = biases[o];
			for (int k = first; k < end; k++)
				for (int c = 0; c < in; c++) v += weights[((size_t)o * in + c) * taps + k] * from[(size_t)(p + k - taps / 2) * in + c];
			to[(size_t)p * out + o] = activate(v, f);
		}
	}
}

} // namespace

void run_stem(const Stem &a, const std::vector<float> &weights) {
	const int factor_count = a.last * stem_channels, columns = linear_groups(a.width) * linear_group;
	std::vector<float> signal(a.samples), level((size_t)a.samples * a.channels), more(a.second ? (size_t)a.samples * stem_channels : 0);
	std::vector<float> factors((size_t)rows_together * factor_count), sums((size_t)rows_together * columns);
	for (int window = 0; window < a.windows; window++) {
		std::copy(a.x + (size_t)window * a.samples, a.x + (size_t)(window + 1) * a.samples, signal.begin());
		convolve(signal, level, a.small, a.samples, 1, a.channels, a.taps, a.activations[0]);
		if (a.second) convolve(level, more, a.small + a.channels * (a.taps + 1), a.samples, a.channels, stem_channels, a.second, a.activations[1]);
		std::vector<float> &last = a.second ? more : level;
		for (float &v : last) v = from_half(to_half(v));
		for (int first = 0; first < a.frames; first += rows_together) {
			const int rows = std::min(rows_together, a.frames - first);
			for (int n = 0; n < rows; n++)
				for (int k = 0; k < a.last; k++) {
					const int p = (first + n) * a.stride - a.left + k;
					float *to = &factors[(size_t)n * factor_count + (size_t)k * stem_channels];
					if (p >= 0 && p < a.samples)
						std::copy_n(&last[(size_t)p * stem_channels], stem_channels, to);
					else
						std::fill_n(to, stem_channels, 0.f);
				}
			for (int n = 0; n < rows_together; n++) std::copy(a.bias, a.bias + columns, sums.begin() + (size_t)n * columns);
			add_rows(sums.data(), factors.data(), weights.data(), factor_count, columns);
			for (int n = 0; n < rows; n++)
				for (int c = 0; c < a.width; c++) a.y[((size_t)(first + n) * a.windows + window) * a.width + c] = to_half(activate(sums[(size_t)n * columns + c], a.activations[2]));
		}
	}
}

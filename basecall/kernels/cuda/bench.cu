// Measures a GPU and the kernels on it, and holds what they give to what a CPU computes: one line
// of JSON for each measurement.
//
//   bench card             the card and its driver
//   bench copies           1 GB to and from it, pinned and pageable
//   bench l2               all multiprocessors read the same megabyte
//   bench lstm WIDTH ...   a layer, by the number of windows, against float and as the CPU's kernel
//   bench head WIDTH SCORES ...  the layer before a decoder, by the number of rows, as a layer is
//   bench stem WIDTH STRIDE ...  the convolutions before the layers, by the number of windows, as a layer is
//   bench crf BASES ...    decoding, by the number of windows, to the bit
//   bench ctc BEAM ...     the same of a network trained by CTC
//   bench small            all of them with few windows, once: for compute-sanitizer
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "crf_cpu.h"
#include "ctc_cpu.h"
#include "half.h"
#include "head_cpu.h"
#include "launch.h"
#include "linear_cpu.h"
#include "lstm_cpu.h"
#include "stem_cpu.h"

namespace {

void fail(const std::string &what) {
	fprintf(stderr, "bench: %s\n", what.c_str());
	exit(1);
}
void must(cudaError_t err) {
	if (err != cudaSuccess) fail(cudaGetErrorString(err));
}
void must(const char *what) {
	if (what) fail(what);
}

// Buffer is memory of the card.
template <class T> struct Buffer {
	T *at = nullptr;
	size_t count;
	explicit Buffer(size_t n) : count(n) { must(cudaMalloc((void **)&at, n * sizeof(T))); }
	explicit Buffer(const std::vector<T> &from) : Buffer(from.size()) { must(cudaMemcpy(at, from.data(), count * sizeof(T), cudaMemcpyHostToDevice)); }
	~Buffer() { cudaFree(at); }
	Buffer(const Buffer &) = delete;
	std::vector<T> read(size_t n) const {
		std::vector<T> v(n);
		must(cudaMemcpy(v.data(), at, n * sizeof(T), cudaMemcpyDeviceToHost));
		return v;
	}
};

// milliseconds is the median of five runs after one that isn't counted.
double milliseconds(int runs, const std::function<void()> &f) {
	cudaEvent_t begin, end;
	must(cudaEventCreate(&begin));
	must(cudaEventCreate(&end));
	std::vector<float> took;
	for (int i = 0; i <= runs; i++) {
		float ms;
		must(cudaEventRecord(begin));
		f();
		must(cudaEventRecord(end));
		must(cudaEventSynchronize(end));
		must(cudaEventElapsedTime(&ms, begin, end));
		if (i > 0 || runs == 0) took.push_back(ms);
	}
	std::sort(took.begin(), took.end());
	return took[took.size() / 2];
}

void card() {
	cudaDeviceProp p;
	int driver;
	must(cudaGetDeviceProperties(&p, 0));
	must(cudaDriverGetVersion(&driver));
	printf("{\"name\":\"%s\",\"capability\":\"%d.%d\",\"multiprocessors\":%d,\"memory_bytes\":%zu,\"l2_bytes\":%d,\"shared_bytes_of_a_block\":%zu,\"driver_cuda\":\"%d.%d\"}\n", p.name, p.major, p.minor,
		p.multiProcessorCount, p.totalGlobalMem, p.l2CacheSize, p.sharedMemPerBlockOptin, driver / 1000, driver % 1000 / 10);
}

void copies() {
	const size_t size = (size_t)1 << 30;
	Buffer<char> on_card(size);
	void *pinned;
	must(cudaMallocHost(&pinned, size));
	memset(pinned, 1, size);
	std::vector<char> pageable(size, 1);
	for (bool in : {true, false})
		for (bool is_pinned : {true, false}) {
			void *host = is_pinned ? pinned : pageable.data();
			const double ms = milliseconds(3, [&] {
				must(in ? cudaMemcpyAsync(on_card.at, host, size, cudaMemcpyHostToDevice) : cudaMemcpyAsync(host, on_card.at, size, cudaMemcpyDeviceToHost));
			});
			printf("{\"direction\":\"%s\",\"memory\":\"%s\",\"bytes_per_s\":%.4g}\n", in ? "to the card" : "to the host", is_pinned ? "pinned" : "pageable", size / ms * 1e3);
		}
	cudaFreeHost(pinned);
}

constexpr int l2_rounds = 1000;
__global__ void read_together(const uint4 *from, int count, unsigned *out) {
	unsigned sum = 0;
	for (int round = 0; round < l2_rounds; round++)
		for (int i = threadIdx.x; i < count; i += blockDim.x) {
			uint4 v;
			asm volatile("ld.global.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from + i));
			sum += v.x ^ v.y ^ v.z ^ v.w;
		}
	if (sum == 12345) *out = sum;
}

void l2() {
	cudaDeviceProp p;
	must(cudaGetDeviceProperties(&p, 0));
	const size_t size = (size_t)1 << 20;
	Buffer<uint4> from(size / 16);
	must(cudaMemset(from.at, 1, size));
	Buffer<unsigned> out(1);
	const double ms = milliseconds(5, [&] { read_together<<<p.multiProcessorCount, 256>>>(from.at, (int)from.count, out.at); });
	must(cudaGetLastError());
	printf("{\"bytes_per_s\":%.4g}\n", (double)size * l2_rounds * p.multiProcessorCount / ms * 1e3);
}

std::vector<uint16_t> halves(size_t n, float scale, unsigned seed) {
	std::mt19937 random(seed);
	std::normal_distribution<float> normal(0, scale);
	std::vector<uint16_t> v(n);
	for (auto &x : v) x = to_half(normal(random));
	return v;
}

void lstm(int width, int steps, const std::vector<int> &numbers, int runs) {
	constexpr int checked = 16; // windows
	const auto weights = halves((size_t)8 * width * width, 1 / std::sqrt((float)width), 1);
	const std::vector<float> bias((size_t)4 * width, 0.1f);
	const auto some = halves((size_t)steps * checked * width, 1, 2);
	std::vector<uint16_t> want(some.size());
	LSTM call{};
	call.width = width;
	call.steps = steps;
	call.reverse = true;
	call.residual = true;
	call.x = some.data();
	call.y = want.data();
	call.bias = bias.data();
	call.windows = checked;
	run_lstm(call, LSTMWeights(weights.data(), width));
	Buffer<uint16_t> w(weights);
	Buffer<float> b(bias);
	std::vector<uint16_t> first;
	for (int windows : numbers) {
		std::vector<uint16_t> x((size_t)steps * windows * width);
		for (int t = 0; t < steps; t++)
			for (int n = 0; n < windows; n++) memcpy(&x[((size_t)t * windows + n) * width], &some[((size_t)t * checked + n % checked) * width], 2 * width);
		Buffer<uint16_t> in(x), out(x.size());
		must(cudaMemset(out.at, 0xFF, 2 * x.size()));
		call.x = in.at;
		call.y = out.at;
		call.weights = w.at;
		call.bias = b.at;
		call.windows = windows;
		const double ms = milliseconds(runs, [&] { must(launch_lstm(call, nullptr)); });
		const auto y = out.read(x.size());
		double off = 0, all = 0;
		bool same = true;
		std::vector<uint16_t> these;
		for (int t = 0; t < steps; t++)
			for (int n = 0; n < windows; n++)
				for (int u = 0; u < width; u++) {
					const uint16_t h = y[((size_t)t * windows + n) * width + u];
					const double v = from_half(want[((size_t)t * checked + n % checked) * width + u]), d = from_half(h) - v;
					off += d * d;
					all += v * v;
					if (n < checked) these.push_back(h);
				}
		if (first.empty()) first = these;
		same = first == these;
		printf("{\"width\":%d,\"windows\":%d,\"ms\":%.4g,\"us_per_step\":%.4g,\"error\":%.3g,\"same_as_first\":%s}\n", width, windows, ms, ms * 1e3 / steps, std::sqrt(off / all), same ? "true" : "false");
		fflush(stdout);
	}
}

void head(int width, int classes, const std::vector<int> &numbers, int runs) {
	constexpr int checked = 720; // rows
	const auto weights = halves(linear_weights(width, classes), 1 / std::sqrt((float)width), 5), some = halves((size_t)checked * width, 1, 6);
	const std::vector<float> bias(classes, 0.1f);
	std::vector<uint16_t> want((size_t)checked * classes);
	Head call{};
	call.width = width;
	call.classes = classes;
	call.activation = {Activation::tanh, 5, 0, 0};
	call.x = some.data();
	call.y = want.data();
	call.bias = bias.data();
	call.rows = checked;
	run_head(call, unpacked(weights.data(), width, classes));
	Buffer<uint16_t> w(weights);
	Buffer<float> b(bias);
	call.weights = w.at;
	call.bias = b.at;
	std::vector<uint16_t> first;
	for (int rows : numbers) {
		Buffer<uint16_t> in((size_t)rows * width), out((size_t)rows * classes);
		for (int r = 0; r < rows; r += checked)
			must(cudaMemcpy(in.at + (size_t)r * width, some.data(), (size_t)2 * std::min(checked, rows - r) * width, cudaMemcpyHostToDevice));
		must(cudaMemset(out.at, 0xFF, 2 * out.count));
		call.x = in.at;
		call.y = out.at;
		call.rows = (size_t)rows;
		const double ms = milliseconds(runs, [&] { must(launch_head(call, nullptr)); });
		const auto y = out.read(out.count);
		double off = 0, all = 0;
		int unequal = 0; // rows that aren't those of the first number
		for (int r = 0; r < rows; r++) {
			const uint16_t *have = &y[(size_t)r * classes], *is = &want[(size_t)(r % checked) * classes];
			for (int c = 0; c < classes; c++) {
				const double v = from_half(is[c]), d = from_half(have[c]) - v;
				off += d * d;
				all += v * v;
			}
			if (r < checked && (int)(first.size() / classes) <= r) first.insert(first.end(), have, have + classes);
			unequal += memcmp(have, &first[(size_t)(r % checked) * classes], 2 * classes) != 0;
		}
		printf("{\"width\":%d,\"scores\":%d,\"rows\":%d,\"ms\":%.4g,\"rows_per_s\":%.4g,\"error\":%.3g,\"unequal_rows\":%d}\n", width, classes, rows, ms, rows / ms * 1e3, std::sqrt(off / all), unequal);
		fflush(stdout);
	}
}

void stem(int width, int stride, int samples, const std::vector<int> &numbers, int runs) {
	constexpr int checked = 4; // windows
	Stem call{};
	call.width = width;
	call.samples = samples;
	call.channels = stem_channels;
	call.taps = 9;
	call.last = 19;
	call.stride = stride;
	call.left = (20 - stride) / 2;
	for (auto &f : call.activations) f.kind = Activation::silu;
	call.frames = (int)stem_frames(samples, call.left, call.left, call.last, stride);
	std::mt19937 random(7);
	std::normal_distribution<float> normal(0, 1);
	std::vector<float> some((size_t)checked * samples), small(call.small_count()), bias((size_t)linear_groups(width) * linear_group, 0.1f);
	for (float &v : some) v = normal(random);
	for (float &v : small) v = normal(random) / 3;
	const int factors = call.last * stem_channels;
	const auto weights = halves(linear_weights(factors, width), 1 / std::sqrt((float)factors), 8);
	const size_t of_frame = width;
	std::vector<uint16_t> want((size_t)checked * call.frames * width);
	call.x = some.data();
	call.y = want.data();
	call.bias = bias.data();
	call.small = small.data();
	call.windows = checked;
	run_stem(call, unpacked(weights.data(), factors, width));
	Buffer<uint16_t> w(weights);
	Buffer<float> b(bias), s(small);
	call.weights = w.at;
	call.bias = b.at;
	call.small = s.at;
	std::vector<uint16_t> first; // [frames][checked][width] of the first number, which has them all
	for (int windows : numbers) {
		std::vector<float> x((size_t)windows * samples);
		for (int n = 0; n < windows; n++) std::copy_n(&some[(size_t)(n % checked) * samples], samples, &x[(size_t)n * samples]);
		Buffer<float> in(x);
		Buffer<uint16_t> out((size_t)windows * call.frames * width);
		must(cudaMemset(out.at, 0xFF, 2 * out.count));
		call.x = in.at;
		call.y = out.at;
		call.windows = windows;
		const double ms = milliseconds(runs, [&] { must(launch_stem(call, nullptr)); });
		const auto y = out.read(out.count);
		double off = 0, all = 0;
		int unequal = 0; // frames that aren't those of the first number
		for (int t = 0; t < call.frames; t++)
			for (int n = 0; n < windows; n++) {
				const uint16_t *have = &y[((size_t)t * windows + n) * of_frame], *is = &want[((size_t)t * checked + n % checked) * of_frame];
				for (int u = 0; u < width; u++) {
					const double v = from_half(is[u]), d = from_half(have[u]) - v;
					off += d * d;
					all += v * v;
				}
				if (windows == numbers[0] && n < checked) first.insert(first.end(), have, have + width);
				const size_t same = ((size_t)t * std::min(checked, numbers[0]) + n % std::min(checked, numbers[0])) * of_frame;
				if (numbers[0] >= checked) unequal += memcmp(have, &first[same], 2 * of_frame) != 0;
			}
		printf("{\"width\":%d,\"stride\":%d,\"windows\":%d,\"ms\":%.4g,\"samples_per_s\":%.4g,\"error\":%.3g,\"unequal_frames\":%d}\n", width, stride, windows, ms, (double)windows * samples / ms * 1e3, std::sqrt(off / all), unequal);
		fflush(stdout);
	}
}

constexpr int checked_paths = 24; // windows

int states_of(const CRF &call) { return crf_states(call.state_length); }
int states_of(const CTC &call) { return call.classes; }

// decoded has the GPU decode half floats, windows first, and compares what it gives with the CPU's to the bit.
template <class CALL>
void decoded(CALL call, const std::vector<uint16_t> &some, int classes, void (*on_cpu)(const CALL &), const char *(*on_gpu)(CALL, void *), const std::vector<int> &numbers, int runs) {
	constexpr int checked = checked_paths;
	const int steps = call.steps;
	call.half = call.windows_first = true;
	std::vector<int32_t> frames(checked);
	for (int n = 0; n < checked; n++) frames[n] = n % 5 == 4 ? steps * n / checked : steps;
	std::vector<uint8_t> path((size_t)checked * steps);
	std::vector<float> probability(path.size());
	call.scores = some.data();
	call.frames = frames.data();
	call.path = path.data();
	call.probability = probability.data();
	call.windows = checked;
	on_cpu(call);
	for (int windows : numbers) {
		Buffer<uint16_t> scores((size_t)windows * steps * classes);
		std::vector<int32_t> all(windows);
		for (int n = 0; n < windows; n++) all[n] = frames[n % checked];
		for (int n = 0; n < windows; n += checked)
			must(cudaMemcpy(scores.at + (size_t)n * steps * classes, some.data(), (size_t)2 * std::min(checked, windows - n) * steps * classes, cudaMemcpyHostToDevice));
		Buffer<int32_t> counts(all);
		Buffer<uint8_t> path_there((size_t)windows * steps);
		Buffer<float> probability_there((size_t)windows * steps);
		call.scores = scores.at;
		call.frames = counts.at;
		call.path = path_there.at;
		call.probability = probability_there.at;
		call.windows = windows;
		const double ms = milliseconds(runs, [&] { must(on_gpu(call, nullptr)); });
		const auto have = path_there.read(path_there.count);
		const auto sure = probability_there.read(path_there.count);
		int unequal = 0;
		for (int n = 0; n < windows; n++)
			unequal += memcmp(&have[(size_t)n * steps], &path[(size_t)(n % checked) * steps], steps) != 0 || memcmp(&sure[(size_t)n * steps], &probability[(size_t)(n % checked) * steps], 4 * steps) != 0;
		printf("{\"%s\":%d,\"windows\":%d,\"frames\":%d,\"ms\":%.4g,\"frames_per_s\":%.4g,\"unequal_windows\":%d}\n", std::is_same_v<CALL, CTC> ? "classes" : "states", states_of(call), windows, steps, ms, (double)windows * steps / ms * 1e3, unequal);
		fflush(stdout);
	}
}

void crf(int state_length, int steps, const std::vector<int> &numbers, int runs) {
	constexpr int checked = checked_paths;
	const int classes = 4 * crf_states(state_length), q = classes / 16;
	// Scores that favour a sequence, as a network's do.
	std::mt19937 random(3);
	std::normal_distribution<float> normal(-1, 1);
	std::vector<uint16_t> some((size_t)checked * steps * classes);
	for (int n = 0, state = 0; n < checked; n++)
		for (int t = 0; t < steps; t++) {
			uint16_t *row = &some[((size_t)n * steps + t) * classes];
			for (int i = 0; i < classes; i++) row[i] = to_half(std::min(5.f, normal(random)));
			if (random() % 2) continue;
			const int dropped = state / q;
			state = state % q * 4 + (int)(random() % 4);
			row[4 * state + dropped] = to_half(2 + 3 * (random() % 1000 / 1000.f));
		}
	CRF call{};
	call.steps = steps;
	call.state_length = state_length;
	call.stay = 2;
	call.width = 12;
	call.cut = 100;
	decoded(call, some, classes, run_crf, launch_crf, numbers, runs);
}

void ctc(int width, int steps, const std::vector<int> &numbers, int runs) {
	constexpr int classes = 5;
	std::mt19937 random(4);
	std::normal_distribution<float> normal(0, 1.2f);
	std::vector<uint16_t> some((size_t)checked_paths * steps * classes);
	for (size_t row = 0; row < some.size() / classes; row++) {
		const unsigned favoured = random() % 5 < 2 ? 1 + random() % 4 : 0;
		for (unsigned k = 0; k < classes; k++) some[row * classes + k] = to_half(normal(random) + (k == favoured ? 4 : 0));
	}
	CTC call{};
	call.logits = true;
	call.steps = steps;
	call.classes = classes;
	call.width = width;
	call.cut = 0.01f;
	call.bonus = 1;
	decoded(call, some, classes, run_ctc, launch_ctc, numbers, runs);
}

} // namespace

int main(int argc, char **argv) {
	const std::string what = argc > 1 ? argv[1] : "";
	const auto numbers = [&](const char *list) {
		std::vector<int> v;
		for (const char *p = list; *p; p += strcspn(p, ","), p += *p == ',') v.push_back(atoi(p));
		return v;
	};
	if (what == "card") {
		card();
	} else if (what == "copies") {
		copies();
	} else if (what == "l2") {
		l2();
	} else if (what == "lstm" && argc == 4) {
		lstm(atoi(argv[2]), 256, numbers(argv[3]), 5);
	} else if (what == "head" && argc == 5) {
		head(atoi(argv[2]), atoi(argv[3]), numbers(argv[4]), 5);
	} else if (what == "stem" && argc == 5) {
		stem(atoi(argv[2]), atoi(argv[3]), 3600, numbers(argv[4]), 5);
	} else if (what == "crf" && argc == 4) {
		crf(atoi(argv[2]), 720, numbers(argv[3]), 5);
	} else if (what == "ctc" && argc == 4) {
		ctc(atoi(argv[2]), 1200, numbers(argv[3]), 5);
	} else if (what == "small") {
		must(check_device());
		for (int width : {112, 256, 384}) lstm(width, 3, {70}, 0);
		for (int width : {112, 256}) head(width, 256, {70}, 0);
		for (int width : {112, 256}) stem(width, 5, 400, {6}, 0);
		for (int bases : {3, 4}) crf(bases, 40, {30}, 0);
		for (int beam : {5, 32}) ctc(beam, 40, {30}, 0);
	} else {
		fprintf(stderr, "bench: card, copies, l2, lstm WIDTH WINDOWS,..., head WIDTH SCORES ROWS,..., stem WIDTH STRIDE WINDOWS,..., crf BASES WINDOWS,..., ctc BEAM WINDOWS,... or small\n");
		return 2;
	}
	return 0;
}

// Runs kernels on a CPU for tests: reads what they are given from standard input and writes
// what they give to standard output.
//
//   emulate lstm WIDTH STEPS WINDOWS REVERSE RESIDUAL PROCESSORS SHARED BACKWARDS
//   emulate lstm-cpu WIDTH STEPS WINDOWS REVERSE RESIDUAL
//   emulate head WIDTH ROWS CLASSES ACTIVATION SCALE LOW HIGH PROCESSORS SHARED BACKWARDS
//   emulate head-cpu WIDTH ROWS CLASSES ACTIVATION SCALE LOW HIGH
//   emulate stem WIDTH WINDOWS SAMPLES CHANNELS TAPS SECOND LAST STRIDE LEFT RIGHT ACTIVATION ACTIVATION ACTIVATION PROCESSORS SHARED BACKWARDS
//   emulate stem-cpu WIDTH WINDOWS SAMPLES CHANNELS TAPS SECOND LAST STRIDE LEFT RIGHT ACTIVATION ACTIVATION ACTIVATION
//   emulate crf STATE_LENGTH STEPS WINDOWS WINDOWS_FIRST HALF STAYS STAY WIDTH CUT MEMORY BACKWARDS
//   emulate crf-cpu STATE_LENGTH STEPS WINDOWS WINDOWS_FIRST HALF STAYS STAY WIDTH CUT
//   emulate ctc CLASSES STEPS WINDOWS WINDOWS_FIRST HALF LOGITS BONUS WIDTH CUT MEMORY BACKWARDS
//   emulate ctc-cpu CLASSES STEPS WINDOWS WINDOWS_FIRST HALF LOGITS BONUS WIDTH CUT
//
// lstm and head take x and the packed weights as half floats and the biases as floats, stem a signal of floats, and behind the biases
// the others' weights and biases as floats; the first is the GPU's
// kernel on a card with so many multiprocessors, of which each has so many bytes of shared
// memory for a block, and the second the operator's on a CPU. crf and ctc take the frames of each
// window as 32-bit numbers and the scores, have so many bytes of global memory, and give the path and
// then the probabilities.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "crf.cu"
#include "crf_cpu.h"
#include "ctc.cu"
#include "ctc_cpu.h"
#include "head.cu"
#include "head_cpu.h"
#include "linear_cpu.h"
#include "lstm.cu"
#include "lstm_cpu.h"
#include "stem.cu"
#include "stem_cpu.h"

namespace {

template <class T> std::vector<T> input(size_t count) {
	std::vector<T> v(count);
	if (fread(v.data(), sizeof(T), count, stdin) != count) {
		fprintf(stderr, "the input is too short\n");
		exit(1);
	}
	return v;
}

template <class T> void output(const std::vector<T> &v) {
	if (fwrite(v.data(), sizeof(T), v.size(), stdout) != v.size()) exit(1);
}

// emulated_lstm runs a layer of a width that the compiler knows, or of any.
template <int WIDTH> bool emulated_lstm(const LSTM &call, const LSTMPlan &plan, bool backwards) {
	switch (plan.tiles) {
	case 1: return emulator::launch(plan.blocks, lstm_threads, plan.shared, backwards, [&] { lstm_kernel<WIDTH, 1>(call); });
	case 2: return emulator::launch(plan.blocks, lstm_threads, plan.shared, backwards, [&] { lstm_kernel<WIDTH, 2>(call); });
	default: return emulator::launch(plan.blocks, lstm_threads, plan.shared, backwards, [&] { lstm_kernel<WIDTH, 4>(call); });
	}
}

int lstm(int argc, char **argv, bool emulated) {
	if (argc != (emulated ? 10 : 7)) return 2;
	LSTM call{};
	call.width = atoi(argv[2]);
	call.steps = atoi(argv[3]);
	call.windows = atoi(argv[4]);
	call.reverse = atoi(argv[5]);
	call.residual = atoi(argv[6]);
	const LSTMPlan plan = emulated ? plan_lstm(call.width, call.windows, atoi(argv[7]), atoi(argv[8])) : LSTMPlan{1, 0, 0, 0};
	if (plan.tiles == 0) {
		fprintf(stderr, "no room\n");
		return 3;
	}
	const size_t count = (size_t)call.steps * call.windows * call.width;
	const auto x = input<uint16_t>(count), weights = input<uint16_t>((size_t)8 * call.width * call.width);
	const auto bias = input<float>((size_t)4 * call.width);
	std::vector<uint16_t> y(count, 0x7E00); // NaN
	call.x = x.data();
	call.y = y.data();
	call.weights = weights.data();
	call.bias = bias.data();
	if (!emulated) {
		run_lstm(call, LSTMWeights(call.weights, call.width));
		output(y);
		return 0;
	}
	std::vector<float> cells(plan.cells, NAN);
	call.cells = plan.cells ? cells.data() : nullptr;
	const bool backwards = atoi(argv[9]);
	bool kept;
	switch (call.width) {
	case 112: kept = emulated_lstm<112>(call, plan, backwards); break;
	case 256: kept = emulated_lstm<256>(call, plan, backwards); break;
	case 384: kept = emulated_lstm<384>(call, plan, backwards); break;
	default: kept = emulated_lstm<0>(call, plan, backwards);
	}
	if (!kept) {
		fprintf(stderr, "the kernel wrote behind its shared memory\n");
		return 4;
	}
	fprintf(stderr, "%d tiles %zu shared %zu cells\n", plan.tiles, plan.shared, plan.cells);
	output(y);
	return 0;
}

// emulated_linear runs a kernel for a call as planned, and writes what it gives.
template <class CALL> int emulated_linear(void (*kernel)(const CALL), const LinearPlan &plan, const CALL &call, const std::vector<uint16_t> &y, bool backwards) {
	if (!emulator::launch(plan.blocks, linear_threads, plan.shared, backwards, [&] { kernel(call); })) {
		fprintf(stderr, "the kernel wrote behind its shared memory\n");
		return 4;
	}
	fprintf(stderr, "%d tiles %zu shared\n", plan.tiles, plan.shared);
	output(y);
	return 0;
}

int head(int argc, char **argv, bool emulated) {
	if (argc != (emulated ? 12 : 9)) return 2;
	Head call{};
	call.width = atoi(argv[2]);
	call.rows = (size_t)atoi(argv[3]);
	call.classes = atoi(argv[4]);
	call.activation = {(Activation::Kind)atoi(argv[5]), strtof(argv[6], nullptr), strtof(argv[7], nullptr), strtof(argv[8], nullptr)};
	const LinearPlan plan = emulated ? plan_head(call.width, call.rows, atoi(argv[9]), atoi(argv[10])) : LinearPlan{2, 0, 0};
	if (!head_can(call.width, call.classes) || plan.tiles == 0) {
		fprintf(stderr, "no room\n");
		return 3;
	}
	const auto x = input<uint16_t>(call.rows * call.width), weights = input<uint16_t>(linear_weights(call.width, call.classes));
	const auto bias = input<float>(call.classes);
	std::vector<uint16_t> y(call.rows * call.classes, 0x7E00); // NaN
	call.x = x.data();
	call.y = y.data();
	call.weights = weights.data();
	call.bias = bias.data();
	if (!emulated) {
		run_head(call, unpacked(call.weights, call.width, call.classes));
		output(y);
		return 0;
	}
	return emulated_linear(plan.tiles == 2 ? head_kernel<2> : head_kernel<4>, plan, call, y, atoi(argv[11]));
}

int stem(int argc, char **argv, bool emulated) {
	if (argc != (emulated ? 18 : 15)) return 2;
	int n[16];
	for (int i = 0; i < argc - 2; i++) n[i] = atoi(argv[2 + i]);
	Stem call{};
	call.width = n[0];
	call.windows = n[1];
	call.samples = n[2];
	call.channels = n[3];
	call.taps = n[4];
	call.second = n[5];
	call.last = n[6];
	call.stride = n[7];
	call.left = n[8];
	for (int i = 0; i < 3; i++) call.activations[i].kind = (Activation::Kind)n[10 + i];
	call.frames = (int)stem_frames(call.samples, call.left, n[9], call.last, call.stride);
	const LinearPlan plan = emulated ? plan_stem(call, n[13], n[14]) : LinearPlan{2, 0, 0};
	if (!stem_can(n[0], n[3], n[4], n[5], n[6], n[7], n[8], n[9]) || plan.tiles == 0) {
		fprintf(stderr, "no room\n");
		return 3;
	}
	const auto x = input<float>((size_t)call.windows * call.samples);
	const auto weights = input<uint16_t>(linear_weights(call.last * stem_channels, call.width));
	const auto bias = input<float>(linear_groups(call.width) * linear_group), small = input<float>(call.small_count());
	std::vector<uint16_t> y((size_t)call.windows * call.frames * call.width, 0x7E00); // NaN
	call.x = x.data();
	call.y = y.data();
	call.weights = weights.data();
	call.bias = bias.data();
	call.small = small.data();
	if (!emulated) {
		run_stem(call, unpacked(call.weights, call.last * stem_channels, call.width));
		output(y);
		return 0;
	}
	return emulated_linear(plan.tiles == 2 ? stem_kernel<2> : stem_kernel<4>, plan, call, y, n[15]);
}

// emulated_parts has launch_kernel launch a kernel for each part of a call. What nobody wrote, another part's windows included, is NaN.
template <class CALL, class RUN> bool emulated_parts(const CALL &call, const DecodePlan &plan, bool backwards, RUN launch_kernel) {
	std::vector<char> memory(plan.at_a_time * plan.window);
	return in_parts(call, plan, memory.data(), [&](const Part<CALL> &part, unsigned blocks) {
		std::fill(memory.begin(), memory.end(), (char)0xFF);
		return launch_kernel([&](auto kernel) { return emulator::launch(blocks, 32 * plan.warps, plan.shared, backwards, [&] { kernel(part); }); });
	});
}

template <int STATES, class LAUNCH> bool emulated_crf(const CRF &call, LAUNCH launch) {
	if (call.width > 0) return call.half ? launch(crf_kernel<STATES, uint16_t, true>) : launch(crf_kernel<STATES, float, true>);
	return call.half ? launch(crf_kernel<STATES, uint16_t, false>) : launch(crf_kernel<STATES, float, false>);
}

bool emulated(const CRF &call, size_t most_memory, bool backwards) {
	return emulated_parts(call, plan_crf(call, most_memory), backwards, [&](auto launch) {
		switch (call.state_length) {
		case 3: return emulated_crf<64>(call, launch);
		case 4: return emulated_crf<256>(call, launch);
		case 5: return emulated_crf<1024>(call, launch);
		default: return emulated_crf<0>(call, launch);
		}
	});
}

bool emulated(const CTC &call, size_t most_memory, bool backwards) {
	return emulated_parts(call, plan_ctc(call, most_memory), backwards, [&](auto launch) { return call.half ? launch(ctc_kernel<uint16_t>) : launch(ctc_kernel<float>); });
}

// decode reads what a decoder is given, runs it and writes what it gives. The arguments from the 13th on are the
// emulator's, if there are any.
template <class CALL> int decode(CALL call, int classes, int argc, char **argv, void (*on_cpu)(const CALL &)) {
	call.steps = atoi(argv[3]);
	call.windows = atoi(argv[4]);
	call.windows_first = atoi(argv[5]);
	call.half = atoi(argv[6]);
	const size_t frames = (size_t)call.steps * call.windows, count = frames * classes;
	const auto of = input<int32_t>(call.windows);
	std::vector<uint16_t> halves;
	std::vector<float> floats;
	if (call.half)
		halves = input<uint16_t>(count);
	else
		floats = input<float>(count);
	std::vector<uint8_t> path(frames, 0xEE);
	std::vector<float> probability(frames, NAN);
	call.scores = call.half ? (const void *)halves.data() : floats.data();
	call.frames = of.data();
	call.path = path.data();
	call.probability = probability.data();
	if (argc == 11) {
		on_cpu(call);
	} else if (!emulated(call, strtoull(argv[11], nullptr, 10), atoi(argv[12]))) {
		fprintf(stderr, "the kernel wrote behind its shared memory\n");
		return 4;
	}
	output(path);
	output(probability);
	return 0;
}

int crf(int argc, char **argv, bool emulated) {
	if (argc != (emulated ? 13 : 11)) return 2;
	CRF call{};
	call.state_length = atoi(argv[2]);
	call.stays = atoi(argv[7]);
	call.stay = strtof(argv[8], nullptr);
	call.width = atoi(argv[9]);
	call.cut = strtof(argv[10], nullptr);
	if (!crf_can(call.state_length, call.width, call.stay, call.cut)) {
		fprintf(stderr, "no kernel\n");
		return 3;
	}
	return decode(call, (call.stays ? 5 : 4) * crf_states(call.state_length), argc, argv, run_crf);
}

int ctc(int argc, char **argv, bool emulated) {
	if (argc != (emulated ? 13 : 11)) return 2;
	CTC call{};
	call.classes = atoi(argv[2]);
	call.logits = atoi(argv[7]);
	call.bonus = ctc_exp(strtof(argv[8], nullptr));
	call.width = atoi(argv[9]);
	call.cut = strtof(argv[10], nullptr);
	if (!ctc_can(call.classes, call.width, call.cut)) {
		fprintf(stderr, "no kernel\n");
		return 3;
	}
	return decode(call, call.classes, argc, argv, run_ctc);
}

} // namespace

int main(int argc, char **argv) {
	const std::string what = argc > 1 ? argv[1] : "";
	if (what == "lstm") return lstm(argc, argv, true);
	if (what == "lstm-cpu") return lstm(argc, argv, false);
	if (what == "head") return head(argc, argv, true);
	if (what == "head-cpu") return head(argc, argv, false);
	if (what == "stem") return stem(argc, argv, true);
	if (what == "stem-cpu") return stem(argc, argv, false);
	if (what == "crf") return crf(argc, argv, true);
	if (what == "crf-cpu") return crf(argc, argv, false);
	if (what == "ctc") return ctc(argc, argv, true);
	if (what == "ctc-cpu") return ctc(argc, argv, false);
	return 2;
}

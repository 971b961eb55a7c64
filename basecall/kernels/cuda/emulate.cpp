// Runs kernels on a CPU for tests: reads what they are given from standard input and writes
// what they give to standard output.
//
//   emulate lstm WIDTH STEPS WINDOWS REVERSE RESIDUAL PROCESSORS SHARED BACKWARDS
//   emulate lstm-cpu WIDTH STEPS WINDOWS REVERSE RESIDUAL
//
// takes x and the packed weights as half floats and the biases as floats; the first is the GPU's
// kernel on a card with so many multiprocessors, of which each has so many bytes of shared
// memory for a block, and the second the operator's on a CPU.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "lstm.cu"
#include "lstm_cpu.h"

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

} // namespace

int main(int argc, char **argv) {
	const std::string what = argc > 1 ? argv[1] : "";
	if (what == "lstm") return lstm(argc, argv, true);
	if (what == "lstm-cpu") return lstm(argc, argv, false);
	return 2;
}

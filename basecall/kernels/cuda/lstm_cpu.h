// The LSTM layer on a CPU: the same numbers as on a GPU, to the order of a sum.
#pragma once
#include <vector>

#include "lstm.h"

// LSTMWeights are a layer's weights as a CPU reads them: [2 width][4 width] floats, a row for
// each of the factors [x|h], its columns the gates of all units.
struct LSTMWeights {
	std::vector<float> rows;
	LSTMWeights() = default;
	LSTMWeights(const uint16_t *packed, int width);
};

// run_lstm computes a layer; call.weights is not looked at.
void run_lstm(const LSTM &call, const LSTMWeights &weights);

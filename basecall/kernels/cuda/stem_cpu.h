// The convolutions between a signal and the first LSTM layer on a CPU: the same numbers as on a GPU, to the order of a sum.
#pragma once
#include <vector>

#include "stem.h"

// run_stem computes them with weights of the last one that are unpacked (see linear_cpu.h); call.weights is not looked at.
void run_stem(const Stem &call, const std::vector<float> &weights);

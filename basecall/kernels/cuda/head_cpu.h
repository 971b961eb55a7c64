// The layer before a decoder on a CPU: the same numbers as on a GPU, to the order of a sum.
#pragma once
#include <vector>

#include "head.h"

// run_head computes a layer with weights that are unpacked (see linear_cpu.h); call.weights is not looked at.
void run_head(const Head &call, const std::vector<float> &weights);

// Decoding the scores of a network trained by CTC on a CPU: to the bit what a GPU gives.
#pragma once
#include "ctc.h"

void run_ctc(const CTC &call);

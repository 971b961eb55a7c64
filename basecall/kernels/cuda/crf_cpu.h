// Decoding the scores of a CRF on a CPU: to the bit what a GPU gives.
#pragma once
#include "crf.h"

void run_crf(const CRF &call);

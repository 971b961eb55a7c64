// What the operators call on a GPU. Each returns what went wrong, and nullptr if nothing did. The work
// is queued on a stream of the current device.
#pragma once
#include "crf.h"
#include "ctc.h"
#include "lstm.h"

const char *launch_lstm(LSTM call, void *stream);
const char *launch_crf(CRF call, void *stream);
const char *launch_ctc(CTC call, void *stream);
// check_device says whether the kernels can run on the current device, and prepares it.
const char *check_device();

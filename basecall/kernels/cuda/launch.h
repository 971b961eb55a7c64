// What the operators call on a GPU. Each returns what went wrong, and nullptr if nothing did. The work
// is queued on a stream of the current device.
#pragma once
#include "crf.h"
#include "ctc.h"
#include "head.h"
#include "lstm.h"
#include "stem.h"

const char *launch_lstm(LSTM call, void *stream);
const char *launch_head(const Head &call, void *stream);
const char *launch_stem(const Stem &call, void *stream);
const char *launch_crf(CRF call, void *stream);
const char *launch_ctc(CTC call, void *stream);
// check_device says whether the kernels can run on the current device, and prepares it.
const char *check_device();
// read_device gives the number of the current device's multiprocessors, and how many bytes of shared memory each lets a block have.
const char *read_device(int &processors, int &most_shared);

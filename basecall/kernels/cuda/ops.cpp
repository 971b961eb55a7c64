// The library of operators that ONNX Runtime loads: domain "porestream", each operator for
// CUDA's provider and, with the same numbers, for the CPU's. It is built without the former unless
// PORESTREAM_CUDA is set.
//
// It calls the runtime through the C interface of version 17 that it is handed, and links
// against nothing of it.
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "crf_cpu.h"
#include "ctc_cpu.h"
#include "head_cpu.h"
#include "linear_cpu.h"
#include "lstm_cpu.h"
#include "onnxruntime_c_api.h"
#include "stem_cpu.h"
#ifdef PORESTREAM_CUDA
#include "launch.h"
#endif

namespace {

constexpr uint32_t runtime_version = 17;
const OrtApi *api; // set when the library is registered

OrtStatus *failed(const std::string &what) { return api->CreateStatus(ORT_EP_FAIL, what.c_str()); }

// RETURN_IF_FAILED passes on what the runtime says is wrong.
#define RETURN_IF_FAILED(call) \
	if (OrtStatus *status_ = (call)) return status_

OrtStatus *dimensions(const OrtValue *value, std::vector<int64_t> &dims) {
	OrtTensorTypeAndShapeInfo *info;
	RETURN_IF_FAILED(api->GetTensorTypeAndShape(value, &info));
	size_t count = 0;
	OrtStatus *status = api->GetDimensionsCount(info, &count);
	if (!status) {
		dims.resize(count);
		status = api->GetDimensions(info, dims.data(), count);
	}
	api->ReleaseTensorTypeAndShapeInfo(info);
	return status;
}

template <class T> OrtStatus *data(const OrtValue *value, T **out) {
	return api->GetTensorMutableData(const_cast<OrtValue *>(value), (void **)out);
}

OrtStatus *element(const OrtValue *value, ONNXTensorElementDataType &type) {
	OrtTensorTypeAndShapeInfo *info;
	RETURN_IF_FAILED(api->GetTensorTypeAndShape(value, &info));
	OrtStatus *status = api->GetTensorElementType(info, &type);
	api->ReleaseTensorTypeAndShapeInfo(info);
	return status;
}

OrtStatus *input(OrtKernelContext *context, size_t index, const OrtValue **value, std::vector<int64_t> &dims) {
	RETURN_IF_FAILED(api->KernelContext_GetInput(context, index, value));
	return dimensions(*value, dims);
}

#ifdef PORESTREAM_CUDA
// launched has launch queue an operator's kernel on the stream that the runtime computes on.
template <class LAUNCH> OrtStatus *launched(OrtKernelContext *context, const std::string &name, LAUNCH launch) {
	void *stream;
	RETURN_IF_FAILED(api->KernelContext_GetGPUComputeStream(context, &stream));
	const char *what = check_device();
	if (!what) what = launch(stream);
	return what ? failed(name + ": " + what) : nullptr;
}
#endif

// Operator is an OrtCustomOp of this library.
struct Operator : OrtCustomOp {
	const char *name;
	bool cuda;
	std::vector<ONNXTensorElementDataType> inputs, outputs;
};

// An LSTM layer: X half [steps, windows, width], weights half, bias float [4 width] -> Y half,
// of X's dimensions. Attributes: hidden_size, reverse, residual.
struct LSTMKernel {
	bool cuda;
	int64_t width = 0, reverse = 0, residual = 0;
	std::once_flag unpacked;
	LSTMWeights weights; // on a CPU, from the first run on

	OrtStatus *init(const OrtKernelInfo *info) {
		RETURN_IF_FAILED(api->KernelInfoGetAttribute_int64(info, "hidden_size", &width));
		RETURN_IF_FAILED(api->KernelInfoGetAttribute_int64(info, "reverse", &reverse));
		RETURN_IF_FAILED(api->KernelInfoGetAttribute_int64(info, "residual", &residual));
		if (width < lstm_least || width > lstm_most || !lstm_width((int)width))
			return failed("porestream.LSTM has no kernel for layers of width " + std::to_string(width));
		return nullptr;
	}

	OrtStatus *compute(OrtKernelContext *context) {
		const OrtValue *x, *w, *b;
		std::vector<int64_t> dims, of_weights, of_bias;
		RETURN_IF_FAILED(input(context, 0, &x, dims));
		RETURN_IF_FAILED(input(context, 1, &w, of_weights));
		RETURN_IF_FAILED(input(context, 2, &b, of_bias));
		if (dims.size() != 3 || dims[2] != width || of_weights != std::vector<int64_t>{8 * width * width} || of_bias != std::vector<int64_t>{4 * width})
			return failed("porestream.LSTM: inputs don't have the dimensions of a layer of width " + std::to_string(width));
		OrtValue *y;
		RETURN_IF_FAILED(api->KernelContext_GetOutput(context, 0, dims.data(), dims.size(), &y));
		LSTM call{};
		RETURN_IF_FAILED(data(x, &call.x));
		RETURN_IF_FAILED(data(w, &call.weights));
		RETURN_IF_FAILED(data(b, &call.bias));
		RETURN_IF_FAILED(data(y, &call.y));
		call.width = (int)width;
		call.steps = (int)dims[0];
		call.windows = (int)dims[1];
		call.reverse = reverse != 0;
		call.residual = residual != 0;
		if (call.steps == 0 || call.windows == 0) return nullptr;
#ifdef PORESTREAM_CUDA
		if (cuda) return launched(context, "porestream.LSTM", [&](void *stream) { return launch_lstm(call, stream); });
#endif
		// The graph's weights are constants.
		std::call_once(unpacked, [&] { weights = LSTMWeights(call.weights, call.width); });
		run_lstm(call, weights);
		return nullptr;
	}
};

// The layer before a decoder: X half [..., width], weights half, bias float [classes] -> Y half [..., classes]. Attributes: width, classes,
// activation (0 none, 1 tanh, 2 clamp), scale of tanh, low and high of clamp.
struct HeadKernel {
	bool cuda;
	Head of{};
	std::once_flag unpacking;
	std::vector<float> weights; // on a CPU, from the first run on

	OrtStatus *init(const OrtKernelInfo *info) {
		int64_t width, classes, activation;
		RETURN_IF_FAILED(api->KernelInfoGetAttribute_int64(info, "width", &width));
		RETURN_IF_FAILED(api->KernelInfoGetAttribute_int64(info, "classes", &classes));
		RETURN_IF_FAILED(api->KernelInfoGetAttribute_int64(info, "activation", &activation));
		RETURN_IF_FAILED(api->KernelInfoGetAttribute_float(info, "scale", &of.activation.scale));
		RETURN_IF_FAILED(api->KernelInfoGetAttribute_float(info, "low", &of.activation.low));
		RETURN_IF_FAILED(api->KernelInfoGetAttribute_float(info, "high", &of.activation.high));
		if (!head_can(width, classes) || activation < Activation::none || activation > Activation::clamp)
			return failed("porestream.Head has no kernel for " + std::to_string(classes) + " scores of " + std::to_string(width) + " states");
		of.width = (int)width;
		of.classes = (int)classes;
		of.activation.kind = (Activation::Kind)activation;
		return nullptr;
	}

	OrtStatus *compute(OrtKernelContext *context) {
		const OrtValue *x, *w, *b;
		std::vector<int64_t> dims, of_weights, of_bias;
		RETURN_IF_FAILED(input(context, 0, &x, dims));
		RETURN_IF_FAILED(input(context, 1, &w, of_weights));
		RETURN_IF_FAILED(input(context, 2, &b, of_bias));
		if (dims.empty() || dims.back() != of.width || of_weights != std::vector<int64_t>{(int64_t)of.width * of.classes} || of_bias != std::vector<int64_t>{of.classes})
			return failed("porestream.Head: inputs don't have the dimensions of a layer from " + std::to_string(of.width) + " states to " + std::to_string(of.classes) + " scores");
		dims.back() = of.classes;
		OrtValue *y;
		RETURN_IF_FAILED(api->KernelContext_GetOutput(context, 0, dims.data(), dims.size(), &y));
		Head call = of;
		RETURN_IF_FAILED(data(x, &call.x));
		RETURN_IF_FAILED(data(w, &call.weights));
		RETURN_IF_FAILED(data(b, &call.bias));
		RETURN_IF_FAILED(data(y, &call.y));
		call.rows = 1;
		for (size_t i = 0; i + 1 < dims.size(); i++) call.rows *= (size_t)dims[i];
		if (call.rows == 0) return nullptr;
#ifdef PORESTREAM_CUDA
		if (cuda) return launched(context, "porestream.Head", [&](void *stream) { return launch_head(call, stream); });
#endif
		// The graph's weights are constants.
		std::call_once(unpacking, [&] { weights = unpacked(call.weights, call.width, call.classes); });
		run_head(call, weights);
		return nullptr;
	}
};

// The convolutions before the LSTM layers: X float [windows, 1, samples], weights of the last one half, its biases float, weights and biases of the
// others float (see Stem) -> Y half [frames, windows, width]. Attributes: width, channels, taps, second, last, stride, left, right and
// activation_0 to activation_2, of the first, the second and the last.
struct StemKernel {
	bool cuda;
	Stem of{};
	int64_t right = 0;
	std::once_flag unpacking;
	std::vector<float> weights; // on a CPU, from the first run on

	OrtStatus *init(const OrtKernelInfo *info) {
		int64_t width, channels, taps, second, last, stride, left;
		const std::pair<const char *, int64_t *> numbers[] = {{"width", &width}, {"channels", &channels}, {"taps", &taps}, {"second", &second}, {"last", &last}, {"stride", &stride}, {"left", &left}, {"right", &right}};
		for (const auto &[name, to] : numbers) RETURN_IF_FAILED(api->KernelInfoGetAttribute_int64(info, name, to));
		for (int i = 0; i < 3; i++) {
			int64_t kind;
			RETURN_IF_FAILED(api->KernelInfoGetAttribute_int64(info, ("activation_" + std::to_string(i)).c_str(), &kind));
			if (kind != Activation::none && kind != Activation::tanh && kind != Activation::silu) return failed("porestream.Stem has no activation " + std::to_string(kind));
			of.activations[i].kind = (Activation::Kind)kind;
		}
		if (!stem_can(width, channels, taps, second, last, stride, left, right))
			return failed("porestream.Stem has no kernel for convolutions of " + std::to_string(taps) + ", " + std::to_string(second) + " and " + std::to_string(last) + " taps to " + std::to_string(width) + " channels");
		of.width = (int)width;
		of.channels = (int)channels;
		of.taps = (int)taps;
		of.second = (int)second;
		of.last = (int)last;
		of.stride = (int)stride;
		of.left = (int)left;
		return nullptr;
	}

	OrtStatus *compute(OrtKernelContext *context) {
		const OrtValue *x, *w, *b, *s;
		std::vector<int64_t> dims, of_weights, of_bias, of_small;
		RETURN_IF_FAILED(input(context, 0, &x, dims));
		RETURN_IF_FAILED(input(context, 1, &w, of_weights));
		RETURN_IF_FAILED(input(context, 2, &b, of_bias));
		RETURN_IF_FAILED(input(context, 3, &s, of_small));
		Stem call = of;
		if (dims.size() != 3 || dims[1] != 1 || dims[2] > INT32_MAX / 64 || of_bias != std::vector<int64_t>{linear_groups(of.width) * linear_group} ||
			of_weights != std::vector<int64_t>{(int64_t)linear_weights(of.last * stem_channels, of.width)} || of_small != std::vector<int64_t>{call.small_count()})
			return failed("porestream.Stem: inputs don't have the dimensions of convolutions to " + std::to_string(of.width) + " channels");
		call.windows = (int)dims[0];
		call.samples = (int)dims[2];
		call.frames = (int)stem_frames(dims[2], of.left, right, of.last, of.stride);
		const int64_t out[] = {call.frames, call.windows, of.width};
		OrtValue *y;
		RETURN_IF_FAILED(api->KernelContext_GetOutput(context, 0, out, 3, &y));
		RETURN_IF_FAILED(data(x, &call.x));
		RETURN_IF_FAILED(data(w, &call.weights));
		RETURN_IF_FAILED(data(b, &call.bias));
		RETURN_IF_FAILED(data(s, &call.small));
		RETURN_IF_FAILED(data(y, &call.y));
		if (call.frames == 0 || call.windows == 0) return nullptr;
#ifdef PORESTREAM_CUDA
		if (cuda) return launched(context, "porestream.Stem", [&](void *stream) { return launch_stem(call, stream); });
#endif
		// The graph's weights are constants.
		std::call_once(unpacking, [&] { weights = unpacked(call.weights, call.last * stem_channels, call.width); });
		run_stem(call, weights);
		return nullptr;
	}
};

// How each kind of decoder is read of a node's attributes, called and named.
struct DecodesCRF {
	using Call = CRF;
	static constexpr const char *name = "porestream.CRF";
	static OrtStatus *read(const OrtKernelInfo *info, CRF &of) {
		int64_t state_length, stays, width;
		RETURN_IF_FAILED(api->KernelInfoGetAttribute_int64(info, "state_length", &state_length));
		RETURN_IF_FAILED(api->KernelInfoGetAttribute_int64(info, "stays", &stays));
		RETURN_IF_FAILED(api->KernelInfoGetAttribute_int64(info, "beam_width", &width));
		RETURN_IF_FAILED(api->KernelInfoGetAttribute_float(info, "stay", &of.stay));
		RETURN_IF_FAILED(api->KernelInfoGetAttribute_float(info, "beam_cut", &of.cut));
		if (state_length != (int)state_length || width != (int)width || !crf_can((int)state_length, (int)width, of.stay, of.cut))
			return failed("porestream.CRF has no kernel for states of " + std::to_string(state_length) + " bases and beams of " + std::to_string(width));
		of.state_length = (int)state_length;
		of.stays = stays != 0;
		of.width = (int)width;
		return nullptr;
	}
	static int64_t classes(const CRF &of) { return (of.stays ? 5 : 4) * crf_states(of.state_length); }
	static void run(const CRF &call) { run_crf(call); }
#ifdef PORESTREAM_CUDA
	static const char *launch(const CRF &call, void *stream) { return launch_crf(call, stream); }
#endif
};

struct DecodesCTC {
	using Call = CTC;
	static constexpr const char *name = "porestream.CTC";
	static OrtStatus *read(const OrtKernelInfo *info, CTC &of) {
		int64_t classes, logits, width;
		float bonus;
		RETURN_IF_FAILED(api->KernelInfoGetAttribute_int64(info, "classes", &classes));
		RETURN_IF_FAILED(api->KernelInfoGetAttribute_int64(info, "logits", &logits));
		RETURN_IF_FAILED(api->KernelInfoGetAttribute_int64(info, "beam_width", &width));
		RETURN_IF_FAILED(api->KernelInfoGetAttribute_float(info, "beam_cut", &of.cut));
		RETURN_IF_FAILED(api->KernelInfoGetAttribute_float(info, "base_bonus", &bonus));
		if (classes != (int)classes || width != (int)width || !ctc_can((int)classes, (int)width, of.cut))
			return failed("porestream.CTC has no kernel for " + std::to_string(classes) + " classes and beams of " + std::to_string(width));
		of.classes = (int)classes;
		of.logits = logits != 0;
		of.width = (int)width;
		of.bonus = ctc_exp(bonus);
		return nullptr;
	}
	static int64_t classes(const CTC &of) { return of.classes; }
	static void run(const CTC &call) { run_ctc(call); }
#ifdef PORESTREAM_CUDA
	static const char *launch(const CTC &call, void *stream) { return launch_ctc(call, stream); }
#endif
};

// Decoding scores: X float or half [steps, windows, classes] or, with windows_first, [windows, steps, classes],
// frames int32 [windows] -> path uint8 [windows, steps, 1], probability float [windows, steps]; see CRF and CTC.
// Attributes: windows_first, beam_width, beam_cut; state_length, stays, stay of CRF; classes, logits, base_bonus of CTC.
template <class Decodes> struct DecoderKernel {
	bool cuda;
	typename Decodes::Call of{};

	OrtStatus *init(const OrtKernelInfo *info) {
		int64_t windows_first;
		RETURN_IF_FAILED(api->KernelInfoGetAttribute_int64(info, "windows_first", &windows_first));
		of.windows_first = windows_first != 0;
		return Decodes::read(info, of);
	}

	OrtStatus *compute(OrtKernelContext *context) {
		const std::string name = Decodes::name;
		const OrtValue *x, *f;
		std::vector<int64_t> dims, of_frames;
		RETURN_IF_FAILED(input(context, 0, &x, dims));
		RETURN_IF_FAILED(input(context, 1, &f, of_frames));
		const int64_t classes = Decodes::classes(of);
		if (dims.size() != 3 || dims[2] != classes || of_frames != std::vector<int64_t>{dims[of.windows_first ? 0 : 1]})
			return failed(name + ": inputs don't have the dimensions of scores, " + std::to_string(classes) + " in a frame");
		ONNXTensorElementDataType type;
		RETURN_IF_FAILED(element(x, type));
		if (type != ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT && type != ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16)
			return failed(name + ": scores are neither floats nor half floats");
		auto call = of;
		call.half = type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16;
		call.windows = (int)of_frames[0];
		call.steps = (int)dims[of.windows_first ? 1 : 0];
		const int64_t path_dims[] = {call.windows, call.steps, 1};
		OrtValue *path, *probability;
		RETURN_IF_FAILED(api->KernelContext_GetOutput(context, 0, path_dims, 3, &path));
		RETURN_IF_FAILED(api->KernelContext_GetOutput(context, 1, path_dims, 2, &probability));
		RETURN_IF_FAILED(data(x, &call.scores));
		RETURN_IF_FAILED(data(f, &call.frames));
		RETURN_IF_FAILED(data(path, &call.path));
		RETURN_IF_FAILED(data(probability, &call.probability));
		if (call.steps == 0 || call.windows == 0) return nullptr;
#ifdef PORESTREAM_CUDA
		if (cuda) return launched(context, name, [&](void *stream) { return Decodes::launch(call, stream); });
#endif
		Decodes::run(call);
		return nullptr;
	}
};

template <class Kernel> Operator make(const char *name, bool cuda, std::vector<ONNXTensorElementDataType> inputs, std::vector<ONNXTensorElementDataType> outputs) {
	Operator o{};
	o.name = name;
	o.cuda = cuda;
	o.inputs = std::move(inputs);
	o.outputs = std::move(outputs);
	o.version = runtime_version;
	o.GetName = [](const OrtCustomOp *op) { return static_cast<const Operator *>(op)->name; };
	o.GetExecutionProviderType = [](const OrtCustomOp *op) { return static_cast<const Operator *>(op)->cuda ? "CUDAExecutionProvider" : "CPUExecutionProvider"; };
	o.GetInputTypeCount = [](const OrtCustomOp *op) { return static_cast<const Operator *>(op)->inputs.size(); };
	o.GetInputType = [](const OrtCustomOp *op, size_t i) { return static_cast<const Operator *>(op)->inputs[i]; };
	o.GetOutputTypeCount = [](const OrtCustomOp *op) { return static_cast<const Operator *>(op)->outputs.size(); };
	o.GetOutputType = [](const OrtCustomOp *op, size_t i) { return static_cast<const Operator *>(op)->outputs[i]; };
	o.GetInputCharacteristic = [](const OrtCustomOp *, size_t) { return INPUT_OUTPUT_REQUIRED; };
	o.GetOutputCharacteristic = [](const OrtCustomOp *, size_t) { return INPUT_OUTPUT_REQUIRED; };
	o.GetInputMemoryType = [](const OrtCustomOp *, size_t) { return OrtMemTypeDefault; };
	o.CreateKernelV2 = [](const OrtCustomOp *op, const OrtApi *, const OrtKernelInfo *info, void **kernel) -> OrtStatus * {
		auto k = std::make_unique<Kernel>();
		k->cuda = static_cast<const Operator *>(op)->cuda;
		RETURN_IF_FAILED(k->init(info));
		*kernel = k.release();
		return nullptr;
	};
	o.KernelDestroy = [](void *kernel) { delete static_cast<Kernel *>(kernel); };
	o.KernelComputeV2 = [](void *kernel, OrtKernelContext *context) -> OrtStatus * {
		try {
			return static_cast<Kernel *>(kernel)->compute(context);
		} catch (const std::exception &e) { // no memory
			return failed(e.what());
		}
	};
	return o;
}

} // namespace

extern "C" __attribute__((visibility("default"))) OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base) {
	api = base->GetApi(runtime_version);
	if (!api) { // there is nobody who could make a status
		fprintf(stderr, "porestream operators: ONNX Runtime %s is older than 1.17\n", base->GetVersionString());
		return nullptr;
	}
	constexpr auto half = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16, single = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
	constexpr auto any = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED, count = ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, byte = ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8;
	static Operator operators[] = {
		make<LSTMKernel>("LSTM", false, {half, half, single}, {half}),
		make<StemKernel>("Stem", false, {single, half, single, single}, {half}),
		make<HeadKernel>("Head", false, {half, half, single}, {half}),
		make<DecoderKernel<DecodesCRF>>("CRF", false, {any, count}, {byte, single}),
		make<DecoderKernel<DecodesCTC>>("CTC", false, {any, count}, {byte, single}),
#ifdef PORESTREAM_CUDA
		make<LSTMKernel>("LSTM", true, {half, half, single}, {half}),
		make<StemKernel>("Stem", true, {single, half, single, single}, {half}),
		make<HeadKernel>("Head", true, {half, half, single}, {half}),
		make<DecoderKernel<DecodesCRF>>("CRF", true, {any, count}, {byte, single}),
		make<DecoderKernel<DecodesCTC>>("CTC", true, {any, count}, {byte, single}),
#endif
	};
	OrtCustomOpDomain *domain;
	RETURN_IF_FAILED(api->CreateCustomOpDomain("porestream", &domain));
	for (auto &o : operators) RETURN_IF_FAILED(api->CustomOpDomain_Add(domain, &o));
	return api->AddCustomOpDomain(options, domain);
}

// Package torch reads tensors from PyTorch's files without PyTorch and without
// running anything that is in them.
//
// # Format
//
// torch.save and torch.jit.save write a ZIP archive (PyTorch 1.6 and newer; see
// caffe2/serialize/inline_container.h). Under one top-level folder it holds
//
//	data.pkl     a pickle, protocol 2, of a state dict or of a module
//	data/KEY     one storage each: the raw values of tensors
//	byteorder    "little" or "big"; absent in older files, which are little
//
// A tensor in the pickle is a call of torch._utils._rebuild_tensor_v2 with a storage,
// an offset into it, a shape and strides; a storage is a persistent id
// ("storage", type, KEY, device, number of values).
//
// torch.save before 1.6 wrote one pickle behind the other, and the storages behind
// these:
//
//	a number           0x1950a86a20f9469cfc6c, which stands for the format
//	its version        1001
//	the machine        a dict, of which "little_endian" counts
//	the state dict     whose persistent ids have a sixth entry, None
//	a list             the storages' KEYs
//	for each of these  the number of its values, 8 bytes, and the values
//
// # Safety
//
// A pickle is a program: opcodes push values on a stack and may call what they
// name. This package knows the few opcodes that the two writers use, and of
// calls only those that make tensors, parameters and empty dictionaries; a module's
// class is kept as a name. Everything else is refused with its place. Every length
// is checked against the file or a limit before memory is allocated.
package torch

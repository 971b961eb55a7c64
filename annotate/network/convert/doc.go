// Package convert makes models of splicing networks that were trained with PyTorch, Keras or TensorFlow, without these.
//
// # Form
//
// OpenSpliceAI saves a state dict of the network that SpliceAI describes (Jaganathan et al., Cell 2019), 32 channels wide:
//
//	initial_conv.{weight,bias}           [32,4,1]
//	initial_skip.conv.{weight,bias}      [32,32,1], the first of the skips, which are summed
//	residual_units.N.batchnorm{1,2}.…    and residual_units.N.conv{1,2}.{weight,bias} [32,32,width]: two dilated convolutions,
//	                                     each behind a batch normalisation and a leaky ReLU of slope 0.1, beside the identity
//	residual_units.N.conv.{weight,bias}  a skip, after every four of these
//	final_conv.{weight,bias}             [3,32,1]: neither, acceptor, donor, behind which is a softmax
//
// Dilations are not in the file: they follow from the number of units, as the published networks of 80, 400, 2,000 and 10,000
// bases of context have them.
//
// SpliceAI's own networks are HDF5 files of Keras 2: the attribute model_config has the layers as JSON, and the group model_weights their weights, as
// layer/…/{kernel,bias,gamma,beta,moving_mean,moving_variance}:0. Kernels are [width,in,out]. Any network of one-dimensional convolutions, normalisations,
// ReLUs, sums and croppings is read.
//
// Keras 3 saves a zip: config.json has the layers, and model.weights.h5 their weights as layers/CLASS_N/vars/{0,1,…}, in the order in which a layer makes
// them: kernel, bias; or gamma, beta, moving_mean, moving_variance. The attribute name of vars is that of the layer.
//
// CI-SpliceAI has a frozen graph of TensorFlow: a GraphDef, of operators and the constants that weights were made. It averages five networks, each of which
// becomes a file. TensorFlow 1 writes a convolution whose weights are apart as bases that are dealt out to batches, convolved, and put together again, and a
// normalisation as a product and a sum with calculated constants.
//
// # Graph
//
// All pad each convolution and cut the context off at the end. The graph that is written doesn't pad: a convolution's
// output is shorter than its input, and what goes around it is cut to that, so only what the outputs need is computed.
// Second normalisations are folded into the convolutions before them.
package convert

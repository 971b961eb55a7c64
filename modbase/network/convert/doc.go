// Package convert makes models of modified bases of other programs into files that package network reads: ONNX networks whose
// metadata say how they are used.
//
// # Dorado
//
// A model is a folder with a config.toml that has a table [modbases], and one NAME.tensor for each parameter, a TorchScript
// archive. general.model names one of these networks, all of which see the current and, for each sample of it, the bases
// around the one that it is of, through convolutions that are joined:
//
//	conv_only, conv_v1   convolutions alone, over what is around one base
//	conv_lstm            and two LSTMs, of which the last sample's state counts
//	conv_lstm_v2         over a stretch of current, with scores for each frame of it
//	conv_lstm_v3         the same, its layers as sublayers of the configuration
//
// The folder's name, such as dna_r10.4.1_e8.2_400bps_hac@v5.0.0_5mCG_5hmCG@v3, begins with that of the basecalling model
// whose moves it was trained on.
//
// # DeepMod2
//
// A network is a file by torch.save with model_state_dict, of a transformer's encoder or of LSTMs in both directions, over 21
// bases. How they are used is in a pickle beside, which isn't read: of what isn't in the state dict, the published
// configuration is taken. DeepMod2 sets a share of the weights to 0 before it calls on a CPU, and so does the conversion.
//
// # What is refused
//
// Other networks, layers, activations and keys, each by its name, and models for RNA: a network that is nearly right calls
// modifications that are nearly right, and nobody notices.
package convert

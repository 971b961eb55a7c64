// Package convert makes a basecalling model of Bonito or Dorado into one of ours:
// the network as ONNX and a manifest.
//
// # What is read
//
// A model is a folder with a config.toml and its parameters. Bonito keeps them in
// weights_N.tar, a state dict by torch.save whose keys begin with "encoder.", and
// the highest N counts. Dorado keeps one NAME.tensor per parameter, a TorchScript
// archive, with batch normalisation folded into the convolutions already, and
// numbers its layers without clamps. The parameters' names are those of Bonito's
// modules in both.
//
// Three ways of writing the encoder down are known: the table [encoder] with a
// few sizes (R9.4.1 and RNA models up to v3), a list of [[encoder.sublayers]] (v4
// and newer of fast and hac, v4 of sup), and [model.encoder] with the parts conv,
// transformer_encoder, upsample and crf (v5 of sup). Networks before CTC-CRF are a list
// of [[block]]s, QuartzNet's, whose last layer isn't written down; their names begin with
// "encoder.encoder." and "decoder.".
//
// # What is refused
//
// A layer, a key of a layer or an activation that isn't known: a network that is
// nearly right calls bases that are nearly right, and nobody notices. Duplex models, which
// the pipeline has no use for yet, and those of modified bases, which are in
// modbase/network/convert.
package convert

"""Training of recurrent basecallers.

A basecaller is learned in four steps, each a module and a command:

``prepare``   recordings become normalised signal with a target distribution for every output frame
              (:mod:`.targets`, :mod:`.store`);
``train``     a convolution and a stack of LSTM layers learns those distributions (:mod:`.network`, :mod:`.training`);
``export``    the averaged weights become an ONNX graph with a manifest beside it (:mod:`.export`, :mod:`.manifest`);
``evaluate``  the exported graph is run on recordings that were never trained on and its calls are aligned to
              their genome (:mod:`.evaluation`).

Frame targets rather than CTC losses are what makes this affordable without a GPU: a network that is given a target for
every frame leaves the long plateau on which CTC training begins within a few hundred steps.
"""

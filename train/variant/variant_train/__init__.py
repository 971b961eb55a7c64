"""Trains Porestream's variant callers: from reads with planted variants to an ONNX network with its manifest and card.

- :mod:`.recipe`: what decides a model
- :mod:`.planting`: variants that are put into references and reads, so that the truth is known
- :mod:`.reads`: reads, their alignment, and changing what they say
- :mod:`.worlds`: one set of alignments with its truth, by seed
- :mod:`.store`: examples on disk, and batches of them
- :mod:`.network`, :mod:`.training`, :mod:`.export`: the network, the loop, the ONNX graph
- :mod:`.calibration`: from scores to probabilities at the rate of variants found in nature
- :mod:`.evaluation`, :mod:`.card`: how well it does
"""

"""Trains models that Porestream's panels ask: from tables of genotypes and phenotypes to an ONNX network with its manifest.

- :mod:`.recipe`: what decides a model
- :mod:`.tables`, :mod:`.rules`: isolates, who belongs together, scores by rule
- :mod:`.encoding`: isolates as numbers, and codons that an unfinished run leaves out
- :mod:`.completion`, :mod:`.linear`: what missing codons probably have, and regressions
- :mod:`.network`, :mod:`.member`, :mod:`.training`, :mod:`.calibration`: the network, its loop, several together, probabilities
- :mod:`.devices`, :mod:`.processes`, :mod:`.energy`: GPUs and cores, several processes, what training costs
- :mod:`.peers`: what a model is compared with
- :mod:`.metrics`, :mod:`.evaluation`, :mod:`.markers`: how good it is, and what speaks for what
- :mod:`.export`: the folder that package watchlist/biomarker reads
"""

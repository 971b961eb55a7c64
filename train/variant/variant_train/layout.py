"""The example layout of package ``variant`` (variant/example.go), version 1, and the heads of its scores."""

VERSION = 1
COLUMNS = 41
PLANES = 48
SCALARS = 80
SIZE = PLANES * COLUMNS + SCALARS

READ_PLANES = 35
"""Planes, the first ones, that hold shares of reads."""
ODDS = PLANES * COLUMNS + 33
"""Where asinh of the analytic model's log odds / 5 is."""
CHANGED = PLANES * COLUMNS + 6
"""Where the bases that are inserted or deleted / 16 are."""
LONG_INDEL = 4
"""Bases from which on indels are calibrated apart: ``variant.LongIndel``."""
HAPLOTYPES = slice(PLANES * COLUMNS + 69, PLANES * COLUMNS + 79)
"""The values from the reads' haplotypes: all 0 where none is known, as while a run goes on."""
UNUSED_SCALARS = [57, 79]
"""Scalars that are always 0 in the examples that networks are trained with: whether there are dwell times, and reserved ones.
Their weights start at 0, where they stay, so that what comes there later changes nothing."""

COPIES = slice(0, 3)
ZYGOSITY = slice(3, 6)
LENGTH = slice(6, 39)
SCORES = 39
LONGEST = 16
"""Length changes are classes from -LONGEST to +LONGEST; longer ones count as these."""

HEADS = {"copies": COPIES, "zygosity": ZYGOSITY, "length": LENGTH}

MODES = ("haploid", "diploid", "mixture")
TYPES = ("SNP", "insertion", "deletion")

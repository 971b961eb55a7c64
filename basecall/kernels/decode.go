package kernels

import (
	"github.com/porestream/porestream/basecall/crf"
	"github.com/porestream/porestream/basecall/ctc"
)

// widestBeam is the width of the widest beam that there are kernels for: an entry is that of a lane
// of a warp.
const widestBeam = 32

// mostClasses are those of a network that distinguishes all bases.
const mostClasses = 5

// DecodesCRF reports whether there is a kernel that decodes the scores of a CRF so. It gives the same bits as
// [crf.Decoder] does.
func DecodesCRF(c crf.Config) bool { return c.Validate() == nil && c.BeamWidth <= widestBeam }

// DecodesCTC reports whether there is a kernel that decodes scores so. It gives the same bits as
// [ctc.Decoder] does.
func DecodesCTC(c ctc.Config) bool {
	return c.Classes >= 2 && c.Classes <= mostClasses && c.BeamWidth >= 1 && c.BeamWidth <= widestBeam
}

package kernels

import "github.com/porestream/porestream/basecall/crf"

// widestBeam is the width of the widest beam that there is a kernel for: an entry is that of a lane
// of a warp.
const widestBeam = 32

// Decodes reports whether there is a kernel that decodes scores so. It gives the same bits as
// [crf.Decoder] does.
func Decodes(c crf.Config) bool { return c.Validate() == nil && c.BeamWidth <= widestBeam }

//go:build !amd64

package crf

func processor() instructions { return instructions{} }

func highestAVX2(*float32, int) (float32, bool)                                { panic("no AVX2") }
func halvesAVX2(*float32, *uint16, int)                                        { panic("no AVX2") }
func highestByteAVX2(*int8, int) int8                                          { panic("no AVX2") }
func weighBytesAVX2(_ *float32, _ *int8, _ int, _ int32, _, _, _ *[8]float32)  { panic("no AVX2") }
func exponentialsAVX2(_, _ *float32, _ int, _ float32, _ *expConstants, _ int) { panic("no AVX2") }
func stepAVX2(_, _, _ *float32, _ int, _, _, _ float32) float32                { panic("no AVX2") }
func stepBackAVX2(_, _, _ *float32, _ int, _, _, _ float32) float32            { panic("no AVX2") }
func dotAVX2(_, _ *float32, _ int) float32                                     { panic("no AVX2") }
func withinAVX2(_ *uint32, _, _ *float32, _ int, _ float32, _ *[256][8]uint8) (float32, int) {
	panic("no AVX2")
}
func bestAVX2(_, _ *uint32, _ *float32, _, _ int, _ *[256][8]uint8) int { panic("no AVX2") }

func weighAVX512(_, _ *float32, _ int, _ float32, _ *expConstants, _ int) (float32, float32, bool) {
	panic("no AVX-512")
}
func stepBackAVX512(_, _, _ *float32, _ int, _, _, _ float32, _ *[5][16]uint32) float32 {
	panic("no AVX-512")
}
func stepAVX512(_, _, _, _ *float32, _ int, _, _, _ float32, _ *[5][16]uint32) (float32, float32) {
	panic("no AVX-512")
}
func advanceAVX512(_ *narrow, _, _ *float32, _, _, _ int, _, _ float32, _ *origin, _ *laneConstants) bool {
	panic("no AVX-512")
}

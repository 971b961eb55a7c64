//go:build !amd64

package crf

func vectors() bool { return false }

func highestAVX2(*float32, int) (float32, bool)                     { panic("no AVX2") }
func exponentialsAVX2(*float32, int, float32, *expConstants)        { panic("no AVX2") }
func stepAVX2(_, _, _ *float32, _ int, _, _, _ float32) float32     { panic("no AVX2") }
func stepBackAVX2(_, _, _ *float32, _ int, _, _, _ float32) float32 { panic("no AVX2") }

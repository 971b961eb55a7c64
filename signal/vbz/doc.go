// Package vbz packs nanopore samples the way POD5 files and the signal topic
// hold them.
//
// Neighbouring samples of a pore differ by little, so VBZ stores differences:
// each sample minus the one before it (the first minus zero), zigzag-mapped so
// that small negative differences are small numbers too, then written in one
// byte where it fits and in two where it doesn't (svb16: one key bit per
// sample, all key bytes first, then the little-endian data), then compressed
// with Zstandard at its fastest level. All arithmetic is modulo 2^16, so every
// sequence of int16 survives.
//
// The sample count is not part of the encoding; a container keeps it. Decode
// therefore takes the count and refuses bytes that hold any other number.
//
// Specification: POD5 file format, "minknow.vbz"; svb16 is Lemire's Stream VByte
// for 16-bit integers with one-bit keys.
package vbz

// Package blow5 reads and writes BLOW5, the binary form of SLOW5, the community's file
// format for nanopore current.
//
// A file is a fixed 64-byte head, a text header (attributes of each read group,
// then types and names of the record fields), one length-prefixed record per read
// and an end-of-file marker. A record holds eight primary fields, then the
// auxiliary fields that the header declares. Records may be compressed whole with
// zlib or Zstandard, and within them the signal with svb-zd (zigzag differences as
// Stream VByte integers) or ex-zd (zigzag differences as bytes, with a list of
// those that don't fit).
//
// The file is mapped and one record at a time is unpacked. Lengths are checked
// against the bytes that remain before anything is allocated.
//
// Specification: SLOW5 0.2.0 and 1.0.0, https://hasindu2008.github.io/slow5specs,
// and for the signal compressions the reference library slow5lib.
package blow5

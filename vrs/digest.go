package vrs

import (
	"crypto/sha512"
	"encoding/base64"
	"iter"
)

// digestBytes is how much of a SHA-512 sum GA4GH identifiers keep.
const digestBytes = 24

// Digest is GA4GH's sha512t24u: the first 24 bytes of the SHA-512 of b as 32 characters of unpadded base64url
// (VRS, "Truncated Digest").
func Digest(b []byte) string {
	sum := sha512.Sum512(b)
	return base64.RawURLEncoding.EncodeToString(sum[:digestBytes])
}

// appendDigest appends Digest(b) to dst.
func appendDigest(dst, b []byte) []byte {
	sum := sha512.Sum512(b)
	return base64.RawURLEncoding.AppendEncode(dst, sum[:digestBytes])
}

// SequenceDigest is the refget accession of a sequence, "SQ." and the digest of its upper-case residues. seq must
// be upper-case already.
func SequenceDigest(seq []byte) string { return "SQ." + Digest(seq) }

// DigestPieces is SequenceDigest of a sequence that comes in pieces.
func DigestPieces(pieces iter.Seq[[]byte]) string {
	h := sha512.New()
	for p := range pieces {
		h.Write(p)
	}
	return "SQ." + base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:digestBytes])
}

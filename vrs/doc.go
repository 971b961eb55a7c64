// Package vrs gives small variants their identity and their normal forms.
//
// A variant can be spelled in many ways: a deletion inside a repeat may be placed at any copy, and anchors of any
// length may surround it. Three conventions pick one spelling each, and this package implements all three on the
// same value, an Edit in inter-residue coordinates:
//
//   - VCF: parsimonious and left-aligned, with one anchor base (Tan, Abecasis and Kang 2015);
//   - HGVS: shifted as far as possible to the 3' end of the described sequence;
//   - GA4GH VRS 2.x: fully justified, that is expanded over the whole region of ambiguity, which depends on no
//     direction and is therefore what the computed identifier (ga4gh:VA.…) is made from.
//
// What several bases change together is one variant, and sources know it as a whole or base by base: Edit.Atoms takes it
// apart, by one rule for all who need that, and AtomIDs identifies the parts.
//
// AlleleID needs no registry: the identifier is a digest of the sequence's own digest, the interval and the state.
package vrs

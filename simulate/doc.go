// Package simulate makes reads with a known truth: it plants variants into a
// reference, and reads the resulting haplotypes with the errors of a basecaller,
// as a [Profile] describes them.
//
// Problem: a caller that is evaluated on random errors is flattered. What makes real
// nanopore reads hard is that they err alike: by the length of a homopolymer, by the
// bases around, by strand, and at some sites most of them in the same way.
//
// Assumptions: what a pore and a basecaller do depends on the bases in the order in
// which they are read. So all rates belong to contexts in reading direction, and the
// two strands of a site differ of themselves.
//
// Strategy: a read walks along its template run by run (a run is a stretch of one
// base). A run of two and more is called with a length drawn from what such runs are
// called as, with odds of its own by the bases around it; each base is substituted,
// dropped, doubled or followed by others at the rates of the 5-mer around it; some
// 9-mers, chosen by a hash, have an error that a share of all reads makes. All that is
// scaled by the read's own accuracy, and higher in bursts.
//
// Consequences: a profile can be measured ([Measure]) with the same classes of events
// that make it; reads depend on nothing but profile, haplotypes, configuration and
// their own number, so they are the same in any order and on any number of cores.
package simulate

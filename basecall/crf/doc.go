// Package crf decodes the scores of a conditional random field over k-mers, which
// is what Bonito's and Dorado's networks give.
//
// # State space
//
// A state is the k-mer of the last k bases, k being the state length: base i of
// ACGT counts i, and the newest is the least significant of base 4. From one
// frame to the next a path either stays in its state or moves: it drops the
// oldest base and takes a new one. Staying emits nothing, moving emits the new
// base. Each of the 4^k states has one stay and four moves that lead to it. The
// moves differ by the base that is dropped.
//
// # Scores
//
// A frame has, for each state that is arrived at, the scores of the four moves,
// by the base dropped: 4^(k+1) scores, and staying has one fixed score for all
// (Bonito's blank_score). Or the network scores staying too: then each state has
// five scores, the stay first, 5*4^k in all. Scores are logarithms of weights. The
// probability of a path is the product of its weights over the sum of all
// paths' products, Z; a path may begin and end in any state.
//
// The layout is that of bonito.crf (ont-bonito 1.1.0, CTC_CRF) and Dorado.
package crf

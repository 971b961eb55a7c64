// Package score makes scores from the outputs of networks for stretches of DNA: it chooses the stretches for a
// variant, and evaluates the difference between the reference's and the variant's outputs. It computes no
// network; the caller does, which gets windows and returns outputs.
//
// Three rules are known. By the rule "splice" scores are those of SpliceAI (Jaganathan et al., Cell 2019): for each gene
// that a variant lies in, the largest gain and loss of an acceptor and a donor site within some distance. By the rules
// "difference" and "logit-difference" they are changes of named tracks, sums or means of outputs, as DeepSEA, Enformer
// and Borzoi are read.
package score

// Package score makes scores of what networks say about stretches of DNA: which stretches a variant
// is judged by, and what the difference between the reference's and the variant's outputs comes to. It computes no
// network; whoever does gets windows and gives outputs back.
//
// Three rules are known. By the rule "splice" scores are those of SpliceAI (Jaganathan et al., Cell 2019): for each gene
// that a variant lies in, the largest gain and loss of an acceptor and a donor site within some distance. By the rules
// "difference" and "logit-difference" they are changes of named tracks, sums or means of outputs, as DeepSEA, Enformer
// and Borzoi are read.
package score

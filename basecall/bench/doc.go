// Package bench measures the basecalling engine on recorded reads: how much of
// the bare network's speed is left of it, how it scales with processor cores, and
// how soon a read is called when its signal comes at the sequencer's pace.
package bench

// Package gpu measures what GPUs do while something runs: the energy that they take
// and the share of the time that they are busy, by the counters of their driver.
package gpu

// Package simulation is the shell of the simulators: what a person chooses by flags,
// and the files that are read and written. What is simulated is in package simulate and
// those below it.
package simulation

// Package porefit measures what pores do in real reads, makes profiles of it, and holds
// simulated reads against real ones: scripts/porefit is its command, docs/attach/simulator.md
// has its figures.
package porefit

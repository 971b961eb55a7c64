// Package virtual holds the chaos suite below the processes: the real stages, with toy engines, in consumer groups over the embedded
// broker, all in one process and in virtual time, so that a run crashes and moves thousands of partitions in seconds. The checker is the
// one that checks runs of the real processes. There is nothing here but tests.
package virtual

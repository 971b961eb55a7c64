//go:build !planted

package infer

// faulty is the runner itself: builds with the tag planted can make devices fail.
func faulty(r Runner) Runner { return r }

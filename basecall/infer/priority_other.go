//go:build !linux

package infer

// giveWay does nothing where threads have no priorities of their own.
func giveWay() {}

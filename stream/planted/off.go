//go:build !planted

package planted

// Enabled reports whether this build can plant bugs.
const Enabled = false

// Is reports whether the bug is planted: never, in a normal build.
func Is(Bug) bool { return false }

// Without runs do without any bug.
func Without(do func()) { do() }

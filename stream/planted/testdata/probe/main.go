// Command probe has one hook for each bug that can be planted.
package main

import "github.com/porestream/porestream/stream/planted"

func main() {
	if planted.Is(planted.SkipOffsets) {
		println("hook of", planted.SkipOffsets)
	}
	if planted.Is(planted.NoFencing) {
		println("hook of", planted.NoFencing)
	}
	if planted.Is(planted.NoTrailer) {
		println("hook of", planted.NoTrailer)
	}
	if planted.Is(planted.LoudReplay) {
		println("hook of", planted.LoudReplay)
	}
	if planted.Is(planted.DoubleApply) {
		println("hook of", planted.DoubleApply)
	}
	if planted.Is(planted.ForgetRunEnd) {
		println("hook of", planted.ForgetRunEnd)
	}
	if planted.Is(planted.CommitBeforeProduce) {
		println("hook of", planted.CommitBeforeProduce)
	}
	if planted.Is(planted.IgnoreAbort) {
		println("hook of", planted.IgnoreAbort)
	}
	if planted.Is(planted.DoubleCount) {
		println("hook of", planted.DoubleCount)
	}
	if planted.Is(planted.ForgetCounts) {
		println("hook of", planted.ForgetCounts)
	}
	planted.Without(func() {
		if planted.Is(planted.SkipOffsets) {
			println("awake")
		}
	})
}

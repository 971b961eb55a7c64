package kafka

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestUnsaved(t *testing.T) {
	at := func(s int) time.Time {
		if s < 0 {
			return time.Time{}
		}
		return time.Unix(int64(s), 0)
	}
	type step func(*unsaved)
	change := func(s int) step { return func(u *unsaved) { u.change(at(s)) } }
	again := func(s int) step { return func(u *unsaved) { u.again(at(s)) } }
	begin, end := step((*unsaved).begin), step((*unsaved).end)
	for _, tt := range []struct {
		name     string
		restored int // -1: from nothing
		steps    []step
		since    int // -1: all is saved
	}{
		{"nothing has come", -1, nil, -1},
		{"the first change counts", -1, []step{change(10), change(20)}, 10},
		{"a durable snapshot has all of it", -1, []step{change(10), begin, end}, -1},
		{"what comes while it is written is not in it", -1, []step{change(10), begin, change(20), change(30), end}, 20},
		{"one that came to nothing changes nothing", -1, []step{change(10), begin, change(20), begin, change(30)}, 10},
		{"and the next one has what the lost one had", -1, []step{change(10), begin, change(20), begin, change(30), end}, 30},
		{"what is replayed is as old as the snapshot", 5, []step{again(100), change(110)}, 5},
		{"what was restored is saved", 5, nil, -1},
		{"new records behind a snapshot are new", 5, []step{change(110)}, 110},
		{"a replay from nothing is as old as its first record", -1, []step{again(100), again(101), change(200)}, 100},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u := unsaved{restored: at(tt.restored)}
			for _, s := range tt.steps {
				s(&u)
			}
			assert.Equal(t, at(tt.since), u.since)
		})
	}
}

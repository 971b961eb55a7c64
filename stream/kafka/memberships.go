package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/leavegroup"

	"github.com/porestream/porestream/filelock"
)

// Memberships is a file that says which members of consumer groups a process is. A process that is killed leaves
// it behind; the next that opens it takes these members out of their groups, so that nobody waits for a
// [GroupConfig.SessionTimeout] until partitions of the dead are given to the living.
//
// The file is text: [membershipsTitle], then a line for each group, GROUP MEMBER, both quoted as Go does. It
// belongs to one process at a time, which holds a lock (flock) on it.
type Memberships struct {
	mu   sync.Mutex
	file *os.File
	// members are this process's by group, and left those of the process before that are still to be taken out.
	members, left map[string]string
}

const (
	membershipsTitle = "porestream memberships 1"
	// maxMemberships bounds what is read of a file; a process is in less than ten groups.
	maxMemberships = 1 << 16
)

// OpenMemberships opens the file, which is made if need be. It fails if another process has it open, or if the file is
// something else.
func OpenMemberships(path string) (*Memberships, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the file of memberships: %w", err)
	}
	m := &Memberships{file: f, members: make(map[string]string)}
	if err := m.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("file of memberships %s: %w", path, err), f.Close())
	}
	return m, nil
}

func (m *Memberships) open() error {
	switch err := filelock.Try(m.file); {
	case errors.Is(err, filelock.ErrHeld):
		return errors.New("another process uses it: give each processor a file of its own")
	case err != nil:
		return err
	}
	text, err := io.ReadAll(io.LimitReader(m.file, maxMemberships+1))
	if err != nil {
		return err
	}
	m.left, err = parseMemberships(text)
	return err
}

// parseMemberships reads members by group. Lines that a crash has spoilt are left out, and so is a file of zeros, as some file systems
// leave one when power fails: the groups wait for these sessions' ends, which is no reason not to start.
func parseMemberships(text []byte) (map[string]string, error) {
	members := make(map[string]string)
	if len(bytes.Trim(text, "\x00")) == 0 {
		return members, nil
	}
	title, rest, _ := bytes.Cut(text, []byte("\n"))
	if string(title) != membershipsTitle || len(text) > maxMemberships {
		return nil, fmt.Errorf("it begins with %.40q, not %q: name a file that is not there yet", title, membershipsTitle)
	}
	for line := range bytes.Lines(rest) {
		var group, member string
		if _, err := fmt.Sscanf(string(line), "%q %q\n", &group, &member); err == nil && group != "" && member != "" {
			members[group] = member
		}
	}
	return members, nil
}

func formatMemberships(members map[string]string) []byte {
	var b strings.Builder
	b.WriteString(membershipsTitle + "\n")
	for _, group := range slices.Sorted(maps.Keys(members)) {
		fmt.Fprintf(&b, "%q %q\n", group, members[group])
	}
	return []byte(b.String())
}

// save writes the file anew, from nothing, so that a process that is killed meanwhile leaves no mixture of what was and what is. Power
// that fails may spoil it, but sessions are over by the time it is back.
func (m *Memberships) save() error {
	all := maps.Clone(m.left)
	maps.Copy(all, m.members)
	if err := m.file.Truncate(0); err != nil {
		return err
	}
	_, err := m.file.WriteAt(formatMemberships(all), 0)
	return err
}

// joined says which member of a group this process is now; "" is none.
func (m *Memberships) joined(group, member string) error {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.members[group] == member {
		return nil
	}
	if member == "" {
		delete(m.members, group)
	} else {
		m.members[group] = member
	}
	return m.save()
}

// leftBehind is the member of a group that the process before has left; "" is none.
func (m *Memberships) leftBehind(group string) string {
	if m == nil {
		return ""
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.left[group]
}

// evicted says that what the process before has left of a group is gone.
func (m *Memberships) evicted(group string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.left, group)
	return m.save()
}

// Close gives the file free. Groups have been left by then.
func (m *Memberships) Close() error { return m.file.Close() }

const (
	// evictPoll is how often the group is asked whether this process has begun to join it.
	evictPoll = 50 * time.Millisecond
	// evictWithin is how long that is waited for.
	evictWithin = 5 * time.Second
)

// evictDead takes the member that a killed process has left behind out of the group. It waits until another is in the group or joins
// it: of a group without members brokers wait for group.initial.rebalance.delay.ms, 3 s, before anybody gets partitions.
// An error costs time alone, as the session of the dead ends by itself.
func (m *member) evictDead(ctx context.Context) {
	dead := m.cfg.Memberships.leftBehind(m.cfg.Group)
	if dead == "" {
		return
	}
	present, err := m.awaitOthers(ctx, dead)
	if err == nil && present {
		err = m.client.evict(ctx, m.cfg.Group, dead)
	}
	if err == nil {
		err = m.cfg.Memberships.evicted(m.cfg.Group)
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		m.log.Warn("a process that was killed stays a member of the group until its session ends", slog.String("member", dead), slog.Any("error", err))
	case present:
		m.log.Info("took a process that was killed out of the group", slog.String("member", dead))
	}
}

// awaitOthers reports whether a member is in the group, once there are others or none come.
func (m *member) awaitOthers(ctx context.Context, id string) (present bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, evictWithin)
	defer cancel()
	for {
		members, err := m.client.GroupMembers(ctx, m.cfg.Group)
		if err != nil {
			return false, err
		}
		present = slices.ContainsFunc(members, func(g GroupMember) bool { return g.ID == id })
		if !present || len(members) > 1 {
			return present, nil
		}
		select {
		case <-time.After(evictPoll):
		case <-ctx.Done():
			return present, nil
		}
	}
}

// evict makes a member leave a group, as if it did so itself.
func (c *Client) evict(ctx context.Context, group, id string) error {
	return c.atCoordinator(ctx, coordinated{groupCoordinator, group}, "taking a member out of a group", 3*c.cfg.RequestTimeout, func(ctx context.Context, broker int32) error {
		res, err := send[*leavegroup.Response](ctx, c, broker, &leavegroup.Request{GroupID: group, Members: []leavegroup.RequestMember{{MemberID: id}}})
		if err != nil {
			return err
		}
		codes := []int16{res.ErrorCode}
		for _, m := range res.Members {
			codes = append(codes, m.ErrorCode)
		}
		for _, code := range codes {
			// It may have been taken out since it was listed.
			if err := codeError(code); err != nil && !errors.Is(err, kafka.UnknownMemberId) {
				return err
			}
		}
		return nil
	})
}

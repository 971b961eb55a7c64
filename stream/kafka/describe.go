package kafka

import (
	"context"
	"fmt"

	"github.com/segmentio/kafka-go/protocol/describegroups"
)

// GroupMember is a member of a consumer group, as the broker describes it.
type GroupMember struct {
	// ID is what the group's coordinator named it, Client the id that it gave itself and Host where it is.
	ID, Client, Host string
}

// GroupMembers lists the members of a consumer group; there are none if the group
// does not exist.
func (c *Client) GroupMembers(ctx context.Context, group string) ([]GroupMember, error) {
	var out []GroupMember
	err := c.atCoordinator(ctx, coordinated{groupCoordinator, group}, "describing groups", 3*c.cfg.RequestTimeout, func(ctx context.Context, broker int32) error {
		res, err := send[*describegroups.Response](ctx, c, broker, &describegroups.Request{Groups: []string{group}})
		if err != nil {
			return err
		}
		for i := range res.Groups {
			g := &res.Groups[i]
			if g.GroupID != group {
				continue
			}
			if err := codeError(g.ErrorCode); err != nil {
				return err
			}
			out = out[:0]
			for _, m := range g.Members {
				out = append(out, GroupMember{ID: m.MemberID, Client: m.ClientID, Host: m.ClientHost})
			}
			return nil
		}
		return errNotAnswered
	})
	if err != nil {
		return nil, fmt.Errorf("describing group %s: %w", group, err)
	}
	return out, nil
}

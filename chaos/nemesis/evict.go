package nemesis

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/porestream/porestream/chaos/observe"
)

// Evict has a member leave its group, chosen by a number among those there are. It does not know: until its next heartbeat, and while it
// drains, it works on beside those who take over.
func Evict(ctx context.Context, cluster observe.Cluster, group string, target int) error {
	client, err := cluster.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.Groups = []string{group}
	described, err := describe.RequestWith(ctx, client)
	if err != nil {
		return fmt.Errorf("evicting from group %s: %w", group, err)
	}
	members := described.Groups[0].Members
	if len(members) == 0 {
		return nil
	}
	evicted := kmsg.NewLeaveGroupRequestMember()
	evicted.MemberID = members[target%len(members)].MemberID
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Group, leave.Members = group, append(leave.Members, evicted)
	if _, err := leave.RequestWith(ctx, client); err != nil {
		return fmt.Errorf("evicting from group %s: %w", group, err)
	}
	return nil
}

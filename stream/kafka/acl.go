package kafka

import (
	"context"
	"fmt"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/createacls"
	"github.com/segmentio/kafka-go/protocol/deleteacls"

	"github.com/porestream/porestream/stream/access"
)

// Codes of the ACL requests (KIP-140, KIP-290).
const (
	patternLiteral  int8 = 3
	patternPrefixed int8 = 4
	permissionAllow int8 = 3
)

var (
	resourceCodes  = map[access.Resource]int8{access.Topic: resourceTopic, access.Group: 3, access.TransactionalID: 5}
	operationCodes = map[access.Operation]int8{
		access.Read: 3, access.Write: 4, access.Create: 5, access.Describe: 8, access.DescribeConfigs: 10,
	}
)

func patternOf(r access.Right) int8 {
	if r.Prefixed {
		return patternPrefixed
	}
	return patternLiteral
}

// Grant allows a principal, such as "User:ingest", what rights say, from every
// host. Rights that it has already stay.
func (c *Client) Grant(ctx context.Context, principal string, rights []access.Right) error {
	req := new(createacls.Request)
	for _, r := range rights {
		req.Creations = append(req.Creations, createacls.RequestACLs{
			ResourceType: resourceCodes[r.Resource], ResourceName: r.Name, ResourcePatternType: patternOf(r),
			Principal: principal, Host: "*", Operation: operationCodes[r.Operation], PermissionType: permissionAllow,
		})
	}
	err := c.retry(ctx, "granting rights", func(ctx context.Context) error {
		res, err := send[*createacls.Response](ctx, c, anyBroker, req)
		if err != nil {
			return err
		}
		for _, r := range res.Results {
			if r.ErrorCode != 0 {
				return withMessage(kafka.Error(r.ErrorCode), r.ErrorMessage)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("granting rights to %s: %w", principal, err)
	}
	return nil
}

// Revoke takes rights back that Grant gave.
func (c *Client) Revoke(ctx context.Context, principal string, rights []access.Right) error {
	req := new(deleteacls.Request)
	for _, r := range rights {
		req.Filters = append(req.Filters, deleteacls.RequestFilter{
			ResourceTypeFilter: resourceCodes[r.Resource], ResourceNameFilter: r.Name, ResourcePatternTypeFilter: patternOf(r),
			PrincipalFilter: principal, HostFilter: "*", Operation: operationCodes[r.Operation], PermissionType: permissionAllow,
		})
	}
	err := c.retry(ctx, "revoking rights", func(ctx context.Context) error {
		res, err := send[*deleteacls.Response](ctx, c, anyBroker, req)
		if err != nil {
			return err
		}
		for _, r := range res.FilterResults {
			if r.ErrorCode != 0 {
				return withMessage(kafka.Error(r.ErrorCode), r.ErrorMessage)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("revoking rights of %s: %w", principal, err)
	}
	return nil
}

// withMessage is an error code with what the broker says besides.
func withMessage(code kafka.Error, message string) error {
	if message == "" {
		return code
	}
	return fmt.Errorf("%s: %w", message, code)
}

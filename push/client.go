package push

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/porestream/porestream/push/pushpb"
)

// Config says where and how signal is sent.
type Config struct {
	// Target is the server, as gRPC names it: ingest.example:9102.
	Target string
	// TLS is how the connection is protected; nil: not at all. A certificate in it
	// is the device's.
	TLS *tls.Config
	// Token is the device's; empty: none.
	Token string
	// MaxUnacked bounds the memory for chunks that are not acknowledged, in bytes;
	// 0: 64 MiB.
	MaxUnacked int64
	// UntilCommitted keeps chunks until they are committed in Kafka. Otherwise they
	// are forgotten when the server has them on its disk.
	UntilCommitted bool
	// Logger gets what the server has to say; nil: nobody.
	Logger *slog.Logger
	// DialOptions go to gRPC in addition.
	DialOptions []grpc.DialOption
}

const (
	defaultUnacked = 64 << 20
	pingInterval   = 20 * time.Second
	pingTimeout    = 10 * time.Second
	// maxPause is the longest pause between two attempts to reach the server.
	maxPause = 15 * time.Second
	// openTimeout bounds one attempt to open a run.
	openTimeout = 30 * time.Second
)

// Client sends runs to one server. Its methods may be called by any goroutine.
type Client struct {
	cfg     Config
	conn    *grpc.ClientConn
	api     pushpb.PushClient
	session []byte
}

// Dial prepares a client. It doesn't wait for the server: Open does.
func Dial(cfg Config) (*Client, error) {
	if cfg.MaxUnacked < 0 {
		return nil, fmt.Errorf("dialing %s: MaxUnacked is %d", cfg.Target, cfg.MaxUnacked)
	}
	if cfg.MaxUnacked == 0 {
		cfg.MaxUnacked = defaultUnacked
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	protection := insecure.NewCredentials()
	if cfg.TLS != nil {
		protection = credentials.NewTLS(cfg.TLS)
	}
	conn, err := grpc.NewClient(cfg.Target, append([]grpc.DialOption{
		grpc.WithTransportCredentials(protection),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingInterval, Timeout: pingTimeout}),
	}, cfg.DialOptions...)...)
	if err != nil {
		return nil, fmt.Errorf("dialing %s: %w", cfg.Target, err)
	}
	c := &Client{cfg: cfg, conn: conn, api: pushpb.NewPushClient(conn), session: make([]byte, 16)}
	_, _ = rand.Read(c.session) // never fails
	return c, nil
}

// Close ends the connection. Runs that are open fail.
func (c *Client) Close() error { return c.conn.Close() }

// authorized adds the token.
func (c *Client) authorized(ctx context.Context) context.Context {
	if c.cfg.Token == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+c.cfg.Token)
}

// Reason is why the server refused something, or REASON_UNSPECIFIED if err is not
// a refusal that this version of the package knows.
func Reason(err error) pushpb.Reason {
	for e := err; e != nil; e = errors.Unwrap(e) {
		s, isStatus := status.FromError(e)
		if !isStatus {
			continue
		}
		for _, d := range s.Details() {
			if info, ok := d.(*errdetails.ErrorInfo); ok {
				return pushpb.Reason(pushpb.Reason_value["REASON_"+info.GetReason()])
			}
		}
	}
	return pushpb.Reason_REASON_UNSPECIFIED
}

// passes reports whether trying again may help after an error, without anything
// being changed. A server that has no memory for a message that is on its way, or
// that is just being replaced, is treated as one that can't be reached.
func passes(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return true
	case codes.NotFound:
		return Reason(err) == pushpb.Reason_REASON_UNKNOWN_RUN // it is registered again
	default:
		return false
	}
}

// mends reports whether an operator may repair the cause of an error while a device
// waits: the device doesn't discard the signal that it keeps because a token expired.
func mends(err error) bool {
	switch status.Code(err) {
	case codes.Unauthenticated, codes.PermissionDenied, codes.Internal:
		return true
	default:
		return false
	}
}

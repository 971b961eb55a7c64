package minknow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/porestream/porestream/ingest/minknow/minknowpb"
)

const (
	// callTimeout bounds calls that answer once.
	callTimeout = 10 * time.Second
	// maxMessage bounds a message of MinKNOW's, in bytes. Its own limit is 16 MiB.
	maxMessage = 64 << 20
	// window is what may be under way of one stream: seconds of a PromethION cell.
	window = 8 << 20
)

// host is a MinKNOW host: its manager, which knows the positions.
type host struct {
	cfg     *Config
	options []grpc.DialOption
	manager *grpc.ClientConn
	address string
}

// connect prepares the connection to the manager, with its token.
func connect(ctx context.Context, cfg *Config) (*host, error) {
	tls, err := transport(cfg)
	if err != nil {
		return nil, err
	}
	h := &host{cfg: cfg, address: net.JoinHostPort(cfg.Host, strconv.Itoa(cfg.Port))}
	h.options = []grpc.DialOption{
		grpc.WithTransportCredentials(tls), grpc.WithNoProxy(), grpc.WithDisableServiceConfig(),
		grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(window),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
	}
	t := &token{value: cfg.Token, file: cfg.TokenFile}
	if t.value == "" && t.file == "" && cfg.Cert == "" && cfg.localToken() {
		if t.local, err = h.localToken(ctx); err != nil {
			return nil, err
		}
	}
	if _, err := t.read(time.Now()); err != nil {
		return nil, &PermanentError{"token", err}
	}
	h.options = append(h.options, grpc.WithPerRPCCredentials(t))
	h.manager, err = grpc.NewClient(h.address, h.options...)
	if err != nil {
		return nil, fmt.Errorf("connecting to MinKNOW at %s: %w", h.address, err)
	}
	return h, nil
}

// localToken asks where the token for users of the host is kept, which may be
// asked without one.
func (h *host) localToken(ctx context.Context) (string, error) {
	conn, err := grpc.NewClient(h.address, h.options...)
	if err != nil {
		return "", fmt.Errorf("connecting to MinKNOW at %s: %w", h.address, err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	m, err := minknowpb.NewManagerServiceClient(conn).LocalAuthenticationTokenPath(ctx, &minknowpb.LocalAuthenticationTokenPathRequest{})
	if err != nil {
		return "", explain(h.address, err)
	}
	return m.GetPath(), nil
}

func (h *host) close() {
	if err := h.manager.Close(); err != nil {
		h.cfg.Logger.Debug("closing the connection to MinKNOW", "err", err)
	}
}

// positions lists the flow cell positions of the host, by name.
func (h *host) positions(ctx context.Context) ([]*minknowpb.FlowCellPosition, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	call, err := minknowpb.NewManagerServiceClient(h.manager).FlowCellPositions(ctx, &minknowpb.FlowCellPositionsRequest{})
	var all []*minknowpb.FlowCellPosition
	for err == nil {
		var m *minknowpb.FlowCellPositionsResponse
		if m, err = call.Recv(); err == nil {
			all = append(all, m.GetPositions()...)
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, explain(h.address, err)
	}
	slices.SortFunc(all, func(a, b *minknowpb.FlowCellPosition) int { return strings.Compare(a.GetName(), b.GetName()) })
	return all, nil
}

// errNotRunning says that nothing listens for a position now.
var errNotRunning = errors.New("its software is not running")

// dial connects to a position where it is now: after a restart it listens on
// another port.
func (h *host) dial(ctx context.Context, name string) (conn *grpc.ClientConn, address string, err error) {
	all, err := h.positions(ctx)
	if err != nil {
		return nil, "", err
	}
	i := slices.IndexFunc(all, func(p *minknowpb.FlowCellPosition) bool { return p.GetName() == name })
	if i < 0 {
		// It may come back, as after a restart of MinKNOW's.
		return nil, "", &callError{reason: "position", line: h.unknown(name, all).Error()}
	}
	port := all[i].GetRpcPorts().GetSecure()
	if port == 0 || port > 65535 {
		state := strings.ToLower(strings.TrimPrefix(all[i].GetState().String(), "STATE_"))
		return nil, "", fmt.Errorf("position %s: %w (%s %s)", name, errNotRunning, state, all[i].GetErrorInfo())
	}
	address = net.JoinHostPort(h.cfg.Host, strconv.Itoa(int(port)))
	conn, err = grpc.NewClient(address, h.options...)
	if err != nil {
		return nil, "", fmt.Errorf("connecting to position %s at %s: %w", name, address, err)
	}
	return conn, address, nil
}

// unknown is the error of a position that the host does not have.
func (h *host) unknown(name string, all []*minknowpb.FlowCellPosition) error {
	var names []string
	for _, p := range all {
		names = append(names, p.GetName())
	}
	has := "none"
	if len(names) > 0 {
		has = strings.Join(names, ", ")
	}
	return &PermanentError{"position", fmt.Errorf("MinKNOW at %s has no position %q; it has %s", h.address, name, has)}
}

// isCode reports whether a call has failed with a code.
func isCode(err error, code codes.Code) bool { return status.Code(err) == code }

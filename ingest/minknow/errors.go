package minknow

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// PermanentError is a fault that trying again does not mend.
type PermanentError struct {
	// Reason is one of a few words, for counting.
	Reason string
	Err    error
}

func (e *PermanentError) Error() string { return e.Err.Error() }
func (e *PermanentError) Unwrap() error { return e.Err }

// callError is what a call to MinKNOW has failed with, or what is wrong with its
// answer, and may pass: one line with what to do, and a word for counting.
type callError struct {
	reason string
	line   string
	err    error
}

func (e *callError) Error() string { return e.line }
func (e *callError) Unwrap() error { return e.err }

// explain makes a callError of what a call to MinKNOW at an address has failed
// with.
func explain(address string, err error) error {
	if err == nil {
		return nil
	}
	st := status.Convert(err)
	text := strings.ReplaceAll(st.Message(), "\n", " ")
	if inner, found := strings.CutPrefix(text, `connection error: desc = "`); found {
		text = strings.ReplaceAll(strings.TrimSuffix(inner, `"`), `\"`, `"`)
	}
	for _, prefix := range []string{"transport: ", "Error while dialing: ", "authentication handshake failed: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	e := &callError{err: err}
	switch code := st.Code(); {
	case code == codes.Unauthenticated || code == codes.PermissionDenied:
		e.reason = "token"
		e.line = fmt.Sprintf("MinKNOW at %s does not let this client in: %s; give a token that is valid (--token-file), or a client certificate that MinKNOW knows (--minknow-cert, --minknow-key)", address, text)
	case code == codes.Unavailable && isCertificate(text):
		e.reason = "certificate"
		e.line = fmt.Sprintf("the certificates of MinKNOW at %s and of this client don't fit: %s; see that --minknow-ca is this host's, that nothing has expired, and whether it asks for a client certificate (--minknow-cert)", address, text)
	case code == codes.Unavailable || code == codes.DeadlineExceeded:
		e.reason = "unreachable"
		e.line = fmt.Sprintf("MinKNOW at %s can't be reached: %s; see that it is running there, that the port is open, and whether it asks for a client certificate (--minknow-cert)", address, text)
	case code == codes.Unimplemented:
		e.reason = "version"
		e.line = fmt.Sprintf("MinKNOW at %s lacks a call that ingest needs: %s; MinKNOW Core 6.0 or later is needed", address, text)
	default:
		e.reason = "call"
		e.line = fmt.Sprintf("MinKNOW at %s: %s (%s)", address, text, code)
	}
	return e
}

func isCertificate(text string) bool {
	return strings.Contains(text, "x509:") || strings.Contains(text, "tls:") || strings.Contains(text, "certificate")
}

// interrupted is the error of what was broken off by the end of ctx, or else err.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

package minknow

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestExplain(t *testing.T) {
	for _, tt := range []struct {
		code             codes.Code
		message          string
		want, wantReason string
	}{
		{codes.Unauthenticated, "the token is not valid", "MinKNOW at h:1 does not let this client in: the token is not valid; give", "token"},
		{codes.PermissionDenied, "guests may not", "does not let this client in: guests may not; give", "token"},
		{codes.Unavailable, `connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:1: connect: connection refused"`, "MinKNOW at h:1 can't be reached: dial tcp 127.0.0.1:1: connect: connection refused; see", "unreachable"},
		{codes.Unavailable, `connection error: desc = "transport: authentication handshake failed: tls: failed to verify certificate: x509: certificate signed by unknown authority (possibly because of \"x\")"`, `don't fit: tls: failed to verify certificate: x509: certificate signed by unknown authority (possibly because of "x"); see`, "certificate"},
		{codes.Unavailable, `connection error: desc = "error reading server preface: remote error: tls: certificate required"`, "don't fit: error reading server preface: remote error: tls: certificate required; see", "certificate"},
		{codes.DeadlineExceeded, "context deadline exceeded", "MinKNOW at h:1 can't be reached: context deadline exceeded; see", "unreachable"},
		{codes.Unimplemented, "unknown service minknow_api.data.DataService", "lacks a call that ingest needs: unknown service minknow_api.data.DataService; MinKNOW", "version"},
		{codes.Internal, "one\ntwo", "MinKNOW at h:1: one two (Internal)", "call"},
	} {
		var got *callError
		if !errors.As(explain("h:1", status.Error(tt.code, tt.message)), &got) || !strings.Contains(got.Error(), tt.want) || got.reason != tt.wantReason || strings.Contains(got.Error(), "\n") {
			t.Errorf("%s: %q (%s), want %q (%s)", tt.message, got, got.reason, tt.want, tt.wantReason)
		}
	}
	if err := explain("h:1", nil); err != nil {
		t.Error(err)
	}
}

func FuzzLocalToken(f *testing.F) {
	f.Add([]byte(`{"token": "abc", "expires": "2026-11-21T10:00:00Z"}`))
	f.Add([]byte(`{"token": "a b", "expires": "x"}`))
	f.Add([]byte("secret"))
	f.Fuzz(func(t *testing.T, b []byte) {
		value, _, err := parseLocalToken(b)
		if err == nil && (value == "" || strings.ContainsAny(value, "\n\r\x00 ")) {
			t.Errorf("token %q", value)
		}
		if err != nil && len(b) > 8 && strings.Contains(err.Error(), string(b)) {
			t.Errorf("the error quotes the file: %v", err)
		}
	})
}

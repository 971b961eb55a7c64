package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestCheck(t *testing.T) {
	tests := []struct {
		name        string
		status      int
		errContains string
	}{
		{"ready", http.StatusOK, ""},
		{"waiting", http.StatusServiceUnavailable, "503 Service Unavailable: the basecall stage waits"},
		{"another service", http.StatusNotFound, "404"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(test.status)
				_, _ = w.Write([]byte("the basecall stage waits"))
			}))
			defer server.Close()
			err := check(t.Context(), server.URL)
			if test.errContains == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, test.errContains)
			}
		})
	}
	t.Run("nobody listens", func(t *testing.T) {
		server := httptest.NewServer(nil)
		server.Close()
		assert.ErrorContains(t, check(t.Context(), server.URL), "asking the service")
	})
}

package page

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/porestream/porestream/monitor"
)

const (
	// pileupTimeout is how long the process that holds the reads may take.
	pileupTimeout = 4 * time.Second
	// maxPileup bounds its answer, in bytes.
	maxPileup = 8 << 20
)

// readsOf is the pileup of a place, from this process or the one that holds the
// region. Its errors are sentences for the page.
func (s *Server) readsOf(ctx context.Context, owner monitor.Owner, known bool, at Place) (*monitor.Pileup, error) {
	ctx, cancel := context.WithTimeout(ctx, pileupTimeout)
	defer cancel()
	if s.cfg.Local != nil {
		p, err := s.cfg.Local.Pileup(ctx, at)
		if err == nil || !errors.Is(err, ErrNotHere) {
			return p, err
		}
	}
	switch {
	case !known:
		return nil, errors.New("no process has reported that it holds the reads of this place: it may have restarted a moment ago, or its reports are switched off")
	case owner.Instance == s.cfg.Instance:
		return nil, errors.New("the reads of this place are being handed over to another process; try again in a moment")
	case owner.Address == "":
		return nil, fmt.Errorf("the process that holds the reads, on %s, serves no page: start it with --listen and without --no-page", owner.Host)
	case owner.Silent > time.Minute:
		return nil, fmt.Errorf("the process that held the reads, on %s, has been silent for %.0f s; they are there again when another has taken them over", owner.Host, owner.Silent.Seconds())
	}
	return s.cfg.Peer(ctx, owner, at)
}

// pileup answers other processes, and every client with the token, from the reads
// that this process holds.
func (s *Server) pileup(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	pos, err := strconv.ParseInt(q.Get("pos"), 10, 64)
	if err != nil || pos < 1 {
		refuse(w, http.StatusBadRequest, "pos has to be a position from 1 on")
		return
	}
	err = ErrNotHere
	var p *monitor.Pileup
	if s.cfg.Local != nil {
		p, err = s.cfg.Local.Pileup(r.Context(), Place{Sample: q.Get("sample"), Contig: q.Get("contig"), Pos: pos})
	}
	switch {
	case errors.Is(err, ErrNotHere):
		refuse(w, http.StatusNotFound, err.Error())
	case err != nil:
		refuse(w, http.StatusServiceUnavailable, err.Error())
	default:
		answer(w, http.StatusOK, p)
	}
}

// askPeer asks the process that holds the reads, with this page's own token.
func (s *Server) askPeer(ctx context.Context, owner monitor.Owner, at Place) (*monitor.Pileup, error) {
	query := url.Values{"sample": {at.Sample}, "contig": {at.Contig}, "pos": {strconv.FormatInt(at.Pos, 10)}}
	address := (&url.URL{Scheme: "http", Host: owner.Address, Path: "/api/pileup", RawQuery: query.Encode()}).String()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("the process that holds the reads gives an address that can't be used: %s", owner.Address)
	}
	req.Header.Set("Authorization", "Bearer "+s.cfg.Token.Secret())
	// The token goes nowhere else: no proxy, no redirect.
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		hint := ""
		if host, _, err := net.SplitHostPort(owner.Address); err == nil && (host == "localhost" || net.ParseIP(host).IsLoopback()) {
			hint = ": it listens for its own machine alone; start it with --listen :9102, or name an address with --advertise"
		}
		return nil, fmt.Errorf("the process that holds the reads, on %s, can't be reached at %s%s", owner.Host, owner.Address, hint)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized:
		return nil, fmt.Errorf("the process that holds the reads, on %s, has another token: give all processes the same --page-token-file", owner.Host)
	case http.StatusNotFound:
		return nil, errors.New("the reads of this place are being handed over to another process; try again in a moment")
	default:
		return nil, fmt.Errorf("the process that holds the reads, on %s, answers %s", owner.Host, resp.Status)
	}
	p := new(monitor.Pileup)
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxPileup)).Decode(p); err != nil {
		return nil, fmt.Errorf("the process that holds the reads, on %s, gives an answer that can't be read", owner.Host)
	}
	return p, nil
}

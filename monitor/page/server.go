package page

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/porestream/porestream/monitor"
	"github.com/porestream/porestream/monitor/ops"
)

// Bounds of what a server does for its readers.
const (
	// maxClients is how many pages may be open at a time.
	maxClients = 32
	// maxQueue is how much may wait for a page that reads slowly, in bytes; it is
	// disconnected above that.
	maxQueue = 4 << 20
	// writeTimeout is how long a page may take to read a piece.
	writeTimeout = 10 * time.Second
	// keepAlive is how often something is said, at least.
	keepAlive = 15 * time.Second
	// tick is how often the view is checked for changes.
	tick = 250 * time.Millisecond
	// idle is how long the topics are followed after the last page was closed.
	idle = 10 * time.Minute
	// retry is how soon a page is to come again, in milliseconds.
	retry = 2000
)

// Config says what a server shows.
type Config struct {
	Version  string
	Instance string    // of this process, as in its reports
	Started  time.Time // this process
	Token    ops.Token // what has to be shown to see anything
	// NewView makes the view, empty.
	NewView func() *monitor.View
	// Follow keeps the view, through [Server.Update], until ctx ends. It runs while
	// the page is in use, and with Eager always.
	Follow func(ctx context.Context, s *Server) error
	Eager  bool
	// Local answers for the regions that this process holds; nil: it holds none.
	Local Reads
	// Peer asks another process for the reads that it holds; nil: over HTTP, with this
	// page's own token.
	Peer   func(ctx context.Context, owner monitor.Owner, at Place) (*monitor.Pileup, error)
	Logger *slog.Logger // nil: none
}

// Place is a position of a contig in a sample.
type Place struct {
	Sample, Contig string
	Pos            int64 // 1-based
}

// Reads are the reads of the regions that a process holds.
type Reads interface {
	// Pileup is the reads around a place, or [ErrNotHere].
	Pileup(ctx context.Context, at Place) (*monitor.Pileup, error)
}

// ErrNotHere says that a process does not hold a region.
var ErrNotHere = errors.New("this process does not hold the reads of that place")

// Server serves the live page. It shows, and changes nothing.
type Server struct {
	cfg     Config
	handler http.Handler
	wanted  chan struct{} // a page was opened or asked for something

	mu       sync.Mutex
	view     *monitor.View
	clients  map[*client]struct{}
	closed   bool
	lastUsed time.Time // when the last page was closed, or something was asked
}

// New returns a server; [Server.Run] has to run for the page to move.
func New(cfg Config) *Server {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{cfg: cfg, view: cfg.NewView(), clients: make(map[*client]struct{}), wanted: make(chan struct{}, 1)}
	if s.cfg.Peer == nil {
		s.cfg.Peer = s.askPeer
	}
	s.handler = s.routes()
	return s
}

// Handler answers everything of API.md.
func (s *Server) Handler() http.Handler { return s.handler }

// Update hands the view to fn; nobody else has it meanwhile.
func (s *Server) Update(fn func(v *monitor.View)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn(s.view)
}

// Run sends the pages what changes, and follows the topics while there are any, until
// ctx ends. Pages are disconnected then.
func (s *Server) Run(ctx context.Context) error {
	defer s.disconnect()
	for {
		if !s.cfg.Eager {
			select {
			case <-s.wanted:
			case <-ctx.Done():
				return nil
			}
		}
		s.watch(ctx)
		if ctx.Err() != nil {
			return nil
		}
		s.mu.Lock()
		s.view = s.cfg.NewView() // what was followed gets old
		s.mu.Unlock()
	}
}

// watch follows the topics until no page was in use for a while.
func (s *Server) watch(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	var followed sync.WaitGroup
	if s.cfg.Follow != nil {
		followed.Go(func() {
			for ctx.Err() == nil {
				err := s.cfg.Follow(ctx, s)
				if err == nil || ctx.Err() != nil {
					return
				}
				s.cfg.Logger.Warn("the live page can't follow the topics", "err", err)
				select {
				case <-time.After(5 * time.Second):
				case <-ctx.Done():
				}
			}
		})
	}
	defer followed.Wait()
	defer stop()
	s.mu.Lock()
	s.lastUsed = time.Now()
	s.mu.Unlock()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if !s.sendChanges(time.Now()) && !s.cfg.Eager {
				return
			}
		}
	}
}

// sendChanges sends what has changed; false if no page was in use for a while.
func (s *Server) sendChanges(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.view.Changes(now) {
		piece := encode(e)
		for c := range s.clients {
			c.offer(piece)
		}
	}
	if len(s.clients) > 0 {
		s.lastUsed = now
	}
	return now.Sub(s.lastUsed) < idle
}

func (s *Server) disconnect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for c := range s.clients {
		c.drop()
	}
}

// markInUse notes that a page is in use.
func (s *Server) markInUse() {
	s.lastUsed = time.Now()
	select {
	case s.wanted <- struct{}{}:
	default:
	}
}

// client is one open page. Its queue belongs to the server's lock.
type client struct {
	queue   [][]byte
	bytes   int
	dropped bool
	wake    chan struct{}
}

// offer puts a piece into the queue of a page, which is dropped if it does not read
// what it has: nobody is waited for.
func (c *client) offer(piece []byte) {
	if c.bytes+len(piece) > maxQueue {
		c.drop()
		return
	}
	c.queue, c.bytes = append(c.queue, piece), c.bytes+len(piece)
	c.signal()
}

func (c *client) drop() {
	c.dropped, c.queue, c.bytes = true, nil, 0
	c.signal()
}

func (c *client) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// join takes a page in, with all that it has to know.
func (s *Server) join(now time.Time) (*client, []monitor.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, nil, errClosed
	case len(s.clients) >= maxClients:
		return nil, nil, errFull
	}
	c := &client{wake: make(chan struct{}, 1)}
	s.clients[c] = struct{}{}
	s.markInUse()
	return c, s.view.Whole(now), nil
}

func (s *Server) leave(c *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.clients, c)
	s.lastUsed = time.Now()
}

// take is what waits for a page; false if it was dropped.
func (s *Server) take(c *client) ([][]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	queue := c.queue
	c.queue, c.bytes = nil, 0
	return queue, !c.dropped
}

var (
	errFull   = errors.New("too many pages are open")
	errClosed = errors.New("the process stops")
)

// encode is an event as the stream has it.
func encode(e monitor.Event) []byte {
	b := make([]byte, 0, len(e.Name)+len(e.Data)+16)
	b = append(append(b, "event: "...), e.Name...)
	b = append(append(b, "\ndata: "...), e.Data...)
	return append(b, "\n\n"...)
}

func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	c, whole, err := s.join(now)
	if err != nil {
		status := http.StatusServiceUnavailable
		if errors.Is(err, errFull) {
			status = http.StatusTooManyRequests
		}
		w.Header().Set("Retry-After", "5")
		refuse(w, status, err.Error())
		return
	}
	defer s.leave(c)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // proxies are not to gather
	hello, _ := json.Marshal(monitor.Hello{Version: s.cfg.Version, Instance: s.cfg.Instance, Started: s.cfg.Started.UTC(), ServerTime: now.UTC()})
	out := &writer{w: w, rc: http.NewResponseController(w)}
	_ = out.rc.SetReadDeadline(time.Time{}) // the server's is for requests that end
	out.write([]byte("retry: " + strconv.Itoa(retry) + "\n\n"))
	out.write(encode(monitor.Event{Name: monitor.EventHello, Data: hello}))
	for _, e := range whole {
		out.write(encode(e))
	}
	whole = nil //nolint:ineffassign,wastedassign // it is large, and the page stays open
	out.flush()
	alive := time.NewTimer(keepAlive)
	defer alive.Stop()
	for out.err == nil {
		select {
		case <-r.Context().Done():
			return
		case <-alive.C:
			out.write([]byte(": .\n\n"))
		case <-c.wake:
			queue, ok := s.take(c)
			if !ok {
				return
			}
			for _, piece := range queue {
				out.write(piece)
			}
		}
		out.flush()
		alive.Reset(keepAlive)
	}
}

// writer writes to a page until that fails once.
type writer struct {
	w   http.ResponseWriter
	rc  *http.ResponseController
	err error
}

func (o *writer) write(b []byte) {
	if o.err != nil {
		return
	}
	if err := o.rc.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		o.err = err
		return
	}
	_, o.err = o.w.Write(b)
}

func (o *writer) flush() {
	if o.err == nil {
		o.err = o.rc.Flush()
	}
}

// policy lets the page load from its own server alone.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; manifest-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

func (s *Server) routes() http.Handler {
	private := http.NewServeMux()
	private.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { serveAsset(w, r, "index.html") })
	private.HandleFunc("GET /api/events", s.events)
	private.HandleFunc("GET /api/depth", s.depth)
	private.HandleFunc("GET /api/methylation", s.methylation)
	private.HandleFunc("GET /api/variant", s.variant)
	private.HandleFunc("GET /api/pileup", s.pileup)
	private.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			refuse(w, http.StatusMethodNotAllowed, "the page only shows: GET")
			return
		}
		refuse(w, http.StatusNotFound, "there is no such page")
	})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /assets/", func(w http.ResponseWriter, r *http.Request) {
		serveAsset(w, r, strings.TrimPrefix(path.Clean(r.URL.Path), "/assets/"))
	})
	mux.Handle("/", s.cfg.Token.GuardBrowser(private, http.HandlerFunc(refused)))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
		h.Set("Cache-Control", "no-store")
		mux.ServeHTTP(w, r)
	})
}

// refused answers who has no token: programs with JSON, people with a page that asks
// for it. The status is set.
func refused(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/api/") {
		_ = json.NewEncoder(w).Encode(map[string]string{"error": "a token is needed"})
		return
	}
	b, err := fs.ReadFile(Assets(), "token.html")
	if err != nil {
		b = []byte("a token is needed: ?token=TOKEN behind the address\n")
	}
	_, _ = w.Write(b)
}

func refuse(w http.ResponseWriter, status int, why string) {
	answer(w, status, map[string]string{"error": why})
}

func answer(w http.ResponseWriter, status int, body any) {
	b, err := json.Marshal(body)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"error":"the answer can't be written"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b)
}

// serveAsset serves a file of the page.
func serveAsset(w http.ResponseWriter, r *http.Request, name string) {
	b, err := fs.ReadFile(Assets(), name)
	if err != nil {
		refuse(w, http.StatusNotFound, "there is no such file")
		return
	}
	sum := sha256.Sum256(b)
	h := w.Header()
	h.Set("ETag", `"`+hex.EncodeToString(sum[:12])+`"`)
	h.Set("Cache-Control", "no-cache")
	if typ := contentType(name); typ != "" {
		h.Set("Content-Type", typ)
	}
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(b))
}

// contentType is that of a file of the page; what the system says of endings is not
// asked, as it differs.
func contentType(name string) string {
	return map[string]string{
		".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".mjs": "text/javascript; charset=utf-8",
		".svg": "image/svg+xml", ".png": "image/png", ".json": "application/json", ".woff2": "font/woff2", ".webmanifest": "application/manifest+json",
	}[path.Ext(name)]
}

// stretchOf is what a question names: positions [from, to) in so many bins.
func stretchOf(q url.Values) (from, to, bins int, err error) {
	number := func(name string, otherwise int) (int, error) {
		if q.Get(name) == "" {
			return otherwise, nil
		}
		n, err := strconv.Atoi(q.Get(name))
		if err != nil || n < 0 {
			return 0, fmt.Errorf("%s has to be a number from 0 on", name)
		}
		return n, nil
	}
	from, err1 := number("from", 0)
	to, err2 := number("to", 0)
	bins, err3 := number("bins", 1000)
	if err := errors.Join(err1, err2, err3); err != nil {
		return 0, 0, 0, errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return from, to, bins, nil
}

func (s *Server) methylation(w http.ResponseWriter, r *http.Request) {
	s.zoomed(w, r, func(q url.Values, from, to, bins int) (any, error) {
		haplotype := 0
		if text := q.Get("haplotype"); text != "" {
			var err error
			if haplotype, err = strconv.Atoi(text); err != nil {
				return nil, monitor.ErrNoMethylation
			}
		}
		return s.view.MethylationZoom(monitor.MethylationStretch{
			Sample: q.Get("sample"), Contig: q.Get("contig"), Code: q.Get("code"), Haplotype: haplotype, From: from, To: to, Bins: bins,
		})
	})
}

func (s *Server) depth(w http.ResponseWriter, r *http.Request) {
	s.zoomed(w, r, func(q url.Values, from, to, bins int) (any, error) {
		return s.view.Zoom(q.Get("sample"), q.Get("contig"), from, to, bins)
	})
}

// zoomed answers what the view, which is locked meanwhile, has of a stretch that is asked for.
func (s *Server) zoomed(w http.ResponseWriter, r *http.Request, of func(q url.Values, from, to, bins int) (any, error)) {
	q := r.URL.Query()
	from, to, bins, err := stretchOf(q)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	s.mu.Lock()
	s.markInUse()
	zoom, err := of(q, from, to, bins)
	s.mu.Unlock()
	if err != nil {
		refuse(w, http.StatusNotFound, err.Error())
		return
	}
	answer(w, http.StatusOK, zoom)
}

func (s *Server) variant(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.markInUse()
	detail, err := s.view.Detail(r.URL.Query().Get("id"))
	at := Place{Sample: detail.Row.Sample, Contig: detail.Row.Contig, Pos: detail.Row.Pos}
	owner, known := s.view.OwnerOf(at.Sample, at.Contig, at.Pos, time.Now())
	s.mu.Unlock()
	if err != nil {
		refuse(w, http.StatusNotFound, err.Error())
		return
	}
	detail.Pileup, err = s.readsOf(r.Context(), owner, known, at)
	if err != nil {
		detail.PileupError = err.Error()
	}
	answer(w, http.StatusOK, detail)
}

// Package browser drives a headless Chromium, for tests of the live page and for its
// pictures.
package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// Find returns the path of Chromium; an error says how to get it.
func Find() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no Chromium on PATH (Debian: apt-get install chromium)")
}

// Browser is a running Chromium without windows.
type Browser struct {
	ctx  context.Context //nolint:containedctx // chromedp keeps the browser in it
	stop context.CancelFunc
}

// Start starts Chromium. It ends with ctx, or with Close.
func Start(ctx context.Context, path string) (*Browser, error) {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path),
		chromedp.Flag("hide-scrollbars", true), chromedp.Flag("force-color-profile", "srgb"), chromedp.Flag("disable-dev-shm-usage", true))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium has none for root
	}
	ctx, stopAllocator := chromedp.NewExecAllocator(ctx, options...)
	ctx, stopBrowser := chromedp.NewContext(ctx)
	b := &Browser{ctx: ctx, stop: func() { stopBrowser(); stopAllocator() }}
	if _, err := chromedp.Run(ctx, chromedp.Navigate("about:blank")); err != nil {
		b.stop()
		return nil, fmt.Errorf("starting %s: %w", path, err)
	}
	return b, nil
}

// Close ends Chromium.
func (b *Browser) Close() { b.stop() }

// Screen is what a tab is shown on.
type Screen struct {
	Width, Height int64
	Scale         float64 // pixels per CSS pixel; 0 is 1
	Phone         bool    // touch, and no mouse
	Dark          bool    // the system's preference
	Still         bool    // the system asks for reduced motion
}

// Tab is a page with cookies and storage of its own.
type Tab struct {
	ctx  context.Context //nolint:containedctx // chromedp keeps the tab in it
	stop context.CancelFunc

	mu       sync.Mutex
	messages []string
	requests []string
}

// Open opens an empty tab.
func (b *Browser) Open(screen Screen) (*Tab, error) {
	tab, stop := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext())
	t := &Tab{ctx: tab, stop: stop}
	err := chromedp.Listen(tab, func(event any) {
		t.mu.Lock()
		defer t.mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			t.messages = append(t.messages, "exception: "+exception(e.ExceptionDetails))
		case *runtime.EventConsoleAPICalled:
			if e.Type == "error" || e.Type == "warning" {
				t.messages = append(t.messages, fmt.Sprintf("console %s", e.Type))
			}
		case *network.EventRequestWillBeSent:
			t.requests = append(t.requests, e.Request.URL)
		}
	})
	if err == nil {
		_, err = chromedp.Call(tab, network.Enable, network.EnableParams{})
	}
	if err == nil {
		// What the policy forbids is kept from the first line of the page on.
		_, err = chromedp.Call(tab, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: `
			window.violations = [];
			document.addEventListener("securitypolicyviolation", (e) => violations.push(e.violatedDirective + " " + e.blockedURI + " " + e.sourceFile + ":" + e.lineNumber));`})
	}
	if err == nil {
		err = t.Show(screen)
	}
	if err != nil {
		stop()
		return nil, fmt.Errorf("opening a tab: %w", err)
	}
	return t, nil
}

func exception(d *runtime.ExceptionDetails) string {
	text := d.Text
	if d.Exception != nil {
		text += " " + d.Exception.Description
	}
	return strings.TrimSpace(text)
}

// Close closes the tab.
func (t *Tab) Close() { t.stop() }

// Show puts the tab on another screen.
func (t *Tab) Show(s Screen) error {
	scale := s.Scale
	if scale == 0 {
		scale = 1
	}
	options := []chromedp.EmulateViewportOption{chromedp.EmulateScale(scale)}
	if s.Phone {
		options = append(options, chromedp.EmulateMobile, chromedp.EmulateTouch, chromedp.EmulatePortrait)
	}
	if _, err := chromedp.Run(t.ctx, chromedp.EmulateViewport(s.Width, s.Height, options...)); err != nil {
		return fmt.Errorf("setting the screen: %w", err)
	}
	features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "light"}, {Name: "prefers-reduced-motion", Value: "no-preference"}}
	if s.Dark {
		features[0].Value = "dark"
	}
	if s.Still {
		features[1].Value = "reduce"
	}
	if _, err := chromedp.Call(t.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features}); err != nil {
		return fmt.Errorf("setting the preferences: %w", err)
	}
	return nil
}

// Go opens an address.
func (t *Tab) Go(address string) error {
	_, err := chromedp.Run(t.ctx, chromedp.Navigate(address))
	return err
}

// Ask evaluates an expression, and waits for it if it is a promise.
func Ask[T any](t *Tab, expression string) (T, error) {
	v, err := chromedp.Run(t.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		return v, fmt.Errorf("%s: %w", expression, err)
	}
	return v, nil
}

// Wait waits until an expression of a page that has been read is true, or ctx ends.
func (t *Tab) Wait(ctx context.Context, expression string) error {
	inner, cancel := context.WithCancel(t.ctx)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	for {
		// Not once a frame: a page whose frames are measured shall not work for the test.
		// A page that is on its way has no body, and its scripts have not run.
		_, err := chromedp.Run(inner, chromedp.Poll[bool]("document.readyState === 'complete' && Boolean("+expression+")", chromedp.WithPollingInterval(50*time.Millisecond), chromedp.WithPollingTimeout(0)))
		if err == nil {
			return nil
		}
		if inner.Err() != nil || !navigated(err) {
			return fmt.Errorf("waiting for %s: %w", expression, errors.Join(err, ctx.Err()))
		}
	}
}

// navigated reports whether an expression was lost because the tab went to another page.
func navigated(err error) bool {
	text := err.Error()
	return strings.Contains(text, "context was destroyed") || strings.Contains(text, "navigated") || strings.Contains(text, "Cannot find context") || strings.Contains(text, "Inspected target")
}

// Press presses keys, one after the other; package kb names those without a letter. As
// on a keyboard, a key that the page takes for itself types nothing.
func (t *Tab) Press(keys string) error {
	for _, r := range keys {
		key, known := kb.Keys[r]
		if !known {
			return fmt.Errorf("there is no key for %q", r)
		}
		down := input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeRawKeyDown, Key: key.Key, Code: key.Code, WindowsVirtualKeyCode: key.Windows, NativeVirtualKeyCode: key.Native}
		if key.Shift {
			down.Modifiers = int64(kb.ModifierShift)
		}
		up := down
		up.Type = input.DispatchKeyEventTypeKeyUp
		if key.Print {
			down.Type, down.Text, down.UnmodifiedText = input.DispatchKeyEventTypeKeyDown, key.Text, key.Unmodified
		}
		for _, event := range []input.DispatchKeyEventParams{down, up} {
			if _, err := chromedp.Call(t.ctx, input.DispatchKeyEvent, event); err != nil {
				return fmt.Errorf("pressing %q: %w", r, err)
			}
		}
	}
	return nil
}

// Click clicks what a CSS selector finds.
func (t *Tab) Click(selector string) error {
	_, err := chromedp.Run(t.ctx, chromedp.Click(chromedp.CSS(selector)))
	return err
}

// Picture is what is on the screen, as PNG.
func (t *Tab) Picture() ([]byte, error) {
	return chromedp.Run(t.ctx, chromedp.CaptureScreenshot())
}

// MeasureCPU begins to count CPU time for [Tab.CPU].
func (t *Tab) MeasureCPU() error {
	_, err := chromedp.Call(t.ctx, performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks})
	return err
}

// CPU is the CPU time that the tab's main thread has used for its tasks: scripts,
// layout, painting.
func (t *Tab) CPU() (time.Duration, error) {
	all, err := chromedp.Call(t.ctx, performance.GetMetrics, cdp.Empty{})
	if err != nil {
		return 0, err
	}
	for _, m := range all.Metrics {
		if m.Name == "TaskDuration" {
			return time.Duration(m.Value * float64(time.Second)), nil
		}
	}
	return 0, errors.New("the browser has no TaskDuration")
}

// Wheel turns the wheel at a place of the screen.
func (t *Tab) Wheel(x, y, deltaY float64) error {
	// The type of cdproto leaves out a delta of 0, which Chromium wants.
	command := cdp.Command[map[string]any, cdp.Empty]{Method: input.CommandDispatchMouseEvent}
	_, err := chromedp.Call(t.ctx, command, map[string]any{"type": "mouseWheel", "x": x, "y": y, "deltaX": 0, "deltaY": deltaY})
	return err
}

// Drag presses the button at one place and lets it go at another.
func (t *Tab) Drag(fromX, fromY, toX, toY float64) error {
	_, err := chromedp.Run(t.ctx, chromedp.DragAndDropXY(fromX, fromY, toX, toY, 5))
	return err
}

// Point is a place on the screen, in CSS pixels from the top left.
type Point struct{ X, Y float64 }

// Pinch puts two fingers on the screen and moves each on a straight line from where it is to
// where it goes, in so many steps.
func (t *Tab) Pinch(from, to [2]Point, steps int) error {
	send := func(kind input.DispatchTouchEventType, points ...*input.TouchPoint) error {
		if points == nil {
			points = []*input.TouchPoint{} // not null
		}
		_, err := chromedp.Call(t.ctx, input.DispatchTouchEvent, input.DispatchTouchEventParams{Type: kind, TouchPoints: points})
		return err
	}
	fingers := func(share float64) []*input.TouchPoint {
		out := make([]*input.TouchPoint, len(from))
		for i := range from {
			id := float64(i)
			out[i] = &input.TouchPoint{ID: &id, X: from[i].X + share*(to[i].X-from[i].X), Y: from[i].Y + share*(to[i].Y-from[i].Y)}
		}
		return out
	}
	err := send(input.DispatchTouchEventTypeTouchStart, fingers(0)...)
	for i := 1; i <= steps && err == nil; i++ {
		err = send(input.DispatchTouchEventTypeTouchMove, fingers(float64(i)/float64(steps))...)
	}
	if err == nil {
		err = send(input.DispatchTouchEventTypeTouchEnd)
	}
	if err != nil {
		return fmt.Errorf("pinching: %w", err)
	}
	return nil
}

// Messages are exceptions that nothing caught, and what was written to the console as a
// warning or an error.
func (t *Tab) Messages() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.messages...)
}

// Requests are the addresses of all that the tab has asked for.
func (t *Tab) Requests() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.requests...)
}

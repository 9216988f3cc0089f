package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/envoy"
	"github.com/tidemark-dev/tidemark/internal/simprovider"
)

// Options of a demo.
type Options struct {
	Out   io.Writer
	Envoy string // path of an Envoy binary
	Self  string // path of this program, which runs the filter as its command demo-filter
	Color bool
}

// ErrClaim says that something that the demo shows did not hold.
var ErrClaim = errors.New("a claim does not hold")

// show is one run.
type show struct {
	*stage
	sim    *simprovider.Sim
	out    *printer
	filter *filter
	ways   []*way
	failed int
}

// Run plays the demo. It returns ErrClaim if a claim did not hold, and another error if it could not be played.
func Run(ctx context.Context, o Options) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dir, err := os.MkdirTemp("", "tidemark-demo")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	sim := simprovider.New(simprovider.Options{})
	provider, stop, err := listen(ctx, Provider(sim))
	if err != nil {
		return err
	}
	defer stop()
	f := &filter{exe: o.Self, dir: dir}
	if f.listen, err = free(ctx); err == nil {
		f.admin, err = free(ctx)
	}
	if err != nil {
		return err
	}
	config, err := envoy.Config(envoy.Endpoints{Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Processor: f.listen, Upstream: provider})
	if err != nil {
		return fmt.Errorf("make Envoy's config: %w", err)
	}
	var log lockedBuffer
	proxy, err := envoy.Start(ctx, o.Envoy, config, io.Discard, &log)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, log.String())
	}
	defer func() { err = errors.Join(err, proxy.Stop()) }()
	s := &show{
		sim: sim, stage: &stage{url: "http://" + proxy.Addr, client: &http.Client{Timeout: time.Minute}, clock: &clock{filepath.Join(dir, "clock")}},
		out: &printer{w: o.Out, color: o.Color}, filter: f, ways: ways(),
	}
	if err := s.clock.set(start); err != nil {
		return err
	}
	if err := f.start(ctx); err != nil {
		return err
	}
	defer f.stop()
	return s.run(ctx)
}

// Provider serves the simulator behind Envoy's routes, which put a prefix before the provider's paths.
func Provider(sim *simprovider.Sim) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if i := strings.Index(r.URL.Path, "/v1/"); i > 0 {
			r.URL.Path = r.URL.Path[i:]
		}
		sim.ServeHTTP(w, r)
	})
}

func listen(ctx context.Context, h http.Handler) (addr string, stop func(), err error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("listen: %w", err)
	}
	srv := &http.Server{ReadHeaderTimeout: time.Minute, Handler: h}
	go func() { _ = srv.Serve(l) }()
	return l.Addr().String(), func() { _ = srv.Close() }, nil
}

// free is an address that nothing listens on.
func free(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a port: %w", err)
	}
	return l.Addr().String(), l.Close()
}

// Play plays the session against an Envoy that runs already, and prints it. clockFile is where its tidemark reads the time.
func Play(ctx context.Context, url, clockFile string, out io.Writer, color bool) error {
	s := &show{
		stage: &stage{url: url, client: &http.Client{Timeout: time.Minute}, clock: &clock{clockFile}},
		out:   &printer{w: out, color: color}, ways: ways(),
	}
	turns := session()
	if err := s.turns(ctx, turns); err != nil {
		return err
	}
	return s.end()
}

// run is the storyboard. The last two turns are kept for the failures.
func (s *show) run(ctx context.Context) error {
	turns := session()
	n := len(turns) - 2
	if err := s.turns(ctx, turns[:n]); err != nil {
		return err
	}
	if err := s.crash(ctx, &turns[n]); err != nil {
		return err
	}
	if err := s.down(ctx, &turns[n+1]); err != nil {
		return err
	}
	if err := s.hostile(ctx, &turns[n+1]); err != nil {
		return err
	}
	return s.end()
}

func (s *show) turns(ctx context.Context, turns []turn) error {
	s.out.intro(len(turns))
	for i := range turns {
		if err := s.turn(ctx, i, &turns[i]); err != nil {
			return err
		}
	}
	return nil
}

// end prints the table and what follows from it.
func (s *show) end() error {
	s.out.table(s.ways)
	s.claims()
	if s.failed > 0 {
		return fmt.Errorf("%w: %d", ErrClaim, s.failed)
	}
	return nil
}

// arrived is the last body that the provider received.
func (s *show) arrived() []byte {
	all := s.sim.Requests()
	if len(all) == 0 {
		return nil
	}
	return all[len(all)-1].Body
}

// turn plays one turn three ways.
func (s *show) turn(ctx context.Context, n int, t *turn) error {
	var row []*reading
	for _, w := range s.ways {
		r, err := s.play(ctx, w, t)
		if err != nil {
			return err
		}
		if len(row) > 0 {
			r.removed = row[0].prompt() - r.prompt()
		}
		row = append(row, r)
	}
	if t.pause > 0 {
		s.out.pause(t.pause, row[2].removed)
	}
	s.out.turn(n+1, s.ways, row)
	return nil
}

// crash kills tidemark and starts it again: the next turn must read what the provider holds.
func (s *show) crash(ctx context.Context, t *turn) error {
	s.out.heading("kill -9 of tidemark, and a new start on the same state")
	s.filter.kill()
	if err := s.filter.start(ctx); err != nil {
		return err
	}
	w := s.ways[2]
	held := w.covered
	r, err := s.play(ctx, w, t)
	if err != nil {
		return err
	}
	s.claim(r.Read >= held, "the next turn read %d of %d held tokens: the prefix is the same, byte for byte", r.Read, held)
	return nil
}

// down stops tidemark: the request must arrive as it was sent.
func (s *show) down(ctx context.Context, t *turn) error {
	s.out.heading("tidemark is down")
	s.filter.stop()
	if _, err := s.send(ctx, s.ways[2], t.body, t.at, t.reply); err != nil {
		return err
	}
	s.claim(bytes.Equal(s.arrived(), t.body), "the request arrived as it was sent: %d bytes, all equal (failure_mode_allow)", len(t.body))
	return s.filter.start(ctx)
}

// hostile sends a body that must pass untouched: a key twice, and signed thinking.
func (s *show) hostile(ctx context.Context, t *turn) error {
	s.out.heading("a hostile body: a key twice in one message, signed thinking")
	before, err := s.filter.gate(ctx, "unparsed")
	if err != nil {
		return err
	}
	body := []byte(fmt.Sprintf(`{"model":%q,"max_tokens":100,"tools":%s,"messages":[{"role":"user","role":"user","content":"hi"},`+
		`{"role":"assistant","content":[{"type":"thinking","thinking":"…","signature":"c2lnbmVk"},{"type":"text","text":"yes"}]},{"role":"user","content":"go on"}]}`, model, tools))
	if _, err := s.send(ctx, s.ways[2], body, t.at.Add(time.Second), `[{"type":"text","text":"ok"}]`); err != nil {
		return err
	}
	after, err := s.filter.gate(ctx, "unparsed")
	if err != nil {
		return err
	}
	s.claim(bytes.Equal(s.arrived(), body), "it arrived as it was sent: %d bytes, all equal", len(body))
	s.claim(after == before+1, "the metric tidemark_gates_total names the gate: unparsed")
	return nil
}

// claims are what the table must show.
func (s *show) claims() {
	plain, naive, tide := s.ways[0], s.ways[1], s.ways[2]
	s.out.heading("what this shows")
	s.claim(naive.prompt < plain.prompt && naive.cost > plain.cost, "naive removal sends %s fewer tokens and costs %s more: it broke the cached prefix %d times",
		percent(plain.prompt-naive.prompt, plain.prompt), percent(naive.cost-plain.cost, plain.cost), naive.broken)
	s.claim(tide.prompt < plain.prompt && tide.cost < plain.cost, "tidemark sends %s fewer tokens and costs %s less",
		percent(plain.prompt-tide.prompt, plain.prompt), percent(plain.cost-tide.cost, plain.cost))
	s.claim(tide.broken == 0, "tidemark broke the cached prefix %d times: it removes when the pause has emptied the cache anyway", tide.broken)
}

func (s *show) claim(holds bool, format string, args ...any) {
	if !holds {
		s.failed++
	}
	s.out.claim(holds, fmt.Sprintf(format, args...))
}

func percent[N int | float64](part, of N) string {
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(of))
}

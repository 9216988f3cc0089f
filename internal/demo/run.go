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
	"regexp"
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

	touched int // bodies that lossless changed beyond cache_control
	failed  int
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
		out: &printer{w: o.Out, color: o.Color}, filter: f, ways: presets(),
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

// Stage is an Envoy that runs already, with a tidemark on the session's clock.
type Stage struct {
	URL   string // of Envoy
	Clock string // file that tidemark reads the time from
	Out   io.Writer
	Color bool

	// One says that /v1/messages is the only route with tidemark. Without it the routes are those of envoy/bootstrap.yaml.
	// In both, /off leads past tidemark.
	One bool
}

// Play plays the session and prints it. It returns ErrClaim if a claim did not hold.
func Play(ctx context.Context, o *Stage) error {
	s := &show{
		stage: &stage{url: o.URL, client: &http.Client{Timeout: time.Minute}, clock: &clock{o.Clock}},
		out:   &printer{w: o.Out, color: o.Color}, ways: presets(),
	}
	if o.One {
		s.ways = ways(&way{name: "tidemark"})
	}
	if err := s.turns(ctx, session()); err != nil {
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
	s.out.printf("\nnext: tidemark check your-envoy.yaml, tidemark replay --compare lossless,default your-sessions\n")
	return s.end()
}

// turns plays the session every way, turn by turn, and prints what came of it.
func (s *show) turns(ctx context.Context, turns []turn) error {
	s.out.intro(len(turns), len(s.ways))
	for i := range turns {
		for _, w := range s.ways {
			if _, err := s.play(ctx, w, &turns[i]); err != nil {
				return err
			}
			if s.sim != nil && w.name == lossless && !bytes.Equal(unmarked(s.arrived()), unmarked(turns[i].body)) {
				s.touched++
			}
		}
	}
	s.out.picture(turns, s.ways)
	s.out.table(s.ways)
	s.claims()
	return nil
}

// end is the verdict.
func (s *show) end() error {
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

// marker is a cache_control as it stands behind another member of its block.
var marker = regexp.MustCompile(`,"cache_control":\{[^{}]*\}`)

// unmarked is a body of the session without its cache_control.
func unmarked(body []byte) []byte { return marker.ReplaceAll(body, nil) }

// last is the way that failures are shown on.
func (s *show) last() *way { return s.ways[len(s.ways)-1] }

// crash kills tidemark and starts it again: the next turn must read what the provider holds.
func (s *show) crash(ctx context.Context, t *turn) error {
	s.out.heading("kill -9 of tidemark, and a new start on the same state")
	s.filter.kill()
	if err := s.filter.start(ctx); err != nil {
		return err
	}
	w := s.last()
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
	if _, err := s.send(ctx, s.last(), t.body, t.at, t.reply); err != nil {
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
	if _, err := s.send(ctx, s.last(), body, t.at.Add(time.Second), `[{"type":"text","text":"ok"}]`); err != nil {
		return err
	}
	after, err := s.filter.gateAfter(ctx, "unparsed", before)
	if err != nil {
		return err
	}
	s.claim(bytes.Equal(s.arrived(), body), "it arrived as it was sent: %d bytes, all equal", len(body))
	s.claim(after == before+1, "the metric tidemark_gates_total names the gate: unparsed")
	return nil
}

// visible is the share of pass-through's bill that lossless must stay below.
const visible = 0.9

// claims are what the table must show.
func (s *show) claims() {
	plain, naive := s.ways[0].total(), s.ways[1].total()
	broken := 0
	s.claim(naive.prompt < plain.prompt && naive.cost > plain.cost, "naive removal sends %s fewer tokens and costs %s more: it broke the cached prefix %d times",
		percent(plain.prompt-naive.prompt, plain.prompt), percent(naive.cost-plain.cost, plain.cost), naive.broken)
	least := plain
	for _, w := range s.ways[2:] {
		all := w.total()
		broken += all.broken
		switch w.name {
		case lossless:
			s.claim(all.cost < visible*plain.cost && all.prompt == plain.prompt && s.touched == 0,
				"lossless costs %s less and removes nothing: apart from cache_control every byte is the client's",
				percent(plain.cost-all.cost, plain.cost))
		default:
			s.claim(all.cost <= least.cost && all.prompt < plain.prompt, "%s costs %s less: stale reads and old results are left out where a pause has emptied the cache anyway",
				w.name, percent(plain.cost-all.cost, plain.cost))
		}
		least = all
	}
	s.claim(broken == 0, "tidemark broke the cached prefix %d times", broken)
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

package board_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/internal/board"
	"github.com/tidemark-dev/tidemark/internal/board/boardtest"
)

// noon is when the days of tests end.
var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// original is what is given back in tests, whatever is asked for.
func original(_ context.Context, id string) (string, error) {
	if strings.HasSuffix(id, "dead") {
		return "", board.ErrMissing
	}
	return "package cache\n\n// <script>window.hacked=1</script>\nfunc Lookup(key string) (*Entry, bool) {\n" + strings.Repeat("\tfor _, e := range entries {\n\t}\n", 40) + "}\n", nil
}

// links finds what to look at: a session with moves and losses, a request in it with results that were left out, and an id.
func (s *site) links(t *testing.T) (session, request, id string) {
	t.Helper()
	_, body, _ := s.ask(t, "/v1/board/sessions?sort=cost", token, "")
	best := -1
	for _, one := range decode[board.Sessions](t, body).List {
		_, body, _ := s.ask(t, "/v1/board/sessions/"+one.ID, token, "")
		for _, r := range decode[board.SessionView](t, body).Rows {
			if n := one.Requests; len(r.Moves) > 0 && r.Moves[0].Decisions > best && n < 80 && len(one.Losses) > 0 {
				best, session, request = r.Moves[0].Decisions, one.ID, r.Key
			}
		}
	}
	_, body, _ = s.ask(t, "/v1/board/requests/"+request, token, "")
	for _, r := range decode[board.RequestView](t, body).Results {
		if r.ID != "" {
			id = r.ID
		}
	}
	if id == "" {
		t.Fatal("no result was left out")
	}
	return session, request, id
}

var shots = board.Update

// TestPageLooks shows every view in light and dark, has axe-core look at each, and makes the screenshots of the docs with -update.
func TestPageLooks(t *testing.T) {
	t.Parallel()
	source := axe(t)
	s := serve(t, boardtest.Day(30, noon), board.Options{Content: original}, false)
	session, request, id := s.links(t)
	b := browse(t)
	views := []struct{ name, hash, heading string }{
		{"sessions", "#/sessions", "Sessions"},
		{"session", "#/session/" + session, "Session"},
		{"request", "#/request/" + request, "Request"},
		{"original", "#/original/" + id + "?from=" + request, "Original"},
		{"reasons", "#/reasons", "Reasons"},
	}
	looks := []struct {
		width          int
		colours, rules string // of axe-core; empty: it does not look
	}{
		{1440, "light", everything}, {1440, "dark", contrast}, {820, "dark", ""}, {390, "light", everything}, {360, "light", ""},
	}
	for _, v := range views {
		b.look(1440, "light")
		b.open(s.url+"/ui/"+v.hash, v.heading)
		eval[bool](b, source+"; true")
		for _, l := range looks {
			b.look(l.width, l.colours)
			b.settle()
			what := fmt.Sprintf("%s, %s, %d wide", v.name, l.colours, l.width)
			if over := eval[int](b, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
				t.Errorf("%s: %d pixels stand out to the right", what, over)
			}
			if l.rules != "" {
				b.audit(what, l.rules)
			}
			eval[bool](b, `(innerWidth < 500 && document.querySelector('main .chart')?.scrollIntoView(), true)`)
			shoot(t, b, v.name, l.colours, l.width)
		}
	}
}

// What axe-core looks for: all that is agreed on, or what colours may do alone.
const (
	everything = `{resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice']}`
	contrast   = `{resultTypes: ['violations'], runOnly: {type: 'rule', values: ['color-contrast']}}`
)

// kept are the pictures of the docs, at most six.
var kept = map[string]bool{
	"sessions-light-1440": true, "sessions-light-390": true, "session-light-1440": true, "session-dark-820": true, "session-light-390": true, "request-light-1440": true,
}

// maxPicture is how large a picture of the docs may be, in bytes.
const maxPicture = 150_000

func shoot(t *testing.T, b *tab, view, colours string, width int) {
	t.Helper()
	name := fmt.Sprintf("%s-%s-%d", view, colours, width)
	dir := os.Getenv("TIDEMARK_SCREENSHOTS") // all of them, to look at
	if dir == "" && *shots && kept[name] {
		dir = "../../docs/images"
	}
	if dir == "" {
		return
	}
	eval[bool](b, `(document.querySelector('#state-text').textContent = 'live', true)`) // without the time, which would be news each time
	picture := smaller(t, b.picture())
	if len(picture) > maxPicture {
		t.Errorf("%s is %d bytes large", name, len(picture))
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644); err != nil {
		t.Fatal(err)
	}
}

// smaller is nearly the same picture in far fewer bytes: its 256 most frequent colours, and for others the nearest of them.
func smaller(t *testing.T, picture []byte) []byte {
	t.Helper()
	decoded, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		t.Fatal(err)
	}
	bounds, count := decoded.Bounds(), map[color.Color]int{}
	for y := range bounds.Dy() {
		for x := range bounds.Dx() {
			count[decoded.At(x, y)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(count), func(a, b color.Color) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)))
	})
	palette := color.Palette(colours[:min(len(colours), 256)])
	out, index := image.NewPaletted(bounds, palette), map[color.Color]uint8{}
	for c := range count {
		index[c] = uint8(palette.Index(c))
	}
	for y := range bounds.Dy() {
		for x := range bounds.Dx() {
			out.SetColorIndex(x, y, index[decoded.At(x, y)])
		}
	}
	var file bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&file, out); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

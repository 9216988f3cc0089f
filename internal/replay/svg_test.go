package replay

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/bill"
	"github.com/tidemark-dev/tidemark/pipeline"
)

var update = flag.Bool("update", false, "rewrite testdata/session.svg")

// drawn is a session with everything that a picture can show.
func drawn() *Report {
	at := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	u := func(read, w5m, w1h, input int) *pipeline.Usage {
		return &pipeline.Usage{Read: read, Write5m: w5m, Write1h: w1h, Input: input}
	}
	return &Report{
		Session: "a <session>", Model: "claude-opus-4-5", Policy: "lossless & more", Ratio: 0.81,
		PassThrough: bill.Bill{Units: 123_456, USD: 0.62, Prompt: 100, Read: 50}, Bill: bill.Bill{Units: 100_000, USD: 0.5, Prompt: 100, Read: 70},
		Turns: []Turn{
			{At: at, Sent: u(0, 40_000, 0, 10), Paid: u(0, 40_000, 0, 10)},
			{At: at.Add(time.Minute), Sent: u(40_000, 2000, 0, 10), Paid: u(40_000, 0, 2000, 10)},
			{At: at.Add(20 * time.Minute), Sent: u(0, 43_000, 0, 10), Paid: u(25_000, 5000, 0, 10), Removed: 13_000, Move: "cold"},
			{At: at.Add(21 * time.Minute), Sent: u(43_000, 900, 0, 10)},
		},
	}
}

// golden compares a picture with the file that holds it, or rewrites the file.
func golden(t *testing.T, file, got string) {
	t.Helper()
	name := filepath.Join("testdata", file)
	if *update {
		if os.Getenv("CI") != "" {
			t.Fatal("goldens are not rewritten in CI")
		}
		if err := os.WriteFile(name, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("run with -update and look at the picture:\n%s", diff)
	}
}

func TestPicture(t *testing.T) {
	var got bytes.Buffer
	if err := SVG(&got, []*Report{drawn()}); err != nil {
		t.Fatal(err)
	}
	golden(t, "session.svg", got.String())
	wellFormed(t, &got)
}

func wellFormed(t *testing.T, r io.Reader) {
	t.Helper()
	for d := xml.NewDecoder(r); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// Names come from recordings, and XML has no way to write some characters.
func TestPictureOfAnyName(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := drawn()
		name := rapid.Custom(func(rt *rapid.T) string {
			return string(rapid.SliceOfN(rapid.SampledFrom([]byte("a<&>\"'\x00\x01\x1b\x7f\xff\xef\xbf\xbe\n")), 0, 8).Draw(rt, "bytes"))
		})
		r.Session, r.Model, r.Policy = name.Draw(rt, "session"), name.Draw(rt, "model"), name.Draw(rt, "policy")
		var got bytes.Buffer
		if err := SVG(&got, []*Report{r}); err != nil {
			rt.Fatal(err)
		}
		wellFormed(t, &got)
	})
}

func TestTick(t *testing.T) {
	for top, want := range map[int]int{1: 1, 7: 2, 40: 10, 42_000: 20_000, 166_000: 50_000} {
		if got := tick(top, 4); got != want {
			t.Errorf("%d: step %d, want %d", top, got, want)
		}
	}
}

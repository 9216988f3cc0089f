package top_test

import (
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/text"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/board"
	"github.com/tidemark-dev/tidemark/internal/board/boardtest"
	"github.com/tidemark-dev/tidemark/internal/board/top"
	"github.com/tidemark-dev/tidemark/internal/event"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func page(t *testing.T, events []event.Event) *board.Sessions {
	t.Helper()
	b := board.New(board.Options{})
	for _, e := range events {
		b.Take(e)
	}
	srv := httptest.NewServer(b.Handler())
	defer srv.Close()
	c, err := top.NewClient(srv.URL+"/", "")
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Sessions(t.Context(), "worst", 100)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestText: figures have their words, their origins and what they are a share of.
func TestText(t *testing.T) {
	p := page(t, boardtest.Day(30, noon))
	said := top.Text(p, top.Size{Width: 140}, false)
	for _, want := range []string{
		`(?m)^net       saved \$[\d.]+, [\d.]+ % of \$[\d.]+ without tidemark  modelled$`,
		`(?m)^bill      \$[\d.]+ for \d+ answers of \d+ requests  observed$`,
		`(?m)^cache     [\d.]+ % of [\d.]+M prompt tokens read  observed$`,
		`(?m)^shadow    would leave out [\d.]+k tokens in \d+ requests  shadow$`,
		`(?m)^SESSION  +NET  +OF BASELINE +READ OF PROMPT  LOSSES +BILL +REQUESTS +ROUTE, MODEL$`,
		`(?m)^17156075  +-[\d.]+ +cost more [\d.]+ % `,
		`(?m)^ttl +\d+ `,
		`(?m)^cached_prefix +readlifecycle +`,
	} {
		if !regexp.MustCompile(want).MatchString(said) {
			t.Errorf("%s is not in:\n%s", want, said)
		}
	}
	if strings.Contains(said, "\x1b") {
		t.Error("there are colours in what has none")
	}
	if !strings.Contains(top.Text(p, top.Size{Width: 140}, true), "\x1b[31m") {
		t.Error("what cost money has no colour")
	}
	if first, second := strings.Index(said, "cost more"), strings.LastIndex(said, "saved"); first > second {
		t.Error("the worst sessions are not the first")
	}
	loaded := &event.Config{Head: event.Head{Time: noon, Event: event.NameConfig}, Result: "ok"}
	if said := top.Text(page(t, []event.Event{loaded}), top.Size{Width: 80}, false); !strings.HasPrefix(said, "No request yet.") {
		t.Errorf("of nothing it says %q", said)
	}
}

// TestNothingIsKnown: a terminal that does not tell its size shows what any other does, and what no provider has said is no zero.
func TestNothingIsKnown(t *testing.T) {
	head := event.Head{Time: noon, Event: event.NameRequest, Key: "k", Tenant: "t", Session: "s", Lineage: "l"}
	p := page(t, []event.Event{&event.Request{Head: head}})
	said := top.Text(p, top.Size{}, false)
	if said != top.Text(p, top.Size{Width: 80}, false) {
		t.Errorf("without a size it says %q", said)
	}
	for _, want := range []string{"net       no answer was priced yet  modelled\n", "bill      $0.00 for 0 answers of 1 requests  observed\n", "cache     no answer yet  observed\n"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in:\n%s", want, said)
		}
	}
}

// TestFits: nothing is wider or higher than the terminal, and nothing but text and colours comes out, whatever sessions are called.
func TestFits(t *testing.T) {
	events := boardtest.Day(12, noon)
	colours := regexp.MustCompile("\x1b\\[[0-9;]*m")
	rapid.Check(t, func(rt *rapid.T) {
		p := page(t, events)
		name := rapid.String().Draw(rt, "name")
		for i := range p.List {
			p.List[i].Session, p.List[i].Route, p.List[i].Model = name+p.List[i].Session, "\x1b[2J"+name, name
		}
		p.Totals.Losses[0].Cause, p.Gates[0].Gate = name+"\x07", "\x1b]0;title\x07"
		size := top.Size{Width: rapid.IntRange(1, 200).Draw(rt, "width"), Height: rapid.IntRange(2, 80).Draw(rt, "height")}
		said := top.Text(p, size, rapid.Bool().Draw(rt, "colour"))
		lines := strings.Split(strings.TrimSuffix(said, "\n"), "\n")
		if len(lines) >= size.Height {
			rt.Fatalf("%d lines in a height of %d", len(lines), size.Height)
		}
		for _, line := range lines {
			if w := text.StringWidthWithoutEscSequences(line); w > size.Width {
				rt.Fatalf("%d cells in a width of %d: %q", w, size.Width, line)
			}
			for _, r := range colours.ReplaceAllString(line, "") {
				if !unicode.IsPrint(r) {
					rt.Fatalf("%q comes out: %q", r, line)
				}
			}
		}
	})
}

func TestClient(t *testing.T) {
	for _, address := range []string{"", "127.0.0.1:9003", "ftp://host", "http://"} {
		if _, err := top.NewClient(address, ""); err == nil {
			t.Errorf("%q is taken", address)
		}
	}
}

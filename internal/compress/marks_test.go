package compress_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

var formatOf = map[gen.Format]transcript.Format{gen.Anthropic: transcript.Anthropic, gen.Chat: transcript.Chat, gen.Responses: transcript.Responses}

// restores are the ids in markers, which differ from engine to engine.
var restores = regexp.MustCompile(`id [0-9a-f]{24}`)

func blank(list string) string { return restores.ReplaceAllString(list, "id") }

// breakpoints lists where the cache_control members of a list stand, with their values.
func breakpoints(t fataler, list string) map[string]any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(list), &v); err != nil {
		t.Fatal(err)
	}
	found := map[string]any{}
	collect(found, "", v)
	return found
}

func collect(found map[string]any, path string, v any) {
	switch v := v.(type) {
	case []any:
		for i := range v {
			collect(found, fmt.Sprint(path, "/", i), v[i])
		}
	case map[string]any:
		for key, w := range v {
			if key == "cache_control" || key == "prompt_cache_breakpoint" {
				found[path] = w
			}
			collect(found, path+"/"+key, w)
		}
	}
}

// leftOut takes those out that stood inside of what a marker now stands for.
func leftOut(set, kept map[string]any, list string) {
	for path := range set {
		if _, stays := kept[path]; stays {
			continue
		}
		if at := strings.LastIndex(path, "/content/"); at >= 0 {
			content := gjson.Get(list, strings.ReplaceAll(path[1:at], "/", ".")+".content").Raw
			if strings.HasPrefix(content, `[{"type":"text","text":"[tidemark `) {
				delete(set, path)
			}
		}
	}
}

// Breakpoints are the gateway's: whatever stands in a list comes back where it stood, and none is added, however far the turns lie
// apart, whatever filter would hold something and whatever the levers say.
func TestNoBreakpointChanges(t *testing.T) {
	d := open(t, nil, full(t))
	var smaller, marked int
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		format := rapid.SampledFrom([]gen.Format{gen.Anthropic, gen.Chat, gen.Responses}).Draw(rt, "format")
		o := gen.Options{ResultBytes: 1500, Files: 2, Strange: rapid.Bool().Draw(rt, "strange"), Wild: rapid.Bool().Draw(rt, "wild"), Dialects: rapid.Bool().Draw(rt, "dialects")}
		k := beginWith(d, o, seed, format, fmt.Sprint(seed, d.clock()))
		marks := rapid.SampledFrom([]gen.Marker{gen.NoMarker, gen.Short, gen.Long}).Draw(rt, "marks")
		for range rapid.IntRange(2, 4).Draw(rt, "requests") {
			for range rapid.SampledFrom([]int{1, 12}).Draw(rt, "turns") { // a bridge is for gaps, which count as sent by somebody else
				k.m.Turn(k.c)
			}
			if marks != gen.NoMarker {
				k.c.Mark(marks)
			}
			body := k.c.As(k.format)
			got := k.ask(body)
			was, is := gjson.GetBytes(body, k.list()).Raw, got.Get(k.list()).Raw
			set, kept := breakpoints(rt, was), breakpoints(rt, is)
			leftOut(set, kept, is)
			if diff := cmp.Diff(set, kept); diff != "" {
				rt.Fatalf("breakpoints: %s\n%s", diff, got.Get("tidemark").Raw)
			}
			if len(is) < len(was) {
				smaller++
			} else if is != was {
				rt.Fatal("changed, and not smaller")
			}
			marked += len(set)
			d.pause(rapid.SampledFrom([]time.Duration{time.Minute, 2 * time.Hour}).Draw(rt, "pause"))
		}
	})
	if smaller < 10 || marked < 10 {
		t.Errorf("%d smaller lists, %d breakpoints: this proves nothing", smaller, marked)
	}
}

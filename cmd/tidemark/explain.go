package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/internal/replay"
	"github.com/tidemark-dev/tidemark/pipeline"
)

type explainCommand struct {
	Session []string `arg:"" help:"Session file, or folder of captured requests; with --request files of events." type:"path"`
	Turn    int      `required:"" xor:"which" help:"Request of the session, counted from 0, as in turns.jsonl and on the picture." placeholder:"N"`
	Request string   `required:"" xor:"which" help:"Request of a server that wrote events: its x-request-id, or the key of its events." placeholder:"ID"`
	policyFlags
	Preset string `help:"Name of a pipeline, as --compare of replay takes it; --pipeline and --route are not used then." placeholder:"NAME"`
}

// Run prints what was done to each result of a request, and why not to the others. Files of events are read; a session is played
// up to the request.
func (c *explainCommand) Run() error {
	if c.Request != "" {
		return c.fromEvents()
	}
	if len(c.Session) != 1 {
		return &exitError{exitUsage, errors.New("--turn is of a single session")}
	}
	var names []string
	if c.Preset != "" {
		names = []string{c.Preset}
	}
	policies, err := c.policies(names)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	rec, err := replay.Open(c.Session[0])
	if err != nil {
		return &exitError{exitUsage, err}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	x, err := replay.Explain(ctx, rec, &policies[0], c.Turn, c.provider())
	if err != nil {
		return &exitError{exitUsage, err}
	}
	printExplanation(os.Stdout, x)
	return nil
}

func printExplanation(w io.Writer, x *replay.Explanation) {
	o := x.Outcome
	fmt.Fprintf(w, "%s, request %d of %d, at %s, under %s\n", printable(x.Session), x.N, x.Requests, x.At.UTC().Format("2006-01-02 15:04:05"), x.Policy)
	fmt.Fprintf(w, "request     %s, %s; %d messages, turn %d; %d bytes, forwarded as %d\n", o.Level, o.Kind, o.Messages, o.Turn, o.BytesIn, o.BytesOut)
	fmt.Fprintf(w, "gate        %s\n", cmp.Or(string(o.Gate), "none: something new could be decided"))
	fmt.Fprintf(w, "cache       %s; the simulated provider holds %d tokens of what is forwarded\n", o.Cache, x.Held)
	places := make([]string, len(x.Markers))
	for i, m := range x.Markers {
		places[i] = fmt.Sprintf("%s %s", m.Place, life(m))
	}
	none := "none"
	if o.Format.Automatic() {
		none = "none; the provider caches by itself"
	}
	fmt.Fprintf(w, "breakpoints %s\n", cmp.Or(strings.Join(places, ", "), none))
	switch {
	case x.Usage != nil:
		u := x.Usage
		fmt.Fprintf(w, "usage       read %d (expected %d), written 5m %d, 1h %d, input %d\n", u.Read, x.Observation.Expected, u.Write5m, u.Write1h, u.Input)
	case x.Refusal != 0:
		fmt.Fprintf(w, "usage       refused with status %d\n", x.Refusal)
	}
	if m := o.Move; m != nil {
		fmt.Fprintf(w, "move        %s, from message %d on; %s; forecast $%.4f\n", m.Kind, m.From, m.Sum, x.Observation.MoveForecast)
	}
	if l := x.Observation.Loss; l != nil {
		fmt.Fprintf(w, "loss        %d tokens, cause %s %s\n", l.Tokens, l.Cause, l.Filter)
	}
	printVerdicts(w, o)
}

// life is a breakpoint's time to live as requests write it.
func life(m replay.Marker) string {
	if m.TTL.Hours() >= 1 {
		return "1h"
	}
	return "5m"
}

var zoneNames = map[filters.Zone]string{filters.Covered: "covered", filters.Uncovered: "uncovered", filters.Fresh: "fresh"}

// printVerdicts shows one line a result.
func printVerdicts(w io.Writer, o *pipeline.Outcome) {
	if len(o.Explain) == 0 {
		fmt.Fprintln(w, "no results, or they were not looked at")
		return
	}
	t := newTable(w)
	t.AppendHeader(table.Row{"turn", "message", "tool", "what", "tokens", "zone", "done"})
	for i := range o.Explain {
		v := &o.Explain[i]
		t.AppendRow(table.Row{v.Turn, v.Msg, printable(v.Tool), end(printable(v.What), 48), v.Tokens, zoneNames[v.Zone], printable(done(v))})
	}
	t.Render()
}

// done says what was done to a result, or what kept every filter from it.
func done(v *pipeline.Verdict) string {
	if v.Filter != "" {
		return fmt.Sprintf("%s: %s, saves %d, since %s: %s", v.Filter, v.Verdict, v.Saves, v.Since.UTC().Format("15:04:05"), v.Marker)
	}
	reasons := make([]string, 0, len(v.Gates)+1)
	if v.Held {
		reasons = append(reasons, "held out of the cache")
	}
	for _, g := range v.Gates {
		reasons = append(reasons, g.Filter+"."+string(g.Gate))
	}
	text := cmp.Or(strings.Join(reasons, ", "), "no filter was asked")
	if v.Sum != "" {
		text += " (" + v.Sum + ")"
	}
	return text
}

// end is the last n runes of a text.
func end(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return "…" + string(r[len(r)-n+1:])
}

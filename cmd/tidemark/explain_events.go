package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/tidemark-dev/tidemark/internal/eventlog"
)

// fromEvents explains a request by what a server wrote of it.
func (c *explainCommand) fromEvents() error {
	x, err := eventlog.Explain(c.Session, c.Request)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	printLogged(os.Stdout, x)
	return nil
}

// moment is a time as reports write it.
func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

func printLogged(w io.Writer, x *eventlog.Explanation) {
	r := x.Request
	fmt.Fprintf(w, "%s of session %s, conversation %s, request %d, at %s, route %s, mode %s\n", printable(cmp.Or(r.RequestID, r.Key)), cmp.Or(printable(r.Session), "(none)"),
		cmp.Or(printable(r.Lineage), "(none)"), r.N, moment(r.Time), cmp.Or(printable(r.Route), "(none)"), printable(r.Mode))
	fmt.Fprintf(w, "request     %s, %s; %d messages, turn %d; %d bytes, forwarded as %d\n", printable(r.Outcome), printable(r.Kind), r.Messages, r.Turn, r.BytesIn, r.BytesOut)
	fmt.Fprintf(w, "gate        %s\n", cmp.Or(printable(r.Gate), "none: something new could be decided"))
	s := &r.Sizes
	fmt.Fprintf(w, "tokens      %s: forwarded %d cached, %d sent before, %d fresh; left out %d for the first time, %d again (%d decisions)\n",
		printable(s.Basis), s.Cached, s.Sent, s.Fresh, s.Removed, s.Replayed, r.Replays)
	if sh := r.Shadow; sh != nil {
		fmt.Fprintf(w, "shadow      mode active: %s, %d tokens left out for the first time\n", printable(sh.Outcome), sh.Removed)
	}
	fmt.Fprintf(w, "cache       believed %s\n", printable(r.Cache))
	if m := x.Move; m != nil {
		fmt.Fprintf(w, "move        %s, from message %d on; %s; forecast %s (modelled)\n", printable(m.Kind), m.Message, printable(m.Sum), dollar(m.Predicted))
	}
	printLoggedUsage(w, x)
	for _, v := range x.Restores {
		fmt.Fprintf(w, "restore     %s: %s, %d tokens (estimated)\n", printable(v.Path), printable(v.Result), v.Tokens)
	}
	for _, v := range x.Reuses {
		fmt.Fprintf(w, "reuse       call %s: %s of what %s left out %d turns before, %d tokens (estimated)\n", printable(v.Call), printable(v.Kind), printable(v.Filter), v.Later, v.Tokens)
	}
	printStanding(w, x)
	printUnread(w, x.Unread)
}

func printLoggedUsage(w io.Writer, x *eventlog.Explanation) {
	if x.Usage == nil {
		fmt.Fprintln(w, "usage       not told")
		return
	}
	u := x.Usage
	o := &u.Observed
	fmt.Fprintf(w, "usage       observed: read %d (expected %d), written 5m %d, 1h %d, input %d, output %d, %s\n", o.Read, u.Expected, o.Write5m, o.Write1h, o.Input, o.Output, dollar(o.Cost))
	if a := u.Modelled; a != nil {
		fmt.Fprintf(w, "account     modelled: %s as it came; removal %s, levers %s, reuse %s: net %s, %s of what it would have cost\n",
			dollar(a.Baseline), dollar(a.Removal), dollar(a.Levers), dollar(-a.Reuse), dollar(a.Net), share(a.Net, a.Baseline))
	}
	for _, l := range x.Losses {
		fmt.Fprintf(w, "loss        %d tokens, %s, cause %s, by the %s\n", l.Tokens, dollar(l.USD), printable(cause(&eventlog.Loss{Cause: l.Cause, Filter: l.Filter})), printable(l.Source))
	}
}

// printStanding shows one line a result.
func printStanding(w io.Writer, x *eventlog.Explanation) {
	if len(x.Results) == 0 {
		fmt.Fprintln(w, "no results, or they were not looked at")
		return
	}
	t := newTable(w)
	t.AppendHeader(table.Row{"turn", "message", "tool", "call", "file", "tokens", "zone", "said at request", "done"})
	for _, s := range x.Results {
		said := strconv.Itoa(s.N)
		if s.Now {
			said = "this one"
		}
		t.AppendRow(table.Row{s.ResultTurn, s.Message, printable(s.Tool), printable(s.Call), end(printable(cmp.Or(s.Path, s.PathHash)), 48), s.Tokens, printable(s.Zone), said, printable(stands(s))})
	}
	t.Render()
}

// stands says what stands for a result, or what kept every filter from it.
func stands(s *eventlog.Standing) string {
	text := cmp.Or(gateNames(s.Gates), "no filter was asked")
	switch {
	case s.Filter != "":
		text = fmt.Sprintf("%s: %s, %s for %d", s.Filter, s.Verb, tokens(s.MarkerTokens), s.Tokens)
		if len(s.Calls) > 1 {
			text += fmt.Sprintf(" of %d results", len(s.Calls))
		}
		if s.ID != "" {
			text += ", id " + s.ID
		}
	case s.Held:
		text = "held out of the cache, " + text
	}
	if s.Sum != "" {
		text += " (" + s.Sum + ")"
	}
	return text
}

func tokens(n int) string {
	if n == 1 {
		return "1 token"
	}
	return fmt.Sprintf("%d tokens", n)
}

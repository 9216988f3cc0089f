package board_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/board"
	"github.com/tidemark-dev/tidemark/internal/event"
)

// TestFinished: a conversation is told of once it is idle for an hour of event time, and once more for what comes after that.
func TestFinished(t *testing.T) {
	var over []string
	b := board.New(board.Options{Finished: func(route string, net float64) { over = append(over, fmt.Sprintf("%s %.2f", route, net)) }})
	at := func(minutes int, session string, net float64) {
		h := event.Head{Time: noon.Add(time.Duration(minutes) * time.Minute), Event: event.NameUsage, Key: fmt.Sprint(session, minutes), Session: session, Lineage: "l", Route: "route-" + session}
		b.Take(&event.Usage{Head: h, Modelled: &event.Account{Baseline: 10, Net: net}})
	}
	at(0, "a", 1)
	at(1, "b", 4)
	at(30, "a", 2)
	at(60, "b", 4) // 59 minutes later: not idle
	if len(over) != 0 {
		t.Fatalf("ended too early: %v", over)
	}
	at(91, "c", 0)
	at(95, "a", -5)
	at(300, "c", 0)
	if want := []string{"route-a 0.15", "route-b 0.40", "route-c 0.00", "route-a -0.50"}; !slices.Equal(over, want) {
		t.Errorf("%v, want %v", over, want)
	}
}

// TestClockThatJumps: a clock that was days ahead for a while is forgotten: conversations end by the hours of the right one, each
// once.
func TestClockThatJumps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		told := map[string]int{}
		b := board.New(board.Options{Finished: func(route string, _ float64) { told[route]++ }})
		at := noon
		say := func(route string, skew time.Duration) {
			h := event.Head{Time: at.Add(skew), Event: event.NameUsage, Session: route, Lineage: "l", Route: route}
			b.Take(&event.Usage{Head: h, Modelled: &event.Account{Baseline: 10, Net: 1}})
		}
		say("ahead", time.Duration(rapid.IntRange(2, 9000).Draw(t, "hours"))*time.Hour)
		clear(told) // a jump may end what it finds
		for range rapid.IntRange(2, 200).Draw(t, "events") {
			at = at.Add(time.Duration(rapid.IntRange(1, 59).Draw(t, "minutes")) * time.Minute)
			say("right", 0)
		}
		if told["right"] != 0 {
			t.Fatalf("a conversation that goes on ended %d times", told["right"])
		}
		page := sessions(t, b, "recent", 10)
		if !page.Now.Equal(at) || !page.List[0].Last.Equal(at) {
			t.Fatalf("now is %v, last %v, want %v", page.Now, page.List[0].Last, at)
		}
		at = at.Add(board.Idle)
		say("later", 0)
		if told["right"] != 1 {
			t.Fatalf("a conversation that is idle ended %d times", told["right"])
		}
	})
}

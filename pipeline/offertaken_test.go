package pipeline_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/internal/simprovider"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
	"github.com/tidemark-dev/tidemark/state"
)

// wantTools checks which tools a body has.
func wantTools(t *testing.T, when string, body []byte, want string) {
	t.Helper()
	if got := toolNames(body); got != want {
		t.Errorf("%s: tools %q, want %q", when, got, want)
	}
}

// TestOfferTakenBack: a tool that the provider never saw, as the outcome came too late or could not be stored in time, is not there
// from then on, here and on any replica.
func TestOfferTakenBack(t *testing.T) {
	t.Run("dropped", func(t *testing.T) {
		s, k := offered(t), newTalk()
		wantTools(t, "first", s.asks(k), withTool)
		s.o.Dropped(context.Background())
		wantTools(t, "second", s.asks(k.read("a", "/w/a")), plainTools)
		s.e.Flush(context.Background())
		s.restart()
		wantTools(t, "after a restart", s.asks(k.read("b", "/w/b")), plainTools)
	})
	t.Run("not stored in time", func(t *testing.T) {
		s, k := offered(t), newTalk()
		alive, wait := s.store, make(chan struct{})
		written := make(chan struct{})
		s.store = lateCommit{alive, wait, written}
		s.restart()
		k.Mark(gen.Short)
		s.at = s.at.Add(time.Second)
		if o := s.e.Request(deadline(t, 30*time.Millisecond), ask(k.Body(), s.c, s.at)); o.Body != nil {
			t.Fatalf("%s", o.Body)
		}
		close(wait)
		<-written
		for s.o == nil || s.o.Gate != "" { // until it is settled nothing new is decided
			s.e.Flush(context.Background())
			wantTools(t, "second", s.asks(k.read(fmt.Sprint("a", len(k.Messages)), "/w/a")), plainTools)
		}
		s.store = alive
		s.restart()
		wantTools(t, "after a restart", s.asks(k.read("b", "/w/b")), plainTools)
	})
}

// lateCommit commits once it may, whatever has become of the request, and says when it has for the first time.
type lateCommit struct {
	state.Store
	wait, written chan struct{}
}

func (l lateCommit) Commit(ctx context.Context, key state.SessionKey, b *state.Branch, originals []state.Original) (uint64, error) {
	<-l.wait
	stamp, err := l.Store.Commit(ctx, key, b, originals)
	select {
	case <-l.written:
	default:
		close(l.written)
	}
	return stamp, err
}

// TestOfferEndsOnABoundModel: a conversation that goes on with a model that binds its thinking has the tool no more, and on the other
// model still.
func TestOfferEndsOnABoundModel(t *testing.T) {
	s, k := offered(t), newTalk()
	s.asks(k)
	s.asks(k.read("a", "/w/a"))
	s.wait(cold)
	k.Model = boundModel
	for i, id := range []string{"b", "c", "d"} {
		wantTools(t, fmt.Sprint("bound ", i), s.asks(k.read(id, "/w/"+id)), plainTools)
		s.e.Flush(context.Background())
		s.restart()
	}
	k.Model = plainModel
	wantTools(t, "back", s.asks(k.read("e", "/w/e")), withTool)
}

// TestOfferedWhereTheHeadHasIt: a client that begins its history anew, with a message of the assistant's in it, finds tools and system
// as the provider holds them.
func TestOfferedWhereTheHeadHasIt(t *testing.T) {
	s := offered(t)
	plain, ours := simprovider.New(simprovider.Options{NoLog: true}), simprovider.New(simprovider.Options{NoLog: true})
	read := func(k *talk) (asItCame, forwarded int) {
		t.Helper()
		out, h := s.asks(k), http.Header{"X-Api-Key": {"k"}}
		a, b := plain.Call(k.Body(), h, s.at), ours.Call(out, h, s.at)
		if a.Err != nil || b.Err != nil {
			t.Fatal(a.Err, b.Err)
		}
		return a.Usage.Read, b.Usage.Read
	}
	read(newTalk())
	k := newTalk()
	k.Messages[0].Blocks[0] = gen.Text("What did we do so far?")
	if a, b := read(k.say("We fixed the limiter.")); a == 0 || b < a {
		t.Errorf("%d tokens are read of %d", b, a)
	}
}

// TestNoToolTooMany: no provider gets more tools than it takes.
func TestNoToolTooMany(t *testing.T) {
	c := config(t, "")
	c.Inline = true
	for n, want := range map[int]int{127: 128, 128: 0} {
		tools := make([]string, n)
		for i := range tools {
			tools[i] = fmt.Sprintf(`{"type":"function","function":{"name":"t%d","parameters":{"type":"object"}}}`, i)
		}
		r := ask([]byte(`{"model":"gpt-5.1","messages":[{"role":"user","content":"Go."}],"tools":[`+strings.Join(tools, ",")+`]}`), c, epoch)
		r.Format = transcript.Chat
		o := newEngine(t, true).Request(context.Background(), r)
		if got := strings.Count(string(o.Body), `"type":"function"`); got != want {
			t.Errorf("of %d tools %d leave, want %d (0: as they came)", n, got, want)
		}
	}
}

// TestGivenBackWithinBounds: whatever is asked for, no more than so much is given back at once, and no search takes the time of a
// request.
func TestGivenBackWithinBounds(t *testing.T) {
	s, k, _ := wanting(t)
	id, key := strings.Repeat("c", 24), s.e.SessionKey(s.tenant, s.session)
	big := state.Original{ID: id, Session: key, Content: []byte(`"` + strings.Repeat(strings.Repeat("a", 46)+`b\n`, 40_000) + `"`)}
	if _, err := s.store.Commit(context.Background(), key, &state.Branch{ID: 77, Key: state.Digest{3}}, []state.Original{big}); err != nil {
		t.Fatal(err)
	}
	out := s.asks(k.restores("most", gen.Object{{Key: "id", Value: id}, {Key: "max_bytes", Value: 2_000_000_000}}))
	if n := len(textOf(t, out, "most")); n < 90_000 || n > 101_000 {
		t.Errorf("%d bytes are given back", n)
	}
	out = s.asks(k.restores("grep", gen.Object{{Key: "id", Value: id}, {Key: "grep", Value: `(\w+\s?){30}q`}}))
	if got := textOf(t, out, "grep"); !strings.Contains(got, "The search stopped at line") {
		t.Errorf("%.200q", got)
	}
}

// TestGivenBackStaysInAFork: a fork that inherits no decision, as the client has taken away most of its prompt, has what was given back.
func TestGivenBackStaysInAFork(t *testing.T) {
	s, k, ids := wanting(t)
	s.asks(k.restores("ask", gen.Object{{Key: "id", Value: ids[0]}}))
	s.wait(cold)
	k.System = []gen.Block{gen.Text("Be brief.")}
	out := s.asks(k.say("Go on."))
	if n := len(idIn.FindAll(out, -1)); n != 0 {
		t.Fatalf("%d decisions were inherited, in %d bytes", n, len(out))
	}
	if got := textOf(t, out, "ask"); got != "a1\n"+code {
		t.Errorf("%.100q", got)
	}
}

package pipeline_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// nameless asks without a word on the session, in headers or in the body.
func nameless(t *testing.T, e *pipeline.Engine, n int, at time.Time, change ...func(*pipeline.Request)) *pipeline.Outcome {
	t.Helper()
	c := config(t, "")
	r := ask(session(n), c, at)
	r.Session, r.Anonymous = "", true
	ix, err := transcript.Parse(r.Body, transcript.Anthropic)
	if err != nil {
		t.Fatal(err)
	}
	if ix.UserID != "" {
		r.Body = bytes.Replace(r.Body, []byte(`"user_id"`), []byte(`"other"`), 1)
	}
	ix.Release()
	for _, f := range change {
		f(r)
	}
	return e.Request(context.Background(), r)
}

// A conversation that nobody names is known by how it begins, for an hour, and what is left out of it names no original.
func TestAnonymousSession(t *testing.T) {
	e := newEngine(t, true)
	if o := nameless(t, e, 40, epoch, func(r *pipeline.Request) { r.Anonymous = false }); o.Gate != filters.NoSession {
		t.Fatalf("without the option: gate %q", o.Gate)
	}
	nameless(t, e, 40, epoch)
	at := epoch.Add(30 * time.Minute)
	o := nameless(t, e, 41, at)
	if o.Kind != pipeline.KindContinue || o.Session == "" {
		t.Fatalf("half an hour later: %v", o.Kind)
	}
	at = at.Add(59 * time.Minute) // nothing is cached any more, and the session is still known
	o = nameless(t, e, 42, at, func(r *pipeline.Request) { r.Config.Levers.TTL = pipeline.KeepTTL })
	for i := 0; len(o.New) == 0 && i < 3; i++ {
		at = at.Add(59 * time.Minute)
		o = nameless(t, e, 43+i, at)
	}
	if len(o.New) == 0 {
		t.Fatalf("nothing was decided: %v", o.Gates)
	}
	for _, d := range o.New {
		if d.ID != "" {
			t.Errorf("a marker of an anonymous session names the original %s", d.ID)
		}
	}
	if strings.Contains(string(o.Body), "· id ") {
		t.Error("a marker names an original")
	}
	o = nameless(t, e, 46, at.Add(3*time.Hour))
	if o.Kind != pipeline.KindNew || o.Body != nil {
		t.Fatalf("hours later: %v, changed %t", o.Kind, o.Body != nil)
	}
}

// Conversations that begin with the same message alone are not one: the second tells them apart, and so does the tenant.
func TestAnonymousSessionsStayApart(t *testing.T) {
	e := newEngine(t, true)
	one := nameless(t, e, 40, epoch)
	other := nameless(t, e, 40, epoch, func(r *pipeline.Request) {
		ix, err := transcript.Parse(r.Body, transcript.Anthropic)
		if err != nil {
			t.Fatal(err)
		}
		defer ix.Release()
		at := ix.Messages[1].Content.Lo + 1 // a block more in what the assistant said first
		r.Body = bytes.Join([][]byte{r.Body[:at], r.Body[at:]}, []byte(`{"type":"text","text":"Hm."},`))
	})
	tenant := nameless(t, e, 40, epoch, func(r *pipeline.Request) { r.Tenant = "u" })
	if one.Session == "" || one.Session == other.Session || one.Session == tenant.Session || other.Session == tenant.Session {
		t.Errorf("sessions %q, %q, %q", one.Session, other.Session, tenant.Session)
	}
	if o := e.Request(context.Background(), &pipeline.Request{
		Format: transcript.Anthropic, Tenant: "t", Now: epoch, Config: config(t, ""), Anonymous: true,
		Body: []byte(`{"model":"claude-sonnet-4-6","tools":[{"name":"f"}],"messages":[{"role":"user","content":"a"}]}`),
	}); o.Gate != filters.NoSession {
		t.Errorf("one message names a session: gate %q", o.Gate)
	}
}

// Where the path hides whose model it is, the body is Anthropic's only if it says so.
func TestHiddenModel(t *testing.T) {
	c, body := config(t, ""), session(10)
	for _, version := range []bool{true, false} {
		r := ask(body, c, epoch)
		r.Unsure = true
		if version {
			r.Body = bytes.Replace(body, []byte("{"), []byte(`{"anthropic_version":"bedrock-2023-05-31",`), 1)
		}
		if o := newEngine(t, true).Request(context.Background(), r); (o.Gate == filters.Unparsed) == version {
			t.Errorf("anthropic_version %t: gate %q", version, o.Gate)
		}
	}
}

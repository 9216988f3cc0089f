package board_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tidemark-dev/tidemark/internal/board"
	"github.com/tidemark-dev/tidemark/internal/board/boardtest"
	"github.com/tidemark-dev/tidemark/internal/event"
)

// TestPageByKeyboard goes from the token to an original beside its marker without a mouse.
func TestPageByKeyboard(t *testing.T) {
	t.Parallel()
	s := serve(t, boardtest.Day(8, noon), board.Options{Content: original}, true)
	session, request, id := s.links(t)
	b := browse(t)
	b.look(1440, "light")
	b.open(s.url+"/", "Admin token")
	press := func(keys string) { b.t.Helper(); b.run(chromedp.KeyEvent(keys)) }
	b.until(`document.activeElement.id === 'token'`)
	press("wrong" + kb.Enter)
	b.until(`document.querySelector('#token-help').textContent.startsWith('The server did not take')`)
	eval[bool](b, `(document.querySelector('#token').value = '', document.querySelector('#token').focus(), true)`)
	press(token + kb.Enter)
	b.await("Sessions")
	if eval[string](b, `localStorage.length + document.cookie + location.href`) != "0"+s.url+"/ui/" {
		t.Error("the token is kept elsewhere than in this tab")
	}
	eval[bool](b, fmt.Sprintf(`(document.querySelector('[data-key="%s"] a').focus(), true)`, session))
	press(kb.Enter)
	b.await("Session")
	b.until(`document.activeElement.tagName === 'H1'`)
	// The bars are one stop of the Tab key; arrows go on from there, and the line below says what each of them is.
	for i := 0; !eval[bool](b, `document.activeElement.classList.contains('bar')`); i++ {
		if i > 20 {
			t.Fatal("Tab does not come to the bars")
		}
		press(kb.Tab)
	}
	press(kb.Home)
	first := eval[string](b, `document.querySelector('.readout').textContent`)
	press(kb.ArrowRight + kb.ArrowRight)
	third := eval[string](b, `document.querySelector('.readout').textContent`)
	if !strings.HasPrefix(first, "Request 1, turn 1, ") || !strings.HasPrefix(third, "Request 3, ") || !strings.Contains(third, "Without tidemark $") {
		t.Errorf("the line below the picture says %q, then %q", first, third)
	}
	if n := eval[int](b, `document.querySelectorAll('a.bar[tabindex="0"]').length`); n != 1 {
		t.Errorf("%d bars are stops of the Tab key", n)
	}
	eval[bool](b, fmt.Sprintf(`(document.querySelector('a.bar[data-key="%s"]').focus(), true)`, request))
	press(kb.Enter)
	b.await("Request")
	eval[bool](b, fmt.Sprintf(`(document.querySelector('a[href*="%s"]').focus(), true)`, id))
	press(kb.Enter)
	b.await("Original")
	if text := b.text(); !strings.Contains(text, "func Lookup(key string)") || !strings.Contains(text, "id "+id) {
		t.Errorf("original and marker are not there: %.500s", text)
	}
	b.run(chromedp.NavigateBack())
	b.await("Request")
}

// TestPageShowsHostileTextAsText: names that are markup stay names.
func TestPageShowsHostileTextAsText(t *testing.T) {
	t.Parallel()
	events := boardtest.Play(boardtest.Spec{
		Name: "5e55104a5e55104a", Route: boardtest.Hostile, Model: "<b>model</b>", Mode: "active", Seed: 9, Requests: 40, Start: noon, Pauses: 1, Hostile: true,
	})
	s := serve(t, events, board.Options{Content: original}, false)
	session, request, id := s.links(t)
	b := browse(t)
	b.look(820, "light")
	for hash, heading := range map[string]string{
		"#/sessions": "Sessions", "#/session/" + session: "Session", "#/request/" + request: "Request", "#/original/" + id: "Original",
	} {
		b.open(s.url+"/ui/"+hash, heading)
		b.settle()
		if eval[bool](b, `window.hacked === 1 || document.querySelector('main script, main img, main b b, main svg[onload]') !== null`) {
			t.Errorf("%s: what a client sent became markup", hash)
		}
	}
	b.open(s.url+"/ui/#/request/"+request, "Request")
	if !strings.Contains(b.text(), boardtest.Hostile) {
		t.Error("the tool's name is not shown as it is")
	}
	b.open(s.url+"/ui/#/session/"+"%3Cimg%20src=x%20onerror=window.hacked=1%3E", "Not there")
	b.open(s.url+"/ui/#/request/%", "Not there")
}

// TestPageTellsSums: whoever points at a bar with a move reads what the move was reckoned to come to.
func TestPageTellsSums(t *testing.T) {
	t.Parallel()
	s := serve(t, boardtest.Day(8, noon), board.Options{}, false)
	session, request, _ := s.links(t)
	_, body, _ := s.ask(t, "/v1/board/requests/"+request, token, "")
	sum := decode[board.RequestView](t, body).Moves[0].Sum
	b := browse(t)
	b.look(1440, "light")
	b.open(s.url+"/ui/#/session/"+session, "Session")
	before := eval[string](b, `document.querySelector('.readout').textContent`)
	eval[bool](b, `(document.activeElement.blur(), document.querySelector('a.bar').dispatchEvent(new PointerEvent('pointerover', {bubbles: true})))`)
	first := eval[string](b, `document.querySelector('.readout').textContent`)
	eval[bool](b, fmt.Sprintf(`document.querySelector('a.bar[data-key="%s"]').dispatchEvent(new PointerEvent('pointerover', {bubbles: true}))`, request))
	if after := eval[string](b, `document.querySelector('.readout').textContent`); sum == "" || !strings.Contains(after, sum) || strings.Contains(first, sum) || before == first {
		t.Errorf("the sum is %q, the line below the picture says %q, %q and %q", sum, before, first, after)
	}
}

// TestPageLives: what is new appears by itself, focus and what is open stay, pauses hold, and a lost server is told of and found
// again.
func TestPageLives(t *testing.T) {
	t.Parallel()
	events := boardtest.Play(boardtest.Spec{Name: "11ce11ce11ce11ce", Route: "coding", Model: "m", Mode: "active", Seed: 3, Requests: 30, Start: noon, Pauses: 0.5})
	half := len(events) / 2
	s := serve(t, events[:half], board.Options{}, false)
	b := browse(t)
	b.look(1440, "dark")
	b.open(s.url+"/ui/#/session/7d1f4c0a92e35b68-11ce11ce11ce11ce", "Session")
	bars := func() int { return eval[int](b, `document.querySelectorAll('a.bar').length`) }
	before := bars()
	eval[bool](b, `(document.querySelector('details').open = true, document.querySelectorAll('a.bar')[2].focus(), true)`)
	said := eval[string](b, `document.querySelector('.readout').textContent`)
	for _, e := range events[half : half+30] {
		s.Take(e)
	}
	b.until(fmt.Sprintf(`document.querySelectorAll('a.bar').length > %d`, before))
	if !eval[bool](b, `document.querySelector('details').open && document.activeElement === document.querySelectorAll('a.bar')[2]`) {
		t.Error("news took the focus, or closed what was open")
	}
	if now := eval[string](b, `document.querySelector('.readout').textContent`); now != said {
		t.Errorf("news changed what is told of: %q, was %q", now, said)
	}
	b.run(chromedp.Click("#pause"))
	held := bars()
	for _, e := range events[half+30:] {
		s.Take(e)
	}
	time.Sleep(2500 * time.Millisecond) // longer than the page waits between two questions
	if bars() != held || !eval[bool](b, `document.querySelector('#pause').ariaPressed === 'true'`) {
		t.Error("a page that is paused goes on")
	}
	b.run(chromedp.Click("#pause"))
	b.until(fmt.Sprintf(`document.querySelectorAll('a.bar').length > %d`, held))
	// The server goes away and comes back.
	eval[bool](b, `(window.ask = window.fetch, window.fetch = () => Promise.reject(new TypeError('gone')), true)`)
	b.until(`document.querySelector('#say').textContent === 'Connection lost.' && document.querySelector('#state').dataset.state === 'lost'`)
	if bars() <= held {
		t.Error("what was shown went away with the server")
	}
	eval[bool](b, `(window.fetch = window.ask, true)`)
	b.until(`document.querySelector('#say').textContent === 'Connected again.'`)
}

// TestPageTellsWhen: a session of another day says which, whatever the newest event is: a page that stays open while nobody works
// must not call the last request recent.
func TestPageTellsWhen(t *testing.T) {
	t.Parallel()
	spec := boardtest.Spec{Name: "22ce22ce22ce22ce", Route: "coding", Model: "m", Mode: "active", Seed: 3, Requests: 3, Start: noon}
	s := serve(t, boardtest.Play(spec), board.Options{}, false)
	b := browse(t)
	b.look(1440, "light")
	b.open(s.url+"/ui/", "Sessions")
	if !strings.Contains(b.text(), "3 requests, last 4 May, ") {
		t.Errorf("it does not say when: %s", b.text())
	}
	spec.Name, spec.Start = "33ce33ce33ce33ce", time.Now()
	for _, e := range boardtest.Play(spec) {
		s.Take(e)
	}
	b.until(`document.querySelectorAll('tbody tr').length === 2`)
	if text := b.text(); strings.Count(text, ", last 4 May, ") != 1 || strings.Count(text, ", last ") != 2 {
		t.Errorf("of two sessions it says %s", text)
	}
}

// TestPageWithoutContent says why originals are not shown.
func TestPageWithoutContent(t *testing.T) {
	t.Parallel()
	s := serve(t, boardtest.Day(1, noon), board.Options{}, false)
	b := browse(t)
	b.look(390, "light")
	b.open(s.url+"/ui/#/original/000000000000000000000001", "Not shown here")
	if !strings.Contains(b.text(), "admin.content") {
		t.Errorf("it does not say how: %s", b.text())
	}
	empty := serve(t, nil, board.Options{}, false)
	b.open(empty.url+"/ui/", "Sessions")
	if !strings.Contains(b.text(), "No session yet") {
		t.Errorf("an empty page says %s", b.text())
	}
	empty.Take(&event.Config{Head: event.Head{Time: noon, Event: event.NameConfig}, Result: "error", Errors: []string{"state: unknown key"}})
	b.until(`document.body.innerText.includes('The config could not be loaded')`)
}

// TestPageAsksAgain: whatever becomes of an answer, the page goes on: none that comes, a token that no header can hold, a view that
// was taken away. A look at an original is one look.
func TestPageAsksAgain(t *testing.T) {
	t.Parallel()
	var looks atomic.Int32
	s := serve(t, boardtest.Day(2, noon), board.Options{Content: func(ctx context.Context, id string) (string, error) {
		looks.Add(1)
		return original(ctx, id)
	}}, true)
	b := browse(t)
	b.look(1440, "light")
	b.open(s.url+"/ui/", "Admin token")
	enter := func(text string) {
		b.t.Helper()
		eval[bool](b, fmt.Sprintf(`(document.querySelector('#token').value = %q, document.querySelector('form.token button').click(), true)`, text))
	}
	enter("tokén – wrong")
	b.until(`document.querySelector('#token-help')?.textContent.startsWith('The server did not take')`)
	enter(token)
	b.await("Sessions")
	// A server that was cut off: the answer never comes, and the page's patience ends.
	eval[bool](b, `(window.ask = window.fetch, window.timeout = AbortSignal.timeout, AbortSignal.timeout = () => window.timeout.call(AbortSignal, 50),
		window.fetch = (_, o) => new Promise((_, no) => o.signal.addEventListener('abort', () => no(o.signal.reason))), true)`)
	b.until(`document.querySelector('#state').dataset.state === 'lost'`)
	eval[bool](b, `(window.fetch = window.ask, AbortSignal.timeout = window.timeout, true)`)
	b.until(`document.querySelector('#state').dataset.state === 'live'`)
	// The token is withdrawn: what was shown does not come back when the window changes its size.
	eval[bool](b, `(window.fetch = () => Promise.resolve(new Response('{}', { status: 401 })), true)`)
	b.await("Admin token")
	b.until(`document.activeElement.id === 'token'`)
	b.look(900, "light")
	b.settle()
	b.await("Admin token")
	eval[bool](b, `(window.fetch = window.ask, true)`)
	_, _, id := s.links(t)
	enter(token)
	b.await("Sessions")
	eval[bool](b, fmt.Sprintf(`(location.hash = '#/original/%s', true)`, id))
	b.await("Original")
	for range 3 {
		eval[bool](b, `(window.dispatchEvent(new Event('visibilitychange')), true)`)
		b.run(chromedp.Click("#pause"), chromedp.Click("#pause"))
		b.settle()
	}
	if n := looks.Load(); n != 1 {
		t.Errorf("one look at an original asked for it %d times", n)
	}
}

package openai

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

const thought = `{"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}]}`

// reasoned asks for reasoning, a message and two calls, and returns the items as a client sends them back.
func reasoned(t *testing.T, s *Sim, members string) []string {
	t.Helper()
	script := `[` + thought + `,{"type":"message","content":"I read."},` + call("a") + `,` + thought + `,` + call("b") + `]`
	return outputs(must(t, s, pathResponses, conv(plain, members, hi), answer(script), start))
}

// TestReasoningStaysWithWhatFollows: reasoning and the item that it led to are sent back together or not at all, as they were
// issued.
func TestReasoningStaysWithWhatFollows(t *testing.T) {
	s := New(Options{})
	items := reasoned(t, s, sealed+`"store":false,`)
	if len(items) != 5 {
		t.Fatalf("%d items", len(items))
	}
	answers := []string{output("a", "1"), output("b", "2")}
	rs, msg, second := memberOf(t, items[0], "id"), memberOf(t, items[1], "id"), memberOf(t, items[3], "id")
	const follow, needs = "Item '%s' of type 'reasoning' was provided without its required following item.", "Item '%s' of type '%s' was provided without its required 'reasoning' item: '%s'."
	without := func(i ...int) []string {
		out := slices.Clone(items)
		for n, at := range i {
			out = slices.Delete(out, at-n, at-n+1)
		}
		return append(out, answers...)
	}
	changed := func(i int, from, to string) []string {
		out := slices.Clone(items)
		if out[i] = strings.Replace(out[i], from, to, 1); out[i] == items[i] {
			t.Fatalf("%s has no %s", items[i], from)
		}
		return append(out, answers...)
	}
	seal := memberOf(t, items[0], "encrypted_content")
	bad := "The encrypted content for item " + rs + " could not be verified. Reason: "
	for _, c := range []struct {
		name  string
		items []string
		want  string // empty if it is accepted
	}{
		{"as it was", without(), ""},
		{"all of it gone", append([]string{}, hi), ""},
		{"without ids", []string{strip(t, items[0], "id"), strip(t, items[1], "id"), strip(t, items[2], "id"), strip(t, items[3], "id"), strip(t, items[4], "id"), answers[0], answers[1]}, ""},
		{"without reasoning and ids", []string{strip(t, items[1], "id"), strip(t, items[2], "id"), strip(t, items[4], "id"), answers[0], answers[1]}, ""},
		{"other states and summaries", changed(0, "hm", "so"), ""},
		{"the message gone", without(1), fmt.Sprintf(follow, rs)},
		{"the call gone", append(without(4)[:4], answers[0]), fmt.Sprintf(follow, second)},
		{"only reasoning", items[:1], fmt.Sprintf(follow, rs)},
		{"reasoning before the user", []string{items[0], hi}, fmt.Sprintf(follow, rs)},
		{"reasoning gone", without(0), fmt.Sprintf(needs, msg, "message", rs)},
		{"the second reasoning gone", without(3), fmt.Sprintf(needs, memberOf(t, items[4], "id"), "function_call", second)},
		{"another item's content", changed(0, seal, memberOf(t, items[3], "encrypted_content")), bad + "Encrypted content item_id did not match the target item id."},
		{"changed content", changed(0, seal, seal+"x"), bad + "Encrypted content could not be decrypted or parsed."},
		{"another id", changed(0, rs, "rs_other"), "The encrypted content for item rs_other could not be verified. Reason: Encrypted content item_id did not match the target item id."},
		{"content gone", changed(0, `,"encrypted_content":"`+seal+`"`, ""), "Item with id '" + rs + "' not found."},
	} {
		t.Run(c.name, func(t *testing.T) {
			res := s.Call(pathResponses, conv(plain, "", append([]string{hi}, c.items...)...), nil, start)
			switch {
			case res.Err == nil && c.want != "":
				t.Errorf("accepted, want %s", c.want)
			case res.Err != nil && (c.want == "" || !strings.HasPrefix(res.Err.Message, c.want)):
				t.Errorf("got  %s\nwant %s", res.Err.Message, c.want)
			}
		})
	}
	res := s.Call(pathResponses, conv(plain, "", append([]string{hi}, without()...)...), http.Header{"Api-Key": {"other"}}, start)
	if res.Err == nil || res.Err.Code != "invalid_encrypted_content" || !strings.Contains(res.Err.Message, "organization_id") {
		t.Errorf("another account: %v", res.Err)
	}
}

// strip returns an item without a member.
func strip(t *testing.T, raw, name string) string {
	t.Helper()
	text := memberOf(t, raw, name)
	out := strings.Replace(raw, fmt.Sprintf(`"%s":"%s",`, name, text), "", 1)
	if out == raw {
		t.Fatalf("%s has no %s", raw, name)
	}
	return out
}

// TestReasoningAlone: reasoning that nothing followed may be sent back.
func TestReasoningAlone(t *testing.T) {
	s := New(Options{})
	res := must(t, s, pathResponses, conv(plain, sealed, hi), answer(`[`+thought+`]`), start)
	must(t, s, pathResponses, conv(plain, "", hi, string(res.Output[0]), hi), nil, start)
	if res.Usage.Reasoning == 0 || res.Usage.Output != res.Usage.Reasoning {
		t.Errorf("%+v", res.Usage)
	}
}

// TestForeign: recorded sessions may hold encrypted content that another provider issued.
func TestForeign(t *testing.T) {
	s := New(Options{Foreign: true})
	reasoning := `{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAAAAbcd"}`
	must(t, s, pathResponses, conv(plain, "", hi, reasoning, call("a"), output("a", "x")), nil, start)
	must(t, s, pathResponses, conv(plain, "", hi, `{"type":"reasoning","id":"rs_2","summary":[]}`, call("a"), output("a", "x")), nil, start)
	for _, items := range [][]string{{reasoning, hi}, {strings.Replace(reasoning, "gAAAAAbcd", sealPrefix+"9", 1), call("a"), output("a", "x")}} {
		if res := s.Call(pathResponses, conv(plain, "", items...), nil, start); res.Err == nil {
			t.Errorf("accepted: %s", items)
		}
	}
}

// TestContinued: what continues an answer or a conversation costs what the whole conversation costs, and is checked like it.
func TestContinued(t *testing.T) {
	for _, model := range []string{plain, modern} {
		first, next := says("user", input("a", 1500)), says("user", input("b", 300))
		stateless, stored, named := New(Options{}), New(Options{}), New(Options{})
		id := named.Converse(nil)
		script := `[` + thought + `,` + call("x") + `]`
		one := must(t, stateless, pathResponses, conv(model, sealed, first), answer(script), start)
		other := must(t, stored, pathResponses, conv(model, "", first), answer(script), start)
		must(t, named, pathResponses, conv(model, `"conversation":"`+id+`","store":false,`, first), answer(script), start)
		if strings.Contains(string(other.Output[0]), "encrypted_content") {
			t.Errorf("%s: encrypted content that nobody asked for", model)
		}
		at := start.Add(time.Minute)
		whole := append(append([]string{first}, outputs(one)...), output("x", "1"), next)
		want := must(t, stateless, pathResponses, conv(model, "", whole...), nil, at)
		for name, got := range map[string]Result{
			"answer":       must(t, stored, pathResponses, conv(model, `"previous_response_id":"`+other.ID+`",`, output("x", "1"), next), nil, at),
			"conversation": must(t, named, pathResponses, conv(model, `"conversation":{"id":"`+id+`"},`, output("x", "1"), next), nil, at),
		} {
			if got.Usage != want.Usage || got.Prompt != want.Prompt || got.Usage.Read == 0 {
				t.Errorf("%s, %s: %+v, want %+v", model, name, got.Usage, want.Usage)
			}
		}
	}
}

// TestStored: answers can be continued more than once, by their account, for as long as they are kept.
func TestStored(t *testing.T) {
	s := New(Options{})
	res := must(t, s, pathResponses, conv(plain, "", hi), answer(`[`+call("x")+`]`), start)
	gone := must(t, s, pathResponses, conv(plain, `"store":false,`, hi), nil, start)
	follow := func(id string) string { return `"previous_response_id":"` + id + `",` }
	unknown := "Previous response with id '%s' not found."
	for _, c := range []struct {
		name  string
		after time.Duration
		body  []byte
		h     http.Header
		want  string
	}{
		{"the output", 0, conv(plain, follow(res.ID), output("x", "1")), nil, ""},
		{"another branch", 0, conv(plain, follow(res.ID), output("x", "2")), nil, ""},
		{"no output", 0, conv(plain, follow(res.ID), hi), nil, "No tool output found for function call x."},
		{"another output", 0, conv(plain, follow(res.ID), output("y", "1")), nil, "No tool call found for function call output with call_id y."},
		{"a bad item is counted from the body's first", 0, conv(plain, follow(res.ID), `{"type":"thought"}`), nil, "Invalid value: 'thought'."},
		{"another account", 0, conv(plain, follow(res.ID), output("x", "1")), http.Header{"Api-Key": {"other"}}, fmt.Sprintf(unknown, res.ID)},
		{"not stored", 0, conv(plain, follow(gone.ID), hi), nil, fmt.Sprintf(unknown, gone.ID)},
		{"a month later", storedLife, conv(plain, follow(res.ID), output("x", "1")), nil, ""},
		{"later still", storedLife + 1, conv(plain, follow(res.ID), output("x", "1")), nil, fmt.Sprintf(unknown, res.ID)},
		{"an item by its id", 0, conv(plain, "", hi, `{"type":"item_reference","id":"`+memberOf(t, string(res.Output[0]), "id")+`"}`, output("x", "1")), nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := s.Call(pathResponses, c.body, c.h, start.Add(c.after))
			switch {
			case got.Err == nil && c.want != "":
				t.Errorf("accepted, want %s", c.want)
			case got.Err != nil && (c.want == "" || !strings.HasPrefix(got.Err.Message, c.want)):
				t.Errorf("got  %v\nwant %s", got.Err, c.want)
			case got.Err != nil && strings.HasPrefix(got.Err.Param, "input[") && got.Err.Param != "input[0].type":
				t.Errorf("at %s", got.Err.Param)
			}
		})
	}
	s.Reset()
	if got := s.Call(pathResponses, conv(plain, follow(res.ID), output("x", "1")), nil, start); got.Err == nil {
		t.Error("a reset leaves answers")
	}
}

// TestCompact: the compact endpoint returns what the user said and one sealed item, which stands for all of it.
func TestCompact(t *testing.T) {
	s := New(Options{})
	ask := says("user", input("a", 1500))
	res := must(t, s, pathCompact, conv(modern, "", ask, call("x"), output("x", "1")), nil, start)
	if len(res.Output) != 2 || string(res.Output[0]) != ask || memberOf(t, string(res.Output[1]), "type") != "compaction" || res.Usage.Write < 1500 {
		t.Fatalf("%s %+v", res.Output, res.Usage)
	}
	again := must(t, s, pathResponses, conv(modern, "", append(outputs(res), hi)...), nil, start)
	if again.Usage.Read != 0 || again.Prompt < 1500 {
		t.Errorf("%+v", again)
	}
	forged := strings.Replace(string(res.Output[1]), sealPrefix, sealPrefix+"9", 1)
	if bad := s.Call(pathResponses, conv(modern, "", ask, forged, hi), nil, start); bad.Err == nil || bad.Err.Code != "invalid_encrypted_content" {
		t.Errorf("forged: %v", bad.Err)
	}
	trigger := must(t, s, pathResponses, conv(modern, "", ask, `{"type":"compaction_trigger"}`), nil, start)
	if len(trigger.Output) != 1 || memberOf(t, string(trigger.Output[0]), "type") != "compaction" {
		t.Errorf("%s", trigger.Output)
	}
}

package openai

import (
	"slices"
	"strings"
)

// check refuses what the provider refuses of a body that has the right shape.
func (s *Sim) check(r *request) *Error {
	if !r.facts.points {
		if f := r.checkMarks(); f != nil {
			return f
		}
	}
	if r.api == chat {
		return r.checkTurns()
	}
	for _, rule := range []func(*request) *Error{s.checkIDs, s.checkSeals, s.checkReasoning, s.checkPairs} {
		if f := rule(r); f != nil {
			return f
		}
	}
	return nil
}

// checkMarks refuses breakpoints for a model that has none.
func (r *request) checkMarks() *Error {
	for i, it := range r.items[r.fresh:] {
		for part, b := range it.blocks {
			if !b.mark {
				continue
			}
			path := ".content"
			if it.kind != "message" {
				path = ".output"
			}
			return unsupported(indexed(indexed(r.api.list(), i)+path, part) + "." + breakpoint).at("")
		}
	}
	return nil
}

// orphan refuses a tool message without a call.
const orphan = "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'." //nolint:misspell // so the provider

// checkTurns holds the law of Chat on tool messages: each answers a call of the message before them, and none is missing.
func (r *request) checkTurns() *Error {
	var calls, open []string // of the last message that made any
	for i, it := range r.items {
		if it.role != "tool" {
			if f := unanswered(open); f != nil {
				return f
			}
			calls, open = it.calls, slices.Clone(it.calls)
			continue
		}
		path := strings.Replace(indexed("messages", i), "[", ".[", 1)
		switch {
		case len(calls) == 0:
			return refuse(path+".role", "", orphan)
		case !slices.Contains(calls, it.call):
			return refuse(path+".tool_call_id", "", "Invalid parameter: 'tool_call_id' of '%s' not found in 'tool_calls' of previous message.", it.call)
		}
		open = slices.DeleteFunc(open, func(id string) bool { return id == it.call })
	}
	return unanswered(open)
}

func unanswered(calls []string) *Error {
	if len(calls) == 0 {
		return nil
	}
	return refuse("messages", "", "An assistant message with 'tool_calls' must be followed by tool messages responding to each "+
		"'tool_call_id'. The following tool_call_ids did not have response messages: %s", strings.Join(calls, ", "))
}

// checkIDs refuses an item that stands twice.
func (s *Sim) checkIDs(r *request) *Error {
	seen := map[string]bool{}
	for _, it := range r.items {
		if it.id == "" {
			continue
		}
		if seen[it.id] {
			return refuse("input", "", "Duplicate item found with id %s. Remove duplicate items from your input and try again.", it.id)
		}
		seen[it.id] = true
	}
	return nil
}

// checkSeals refuses encrypted content that the provider did not issue, to this account and for this item.
func (s *Sim) checkSeals(r *request) *Error {
	for _, it := range r.items {
		if it.kind != "reasoning" && it.sealed == "" {
			continue
		}
		if it.sealed == "" {
			if s.known[it.id] == nil && !s.opts.Foreign {
				return notFound(it.id)
			}
			continue
		}
		issued, known := s.issued[it.sealed]
		reason := ""
		switch {
		case !known && s.opts.Foreign && !strings.HasPrefix(it.sealed, sealPrefix):
		case !known:
			reason = "Encrypted content could not be decrypted or parsed."
		case issued.account != r.account:
			reason = "Encrypted content organization_id did not match the target organization."
		case it.id != "" && it.id != issued.id:
			reason = "Encrypted content item_id did not match the target item id."
		}
		if reason == "" {
			continue
		}
		what := "for item " + it.id
		if it.id == "" {
			what = it.sealed[:min(4, len(it.sealed))] + "..." + it.sealed[max(0, len(it.sealed)-4):]
		}
		return refuse("", "invalid_encrypted_content", "The encrypted content %s could not be verified. Reason: %s", what, reason)
	}
	return nil
}

// origin is the issue of a reasoning item, by its content or by its id.
func (s *Sim) origin(it *item) (issue, bool) {
	if found, ok := s.issued[it.sealed]; ok && it.sealed != "" {
		return found, true
	}
	if at := s.known[it.id]; at != nil {
		found, ok := s.issued[at.sealed]
		return found, ok
	}
	return issue{id: it.id}, false
}

// checkReasoning holds reasoning and what followed it together, both ways.
func (s *Sim) checkReasoning(r *request) *Error {
	before := map[string]bool{} // reasoning so far
	for i, it := range r.items {
		if it.kind != "reasoning" {
			if need := s.needs[it.id]; it.id != "" && need != "" && !before[need] {
				return refuse("input", "", "Item '%s' of type '%s' was provided without its required 'reasoning' item: '%s'.", it.id, it.kind, need)
			}
			continue
		}
		from, issued := s.origin(it)
		before[from.id] = true
		next := r.after(i)
		if issued && from.next == nil || next != nil && next.spoken() && (!issued || next.matches(from.next)) {
			continue
		}
		return refuse("input", "", "Item '%s' of type 'reasoning' was provided without its required following item.", from.id)
	}
	return nil
}

// after is the first item behind the one at i that is no reasoning, nil at the end.
func (r *request) after(i int) *item {
	for _, it := range r.items[i+1:] {
		if it.kind != "reasoning" {
			return it
		}
	}
	return nil
}

// matches reports whether an item may be the one of an answer: clients leave ids out.
func (it *item) matches(answered *item) bool {
	return it.kind == answered.kind && it.call == answered.call && (it.id == "" || it.id == answered.id) ||
		it.kind == answered.kind && it.id != "" && it.id == answered.id
}

// checkPairs holds the law of Responses on calls and outputs.
func (s *Sim) checkPairs(r *request) *Error {
	type call struct {
		it       *item
		answered bool
	}
	var calls []*call
	open := map[string]*call{} // by the kind of the answer and the id
	for _, it := range r.items {
		if a, isCall := answerOf[it.kind]; isCall {
			c := &call{it: it}
			calls = append(calls, c)
			open[a.output+" "+it.call] = c
		}
		if !answers(it.kind) {
			continue
		}
		c := open[it.kind+" "+it.call]
		if c == nil {
			return refuse("input", "", "No tool call found for %s with call_id %s.", strings.ReplaceAll(it.kind, "_", " "), it.call)
		}
		c.answered = true
	}
	for _, c := range calls {
		if !c.answered {
			return refuse("input", "", "No tool output found for %s %s.", answerOf[c.it.kind].words, c.it.call)
		}
	}
	return nil
}

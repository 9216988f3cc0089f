package main

import (
	"strings"
	"testing"
)

// Bodies of one conversation and of what clients ask beside it, as they are documented and as Claude Code 2.1.332, Codex 0.171 and
// opencode 1.18 sent them, cut short.
const (
	claudeHead = `{"model":"claude-sonnet-4-6","max_tokens":32000,"metadata":{"user_id":"{\"device_id\":\"d\",\"account_uuid\":\"\",\"session_id\":\"s-1\"}"},` +
		`"system":[{"type":"text","text":"You are Claude Code.","cache_control":{"type":"ephemeral"}}],"tools":[{"name":"Read","input_schema":{"type":"object"}}],"messages":[`
	claudeHistory = `{"role":"user","content":"Fix it."},{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"Read","input":{"file_path":"a"}}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"text of a"}]}`
	claudeTurn       = claudeHead + claudeHistory + `]}`
	claudeCompaction = claudeHead + claudeHistory + `,{"role":"assistant","content":"Done."},{"role":"user","content":"Create a detailed summary of the conversation so far."}]}`
	claudeTitle      = `{"model":"claude-haiku-4-5","max_tokens":512,"system":[{"type":"text","text":"Write a title for this session."}],"messages":[{"role":"user","content":"Fix it."}],"tools":[]}`
	claudeQuota      = `{"model":"claude-haiku-4-5","max_tokens":1,"messages":[{"role":"user","content":"quota"}],"metadata":{"user_id":"user_h_account_u_session_s-1"}}`
	claudeClassifier = `{"model":"claude-haiku-4-5","max_tokens":64,"system":"Is this command safe?","messages":[{"role":"user","content":"rm -r build"}]}`
	opencodeTitle    = `{"model":"claude-haiku-4-5-20251001","max_tokens":48000,"system":[{"type":"text","text":"You are a title generator."}],` +
		`"messages":[{"role":"user","content":[{"type":"text","text":"Generate a title for this conversation:\n"}]}],"stream":true}`
	codexTurn = `{"model":"gpt-5.1-codex","instructions":"You are Codex.","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"Fix it."}]}],` +
		`"tools":[{"type":"function","name":"exec_command","parameters":{"type":"object"}}],"store":false,"prompt_cache_key":"t-1"}`
)

// TestSideTraffic: what shares a conversation's prefix without being a turn of it, and what is no conversation at all, is side
// traffic, told by a header where there is one and else by the body. Turns of subagents and forks are turns, and so is compaction
// that nothing tells from one.
func TestSideTraffic(t *testing.T) {
	e := start(t)
	codex := func(extra ...string) map[string]string {
		return turn(append([]string{":path", "/v1/responses", "x-claude-code-session-id", "", "session-id", "t-1", "thread-id", "t-1"}, extra...)...)
	}
	for _, c := range []struct {
		name    string
		headers map[string]string
		body    string
		side    bool
	}{
		{"a turn", turn(), claudeTurn, false},
		{"a turn of the main class", turn("x-claude-code-request-class", "main", "x-claude-code-context-compacted", "auto"), claudeTurn, false},
		{"a subagent", turn("x-claude-code-request-class", "subagent", "x-claude-code-agent-id", "a", "x-claude-code-agent-type", "Explore"), claudeTurn, false},
		{"a fork", turn("x-claude-code-agent-id", "a", "x-claude-code-agent-type", "fork"), claudeCompaction, false},
		{"compaction, by class", turn("x-claude-code-request-class", "compaction", "x-claude-code-compaction", "auto"), claudeCompaction, true},
		{"compaction, by its cause", turn("x-claude-code-compaction", "manual"), claudeCompaction, true},
		{"compaction without a header", turn(), claudeCompaction, false},
		{"a title, by class", turn("x-claude-code-request-class", "auxiliary"), claudeTitle, true},
		{"a title", turn(), claudeTitle, true},
		{"a quota probe", turn(), claudeQuota, true},
		{"a quota probe that has tools", turn(), strings.Replace(claudeTurn, "32000", "1", 1), true},
		{"a classifier", turn(), claudeClassifier, true},
		{"opencode's title", turn("x-claude-code-session-id", "", "x-session-id", "ses_1"), opencodeTitle, true},
		{"count_tokens", turn(":path", "/v1/messages/count_tokens?beta=true"), claudeTurn, true},
		{"Codex' turn", codex("x-codex-turn-metadata", `{"session_id":"t-1","request_kind":"turn"}`), codexTurn, false},
		{"Codex' review", codex("x-openai-subagent", "review"), codexTurn, false},
		{"Codex' subagent", codex("thread-id", "t-2", "x-codex-parent-thread-id", "t-1", "x-openai-subagent", "collab_spawn"), codexTurn, false},
		{"Codex' compaction, by kind", codex("x-codex-turn-metadata", `{"session_id":"t-1","request_kind":"compaction"}`), codexTurn, true},
		{"Codex' compaction, by label", codex("x-openai-subagent", "compact"), codexTurn, true},
		{"Codex' compaction, by path", codex(":path", "/v1/responses/compact"), codexTurn, true},
		{"a count of Responses' tokens", codex(":path", "/v1/responses/input_tokens"), codexTurn, true},
	} {
		e.body = c.body
		got := e.ask(t, c.headers, nil)
		if (got["gate"] == "side_request") != c.side || got["outcome"] == "untouched" || got["gate"] == "unparsed" || got["gate"] == "no_session" {
			t.Errorf("%s: gate %v, outcome %v", c.name, got["gate"], got["outcome"])
		}
	}
}

// TestHiddenModel: where Bedrock's path hides whose model it is, a body is read only if it says that it is Anthropic's; where the
// path shows another vendor's, none is.
func TestHiddenModel(t *testing.T) {
	e := start(t)
	const profile = "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A111122223333%3Aapplication-inference-profile%2Fabcd1234/invoke"
	bare := strings.Replace(claudeTurn, `"model":"claude-sonnet-4-6",`, "", 1)
	versioned := strings.Replace(bare, "{", `{"anthropic_version":"bedrock-2023-05-31",`, 1)
	for _, c := range []struct {
		name, path, body string
		read             bool
		gate             string
	}{
		{"a body of Anthropic's", profile, versioned, true, ""},
		{"another body", profile, bare, false, "unparsed"},
		{"a path that shows the model", "/model/us.anthropic.claude-sonnet-4-6/invoke", bare, true, ""},
		{"another vendor's model", "/model/amazon.nova-pro-v1:0/invoke", versioned, false, "model"},
	} {
		e.body = c.body
		got := e.ask(t, turn(":path", c.path), nil)
		if read := got["outcome"] != "untouched" && got["gate"] != "unparsed"; read != c.read || !c.read && got["gate"] != c.gate {
			t.Errorf("%s: gate %v, outcome %v", c.name, got["gate"], got["outcome"])
		}
	}
}

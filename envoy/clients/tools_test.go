//go:build unix

package clients_test

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// tools are a client's words for what the model wants, by verb. dir is where the client works.
type tools map[verb]func(a act, dir string) call

// answer puts acts into the client's words.
func (own tools) answer(acts []act, dir string) (words string, calls []call) {
	for _, a := range acts {
		if a.verb == say {
			words = a.text
			continue
		}
		say, ok := own[a.verb]
		if !ok {
			say = asks // there is one word for it
		}
		calls = append(calls, say(a, dir))
	}
	return words, calls
}

// asks calls the tool that gives originals back by the name that it has in the request.
func asks(a act, _ string) call {
	c := call{name: a.tool, arguments: map[string]any{"id": a.text}}
	if space, name, ok := strings.Cut(a.tool, "."); ok {
		c.space, c.name = space, name
	}
	return c
}

// grep is the command that searches where a client has no tool for it.
func grep(a act, dir string) string { return "grep -n " + a.text + " " + filepath.Join(dir, a.path) }

var claudeTools = tools{
	read: func(a act, dir string) call {
		return call{name: "Read", arguments: map[string]any{"file_path": filepath.Join(dir, a.path)}}
	},
	edit: func(a act, dir string) call {
		return call{name: "Edit", arguments: map[string]any{"file_path": filepath.Join(dir, a.path), "old_string": a.old, "new_string": a.new}}
	},
	shell: func(a act, _ string) call {
		return call{name: "Bash", arguments: map[string]any{"command": a.text, "description": "Look"}}
	},
	search: func(a act, dir string) call {
		return call{name: "Bash", arguments: map[string]any{"command": grep(a, dir), "description": "Search"}}
	},
	find: func(a act, _ string) call {
		return call{name: "ToolSearch", arguments: map[string]any{"query": "select:" + a.tool}}
	},
}

var opencodeTools = tools{
	read: func(a act, dir string) call {
		return call{name: "read", arguments: map[string]any{"filePath": filepath.Join(dir, a.path)}}
	},
	edit: func(a act, dir string) call {
		return call{name: "edit", arguments: map[string]any{"filePath": filepath.Join(dir, a.path), "oldString": a.old, "newString": a.new}}
	},
	shell: func(a act, _ string) call {
		return call{name: "bash", arguments: map[string]any{"command": a.text, "description": "Look"}}
	},
	search: func(a act, dir string) call {
		return call{name: "bash", arguments: map[string]any{"command": grep(a, dir), "description": "Search"}}
	},
}

// opencodePatches are those of models of OpenAI, which opencode lets patch files.
var opencodePatches = tools{
	read: opencodeTools[read], shell: opencodeTools[shell], search: opencodeTools[search],
	edit: func(a act, _ string) call {
		return call{name: "apply_patch", arguments: map[string]any{"patchText": patch(a)}}
	},
}

// codexTools are those of models to which Codex gives functions.
var codexTools = tools{
	read: func(a act, _ string) call {
		return call{name: "exec_command", arguments: map[string]any{"cmd": "cat " + a.path}}
	},
	edit: func(a act, _ string) call { return call{name: "apply_patch", raw: patch(a)} },
	shell: func(a act, _ string) call {
		return call{name: "exec_command", arguments: map[string]any{"cmd": a.text}}
	},
	search: func(a act, dir string) call {
		return call{name: "exec_command", arguments: map[string]any{"cmd": grep(a, dir)}}
	},
	find: func(act, string) call {
		return call{search: true, arguments: map[string]any{"query": "context_restore"}}
	},
}

// codexScripts are those of models to which Codex gives one tool that runs JavaScript.
var codexScripts = tools{
	read:   func(a act, _ string) call { return javascript("exec_command", map[string]any{"cmd": "cat " + a.path}) },
	edit:   func(a act, _ string) call { return javascript("apply_patch", patch(a)) },
	shell:  func(a act, _ string) call { return javascript("exec_command", map[string]any{"cmd": a.text}) },
	search: func(a act, dir string) call { return javascript("exec_command", map[string]any{"cmd": grep(a, dir)}) },
	find: func(act, string) call {
		return call{name: "exec", raw: `text(ALL_TOOLS.map(t => t.name).filter(name => name.endsWith("context_restore")).join("\n"));`}
	},
	restore: func(a act, dir string) call {
		if a.tool == transcript.RestoreTool { // the model knows that it is none of the script's
			return asks(a, dir)
		}
		return call{name: "exec", raw: fmt.Sprintf("const result = await tools.%s(%s);\nfor (const c of result.content) text(c.text);", a.tool, marshal(map[string]any{"id": a.text}))}
	},
}

// javascript is a call of a tool from a program.
func javascript(tool string, argument any) call {
	return call{name: "exec", raw: fmt.Sprintf("const result = await tools.%s(%s);\ntext(typeof result === \"string\" ? result : result.output);", tool, marshal(argument))}
}

// patch is an edit in the form of apply_patch.
func patch(a act) string {
	return strings.Join([]string{"*** Begin Patch", "*** Update File: " + a.path, "@@", "-" + a.old, "+" + a.new, "*** End Patch", ""}, "\n")
}

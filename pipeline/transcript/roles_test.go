package transcript

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// wants is what a call must be: role, path, and range as people read it; or the files of a call that names several.
type wants struct {
	name, input string
	role        ToolRole
	path, rng   string
	files       []Access
}

// clients has the tools of each client as it calls them.
var clients = map[string][]wants{
	"Claude Code": {
		{name: "Read", input: `{"file_path":"/a/b.go"}`, role: Read, path: "/a/b.go"},
		{name: "Read", input: `{"file_path":"/a/b.go","offset":10,"limit":20}`, role: Read, path: "/a/b.go", rng: "10, 20"},
		{name: "Read", input: `{"file_path":"/a/b.pdf","pages":"1-5"}`, role: Read, path: "/a/b.pdf", rng: "from pages 1-5"},
		{name: "Edit", input: `{"file_path":"/a","old_string":"x","new_string":"y","replace_all":false}`, role: Edit, path: "/a"},
		{name: "MultiEdit", input: `{"file_path":"/a","edits":[{"old_string":"x","new_string":"y"}]}`, role: Edit, path: "/a"},
		{name: "Write", input: `{"file_path":"/a","content":"x"}`, role: Write, path: "/a"},
		{name: "NotebookEdit", input: `{"notebook_path":"/a.ipynb","cell_id":"1","new_source":"x","edit_mode":"replace"}`, role: Edit, path: "/a.ipynb"},
		{name: "Bash", input: `{"command":"ls","timeout":1000,"description":"d","run_in_background":false}`, role: Shell},
		{name: "PowerShell", input: `{"command":"cat C:\\a\\b > c"}`, role: Shell},
		{name: "Monitor", input: `{"id":"1"}`},
		{name: "TaskOutput", input: `{"task_id":"1"}`},
		{name: "Grep", input: `{"pattern":"x","path":"/a","glob":"*.go","output_mode":"content","-A":3,"head_limit":5,"offset":1,"multiline":true}`, role: Search, path: "/a"},
		{name: "Glob", input: `{"pattern":"**/*.go","path":"/a"}`, role: Search, path: "/a"},
		{name: "LSP", input: `{"operation":"hover","filePath":"/a.go"}`, role: Search, path: "/a.go"},
		{name: "WebFetch", input: `{"url":"https://example.com","prompt":"x"}`, role: Browser},
		{name: "WebSearch", input: `{"query":"x"}`, role: Search},
		{name: "Agent", input: `{"prompt":"x"}`},
		{name: "Task", input: `{"prompt":"x"}`},
		{name: "Skill", input: `{"skill":"x"}`},
		{name: "ToolSearch", input: `{"query":"x"}`, role: Search},
		{name: "mcp__srv__tool", input: `{"x":1}`},
		{name: "BashOutput", input: `{"bash_id":"1"}`, role: Shell},
		{name: "Write", input: `{"file_path":"","content":"x"}`, role: Write},
	},
	"Codex CLI": {
		{name: "read_file", input: `{"file_path":"/a","offset":1,"limit":9,"mode":"indentation","indentation":{"max_levels":2}}`, role: Read, path: "/a", rng: `1 mode indentation indentation {"max_levels":2}, 9`},
		{name: "apply_patch", input: `{"input":"*** Begin Patch\n*** Update File: src/a.go\n@@\n-x\n+y\n*** End Patch\n"}`, role: Edit, path: "src/a.go"},
		{
			name: "apply_patch", input: `{"input":"*** Begin Patch\n*** Add File: b.go\n+x\n*** Delete File: ./c.go\n*** Update File: d.go\n` +
				`*** Move to: e.go\n*** Frobnicate File: f.go\n*** Update File: \n*** End Patch"}`, role: Edit,
			files: []Access{{Role: Write, Path: "b.go"}, {Role: Write, Path: "c.go"}, {Role: Edit, Path: "d.go"}, {Role: Write, Path: "e.go"}},
		},
		{name: "exec_command", input: `{"cmd":"ls","workdir":"/w","yield_time_ms":1000,"tty":false}`, role: Shell},
		{name: "write_stdin", input: `{"session_id":1,"chars":"x"}`, role: Shell},
		{name: "shell", input: `{"command":["bash","-lc","ls"],"workdir":"/w","timeout_ms":1}`, role: Shell},
		{name: "shell_command", input: `{"command":"ls"}`, role: Shell},
		{name: "local_shell", input: `{"command":["ls"]}`, role: Shell},
		{name: "exec", input: `{"code":"x"}`},
		{name: "exec", input: "const r = await tools.exec_command({cmd:\"ls\"}); text(r.output);\n", role: Shell},
		{name: "exec", input: "const patch = \"*** Begin Patch\\n*** Update File: a.go\\n\";\ntext(await tools.apply_patch(patch));\n", role: Edit, path: "a.go"},
		{name: "exec", input: `{"command":"ls"}`, role: Shell},
		{name: "apply_patch", input: "*** Begin Patch\n*** Update File: src/a.go\n@@\n-x\n+y\n*** End Patch\n", role: Edit, path: "src/a.go"},
		{name: "apply_patch", input: `["apply_patch","*** Begin Patch\n*** Update File: src/a.go\n"]`, role: Edit, path: "src/a.go"},
		{name: "shell", input: `{"command":["apply_patch","*** Begin Patch\n*** Update File: a.go\n"],"workdir":"/w"}`, role: Edit, path: "/w/a.go"},
		{name: "shell", input: `{"command":["bash","-lc","cd /w && apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: a.go\n*** End Patch\nEOF"]}`, role: Edit, path: "/w/a.go"},
		{name: "exec_command", input: `{"cmd":"apply_patch <<'EOF'\n*** Add File: a.go\n*** Delete File: b.go\nEOF\n"}`, role: Edit, files: []Access{{Role: Write, Path: "a.go"}, {Role: Write, Path: "b.go"}}},
		{name: "container.exec", input: `{"cmd":["bash","-lc","ls"]}`, role: Shell},
		{name: "local_shell_call", input: `{"type":"exec","command":["bash","-lc","ls"],"working_directory":"/w","env":{},"timeout_ms":1}`, role: Shell},
		{name: "shell_call", input: `{"commands":["ls"],"timeout_ms":1,"max_output_length":9}`, role: Shell},
		{name: "apply_patch_call", input: `{"type":"update_file","path":"a.go","diff":"@@\n-x\n+y\n"}`, role: Edit, path: "a.go"},
		{name: "apply_patch_call", input: `{"type":"create_file","path":"a.go","diff":"+x"}`, role: Write, path: "a.go"},
		{name: "apply_patch_call", input: `{"type":"delete_file","path":"a.go"}`, role: Write, path: "a.go"},
		{name: "grep_files", input: `{"pattern":"x","path":"src","include":"*.go","limit":5}`, role: Search, path: "src"},
		{name: "list_dir", input: `{"dir_path":"/a","offset":1,"limit":2,"depth":1}`, role: List},
		{name: "update_plan", input: `{"plan":[]}`},
		{name: "spawn_agent", input: `{"prompt":"x"}`},
	},
	"opencode": {
		{name: "read", input: `{"filePath":"/a","offset":0,"limit":100}`, role: Read, path: "/a", rng: "0, 100"},
		{name: "edit", input: `{"filePath":"/a","oldString":"x","newString":"y","replaceAll":true}`, role: Edit, path: "/a"},
		{name: "write", input: `{"filePath":"/a","content":"x"}`, role: Write, path: "/a"},
		{name: "apply_patch", input: `{"patchText":"*** Begin Patch\n*** Update File: a.go\n"}`, role: Edit, path: "a.go"},
		{name: "multiedit", input: `{"filePath":"/a","edits":[]}`, role: Edit, path: "/a"},
		{name: "patch", input: `{"patchText":"*** Update File: a.go"}`, role: Edit, path: "a.go"},
		{name: "bash", input: `{"command":"ls","workdir":"/w","description":"d"}`, role: Shell},
		{name: "grep", input: `{"pattern":"x","path":"/a","include":"*.go"}`, role: Search, path: "/a"},
		{name: "glob", input: `{"pattern":"*"}`, role: Search},
		{name: "list", input: `{"path":"/a"}`, role: List, path: "/a"},
		{name: "task", input: `{"prompt":"x"}`},
		{name: "webfetch", input: `{"url":"u","format":"text"}`, role: Browser},
		{name: "codesearch", input: `{"query":"x"}`, role: Search},
		{name: "todowrite", input: `{"todos":[]}`},
	},
	"Cline": {
		{name: "read_files", input: `{"files":[{"path":"a.go","start_line":1,"end_line":50}]}`, role: Read, path: "a.go", rng: "1, 50"},
		{
			name: "read_files", input: `{"files":[{"path":"a.go"},{"path":"./b.go","start_line":3},{"path":""},{"path":"c","path":"d"},"e.go",7]}`, role: Read,
			files: []Access{{Role: Read, Path: "a.go"}, {Role: Read, Path: "b.go", Range: Range{From: "3"}}, {Role: Read, Path: "e.go"}},
		},
		{name: "editor", input: `{"path":"a.go","old_text":"x","new_text":"y","insert_line":null}`, role: Edit, path: "a.go"},
		{name: "apply_patch", input: `{"input":"*** Add File: a.go"}`, role: Edit, path: "a.go"},
		{name: "run_commands", input: `{"commands":["ls","pwd"]}`, role: Shell},
		{name: "search_codebase", input: `{"queries":["x"]}`, role: Search},
		{name: "read_file", input: `{"path":"a.go"}`, role: Read, path: "a.go"},
		{name: "replace_in_file", input: `{"path":"a.go","diff":"x"}`, role: Edit, path: "a.go"},
		{name: "write_to_file", input: `{"path":"a.go","content":"x"}`, role: Write, path: "a.go"},
		{name: "execute_command", input: `{"command":"ls"}`, role: Shell},
		{name: "search_files", input: `{"path":"src","regex":"x"}`, role: Search, path: "src"},
		{name: "list_files", input: `{"path":"src"}`, role: List, path: "src"},
		{name: "read_files", input: `{"files":"a.go"}`, role: Read, path: "a.go"},
		{name: "read_files", input: `{"file_paths":["a.go","b.go"]}`, role: Read, files: []Access{{Role: Read, Path: "a.go"}, {Role: Read, Path: "b.go"}}},
		{name: "read_files", input: `{"paths":{"path":"a.go","start_line":2}}`, role: Read, path: "a.go", rng: "from 2"},
		{name: "apply_patch", input: `"*** Begin Patch\n*** Add File: a.go\n"`, role: Edit, path: "a.go"},
		{name: "list_code_definition_names", input: `{"path":"src"}`, role: List, path: "src"},
		{name: "fetch_web_content", input: `{"requests":[{"url":"u","prompt":"x"}]}`, role: Browser},
		{name: "skills", input: `{"skill":"x"}`},
	},
	"Roo, Kilo, Zoo": {
		{name: "read_file", input: `{"path":"a.go","mode":"slice","offset":1,"limit":2000}`, role: Read, path: "a.go", rng: "1 mode slice, 2000"},
		{name: "read_file", input: `{"files":[{"path":"a.go","line_ranges":[[1,50],[80,90]]}]}`, role: Read, path: "a.go", rng: "from [[1,50],[80,90]]"},
		{name: "apply_diff", input: `{"path":"a.go","diff":"x"}`, role: Edit, path: "a.go"},
		{name: "edit", input: `{"file_path":"a.go","old_string":"x","new_string":"y"}`, role: Edit, path: "a.go"},
		{name: "search_replace", input: `{"file_path":"a.go","old_string":"x","new_string":"y"}`, role: Edit, path: "a.go"},
		{name: "edit_file", input: `{"file_path":"a.go","old_string":"x","new_string":"y"}`, role: Edit, path: "a.go"},
		{name: "execute_command", input: `{"command":"ls","cwd":"/w","timeout":9}`, role: Shell},
		{name: "codebase_search", input: `{"query":"x","path":"src"}`, role: Search, path: "src"},
		{name: "insert_content", input: `{"path":"a.go","line":3,"content":"x"}`, role: Edit, path: "a.go"},
		{name: "search_and_replace", input: `{"path":"a.go","search":"x","replace":"y"}`, role: Edit, path: "a.go"},
		{name: "fast_edit_file", input: `{"target_file":"a.go","instructions":"x","code_edit":"y"}`, role: Edit, path: "a.go"},
		{name: "read_command_output", input: `{"artifact_id":"1"}`, role: Shell},
	},
	"Gemini CLI, Qwen Code": {
		{name: "read_file", input: `{"file_path":"/a","start_line":5,"end_line":9}`, role: Read, path: "/a", rng: "5, 9"},
		{name: "read_file", input: `{"absolute_path":"/a","offset":5,"limit":9}`, role: Read, path: "/a", rng: "5, 9"},
		{name: "read_many_files", input: `{"include":["src/*.go"]}`, role: Read},
		{name: "read_many_files", input: `{"include":["a.go","b.go"]}`, role: Read, files: []Access{{Role: Read, Path: "a.go"}, {Role: Read, Path: "b.go"}}},
		{name: "replace", input: `{"file_path":"/a","instruction":"x","old_string":"x","new_string":"y","allow_multiple":true}`, role: Edit, path: "/a"},
		{name: "write_file", input: `{"file_path":"/a","content":"x"}`, role: Write, path: "/a"},
		{name: "run_shell_command", input: `{"command":"ls","is_background":false,"dir_path":"/w"}`, role: Shell},
		{name: "grep_search", input: `{"pattern":"x","include_pattern":"*.go"}`, role: Search},
		{name: "search_file_content", input: `{"pattern":"x"}`, role: Search},
		{name: "glob", input: `{"pattern":"*"}`, role: Search},
		{name: "list_directory", input: `{"path":"/a"}`, role: List, path: "/a"},
		{name: "google_web_search", input: `{"query":"x"}`, role: Search},
		{name: "default_api:read_file", input: `{"file_path":"/a"}`, role: Read, path: "/a"},
		{name: "notebook_edit", input: `{"notebook_path":"/a.ipynb","cell_id":"1","new_source":"x"}`, role: Edit, path: "/a.ipynb"},
	},
	"Cursor": {
		{name: "Read", input: `{"path":"/a","offset":1,"limit":2}`, role: Read, path: "/a", rng: "1, 2"},
		{name: "read_file", input: `{"target_file":"a","start_line_one_indexed":1,"end_line_one_indexed_inclusive":200,"should_read_entire_file":false}`, role: Read, path: "a", rng: "1, 200"},
		{name: "StrReplace", input: `{"path":"/a","old_string":"x","new_string":"y"}`, role: Edit, path: "/a"},
		{name: "Write", input: `{"path":"/a","contents":"x"}`, role: Write, path: "/a"},
		{name: "ApplyPatch", input: `{"patch":"*** Update File: a"}`, role: Edit, path: "a"},
		{name: "edit_file", input: `{"target_file":"a","code_edit":"x"}`, role: Edit, path: "a"},
		{name: "Shell", input: `{"command":"ls","working_directory":"/w"}`, role: Shell},
		{name: "run_terminal_cmd", input: `{"command":"ls"}`, role: Shell},
		{name: "Grep", input: `{"pattern":"x"}`, role: Search},
		{name: "Glob", input: `{"glob_pattern":"x"}`, role: Search},
		{name: "LS", input: `{"path":"/a"}`, role: List, path: "/a"},
		{name: "SemanticSearch", input: `{"query":"x"}`, role: Search},
		{name: "read_file", input: `{"target_file":"a","should_read_entire_file":true}`, role: Read, path: "a", rng: "from should_read_entire_file true"},
		{name: "search_replace", input: `{"file_path":"a","old_string":"x","new_string":"y"}`, role: Edit, path: "a"},
		{name: "EditNotebook", input: `{"target_notebook":"a.ipynb","cell_idx":1,"old_string":"x","new_string":"y"}`, role: Edit, path: "a.ipynb"},
		{name: "Delete", input: `{"path":"/a"}`, role: Write, path: "/a"},
		{name: "delete_file", input: `{"target_file":"a"}`, role: Write, path: "a"},
		{name: "reapply", input: `{"target_file":"a"}`, role: Edit, path: "a"},
		{name: "file_search", input: `{"query":"x"}`, role: Search},
	},
	"Copilot CLI": {
		{name: "view", input: `{"path":"/a","view_range":[1, 20]}`, role: Read, path: "/a", rng: "from [1, 20]"},
		{name: "view", input: `{"path":"/a"}`, role: Read, path: "/a"},
		{name: "edit", input: `{"path":"/a","old_str":"x","new_str":"y"}`, role: Edit, path: "/a"},
		{name: "create", input: `{"path":"/a","file_text":"x"}`, role: Write, path: "/a"},
		{name: "bash", input: `{"command":"ls","sessionId":"1"}`, role: Shell},
		{name: "report_intent", input: `{"intent":"x"}`},
		{name: "read_bash", input: `{"shellId":"1","delay":5}`, role: Shell},
		{name: "write_bash", input: `{"shellId":"1","input":"x"}`, role: Shell},
		{name: "stop_bash", input: `{"shellId":"1"}`, role: Shell},
		{name: "github-mcp-server-list_issues", input: `{"owner":"x"}`},
		{name: "readFile", input: `{"filePath":"/a","startLine":1,"endLine":9}`, role: Read, path: "/a", rng: "1, 9"},
		{name: "replace_string_in_file", input: `{"filePath":"/a","oldString":"x","newString":"y"}`, role: Edit, path: "/a"},
		{name: "multi_replace_string_in_file", input: `{"replacements":[{"filePath":"/a","oldString":"x","newString":"y"},{"filePath":"/b"}]}`, role: Edit, files: []Access{{Role: Edit, Path: "/a"}, {Role: Edit, Path: "/b"}}},
		{name: "insert_edit_into_file", input: `{"filePath":"/a","code":"x"}`, role: Edit, path: "/a"},
		{name: "run_in_terminal", input: `{"command":"ls","isBackground":false}`, role: Shell},
		{name: "fetch_webpage", input: `{"urls":["u"]}`, role: Browser},
	},
	"goose": {
		{name: "tree", input: `{"path":"/a"}`, role: List, path: "/a"},
		{name: "edit", input: `{"path":"/a","before":"x","after":"y"}`, role: Edit, path: "/a"},
		{name: "developer__text_editor", input: `{"command":"view","path":"/a"}`, role: Read, path: "/a"},
		{name: "developer__text_editor", input: `{"command":"write","path":"/a","file_text":"x"}`, role: Write, path: "/a"},
		{name: "developer__text_editor", input: `{"command":"insert","path":"/a","new_str":"x"}`, role: Edit, path: "/a"},
		{name: "developer__shell", input: `{"command":"ls"}`, role: Shell},
		{name: "read", input: `{"path":"/a","line":3,"limit":9}`, role: Read, path: "/a", rng: "3, 9"},
		{name: "write", input: `{"path":"/a","content":"x"}`, role: Write, path: "/a"},
		{name: "shell", input: `{"command":"ls","timeout_secs":9}`, role: Shell},
	},
	"SWE-agent": {
		{name: "str_replace_editor", input: `{"command":"view","path":"/a","view_range":[1,9]}`, role: Read, path: "/a", rng: "from [1,9]"},
		{name: "str_replace_editor", input: `{"command":"undo_edit","path":"/a"}`, role: Edit, path: "/a"},
		{name: "open", input: `{"path":"a","line_number":7}`, role: Read, path: "a", rng: "from 7"},
		{name: "goto", input: `{"line_number":7}`},
		{name: "find_file", input: `{"file_name":"a"}`, role: Search},
		{name: "search_file", input: `{"search_term":"x","file":"a"}`, role: Search, path: "a"},
		{name: "search_dir", input: `{"search_term":"x"}`, role: Search},
		{name: "create", input: `{"filename":"a"}`, role: Write, path: "a"},
		{name: "edit", input: `{"search":"x","replace":"y"}`, role: Edit},
	},
	"OpenHands": {
		{name: "file_editor", input: `{"command":"create","path":"/a","file_text":"x"}`, role: Write, path: "/a"},
		{name: "terminal", input: `{"command":"ls","is_input":"false"}`, role: Shell},
		{name: "execute_bash", input: `{"command":"ls"}`, role: Shell},
		{name: "task_tracker", input: `{"command":"view"}`},
		{name: "file_editor", input: `{"command":"view","path":"/a","view_range":[1,5]}`, role: Read, path: "/a", rng: "from [1,5]"},
		{name: "browser_click", input: `{"index":1}`, role: Browser},
		{name: "execute_ipython_cell", input: `{"code":"x"}`},
	},
	"Pi": {
		{name: "read", input: `{"path":"a","offset":1}`, role: Read, path: "a", rng: "from 1"},
		{name: "read", input: `{"path":"a","limit":9}`, role: Read, path: "a", rng: "limit 9"},
		{name: "edit", input: `{"path":"a","oldText":"x","newText":"y"}`, role: Edit, path: "a"},
		{name: "find", input: `{"pattern":"x"}`, role: Search},
		{name: "ls", input: `{"path":"a"}`, role: List, path: "a"},
	},
	"Anthropic text editor": {
		{name: "str_replace_based_edit_tool", input: `{"command":"view","path":"/a","view_range":[1,-1]}`, role: Read, path: "/a", rng: "from [1,-1]"},
		{name: "str_replace_based_edit_tool", input: `{"command":"str_replace","path":"/a","old_str":"x","new_str":"y"}`, role: Edit, path: "/a"},
		{name: "str_replace_based_edit_tool", input: `{"command":"frobnicate","path":"/a"}`, path: "/a"},
		{name: "str_replace_based_edit_tool", input: `{"path":"/a"}`, path: "/a"},
	},
	"Amp": {
		{name: "Read", input: `{"path":"/a","read_range":[1,50]}`, role: Read, path: "/a", rng: "from [1,50]"},
		{name: "edit_file", input: `{"path":"/a","old_str":"x","new_str":"y"}`, role: Edit, path: "/a"},
		{name: "create_file", input: `{"path":"/a","content":"x"}`, role: Write, path: "/a"},
		{name: "Bash", input: `{"cmd":"ls"}`, role: Shell},
		{name: "undo_edit", input: `{"path":"/a"}`, role: Edit, path: "/a"},
		{name: "format_file", input: `{"path":"/a"}`, role: Edit, path: "/a"},
		{name: "finder", input: `{"query":"x"}`, role: Search},
		{name: "read_web_page", input: `{"url":"u"}`, role: Search},
	},
	"Antigravity": {
		{name: "view_file", input: `{"AbsolutePath":"/a","StartLine":1,"EndLine":9}`, role: Read, path: "/a", rng: "1, 9"},
		{name: "replace_file_content", input: `{"TargetFile":"/a","ReplacementContent":"x"}`, role: Edit, path: "/a"},
		{name: "run_command", input: `{"CommandLine":"ls"}`, role: Shell},
		{name: "multi_replace_file_content", input: `{"TargetFile":"/a","ReplacementChunks":[]}`, role: Edit, path: "/a"},
		{name: "write_to_file", input: `{"TargetFile":"/a","CodeContent":"x","Overwrite":true}`, role: Write, path: "/a"},
		{name: "command_status", input: `{"CommandId":"1"}`, role: Shell},
		{name: "send_command_input", input: `{"CommandId":"1","Input":"x"}`, role: Shell},
		{name: "find_by_name", input: `{"SearchDirectory":"/a","Pattern":"x"}`, role: Search},
		{name: "read_url_content", input: `{"Url":"u"}`, role: Search},
		{name: "search_web", input: `{"query":"u"}`, role: Search},
	},
	"Grok CLI, Warp": {
		{name: "read_file", input: `{"target_file":"a","offset":9}`, role: Read, path: "a", rng: "from 9"},
		{name: "read_files", input: `{"files":[{"path":"a"}]}`, role: Read, path: "a"},
		{name: "apply_file_diff", input: `{"path":"a","diff":"x"}`, role: Edit, path: "a"},
		{name: "apply_file_diffs", input: `{"files":[{"path":"a"},{"path":"b"}]}`, role: Edit, files: []Access{{Role: Edit, Path: "a"}, {Role: Edit, Path: "b"}}},
		{name: "edit_files", input: `{"files":[{"path":"a"}]}`, role: Edit, path: "a"},
		{name: "file_glob", input: `{"patterns":["*"]}`, role: Search},
		{name: "view_file", input: `{"path":"a","start_line":1,"end_line":5}`, role: Read, path: "a", rng: "1, 5"},
		{name: "str_replace_editor", input: `{"path":"a","old_str":"x","new_str":"y","replace_all":false}`, role: Edit, path: "a"},
		{name: "str_replace_editor", input: `{"path":"a","file_text":"x"}`, role: Write, path: "a"},
		{name: "run_terminal_command", input: `{"command":"ls"}`, role: Shell},
	},
	"others": {
		{name: "open_file", input: `{"path":"a"}`, role: Read, path: "a"},
		{name: "NotebookRead", input: `{"notebook_path":"/a.ipynb"}`, role: Read, path: "/a.ipynb"},
		{name: "web_fetch", input: `{"url":"u"}`, role: Browser},
		{name: "browser_action", input: `{"action":"click"}`, role: Browser},
		{name: "browser_navigate", input: `{"url":"u"}`, role: Browser},
		{name: "mcp__playwright__browser_snapshot", input: `{}`, role: Browser},
		{name: "playwright-browser_snapshot", input: `{}`, role: Browser},
		{name: "read_multiple_files", input: `{"paths":["a","b*","c"]}`, role: Read, files: []Access{{Role: Read, Path: "a"}, {Role: Read, Path: "c"}}},
	},
	"tools that nobody knows": {
		{name: "fetch_source", input: `{"path":"/a"}`, role: Read, path: "/a"},
		{name: "get_latest_source", input: `{"path":"/a"}`, role: Read, path: "/a"},
		{name: "run_tests", input: `{"path":"/a_test.go"}`, path: "/a_test.go"}, // what it answers stands nowhere else
		{name: "mcp__ci__lintFile", input: `{"path":"/a"}`, path: "/a"},
		{name: "git.file-history", input: `{"path":"/a"}`, path: "/a"},
		{name: "mcp__fs__read_text_file", input: `{"path":"/a","head":10}`, role: Read, path: "/a", rng: "from head 10"},
		{name: "mcp__fs__read_file", input: `{"path":"/a"}`, role: Read, path: "/a"},
		{name: "mcp__my__srv__Write_File", input: `{"path":"/a","content":"x"}`, role: Write, path: "/a"},
		{name: "functions.read_file", input: `{"path":"/a"}`, role: Read, path: "/a"},
		{name: "functions.exec_command", input: `{"cmd":"ls"}`, role: Shell},
		{name: "fs.write_file", input: `{"path":"/a","content":"x"}`, role: Write, path: "/a"},
		{name: "my-server-write_file", input: `{"path":"/a","content":"x"}`, role: Write, path: "/a"},
		{name: "srv/list_directory", input: `{"path":"/a"}`, role: List, path: "/a"},
		{name: "browser.open", input: `{"id":1}`},
		{name: "jira-create", input: `{"path":"/a","content":"x"}`, path: "/a"},
		{name: "unread-edit", input: `{"path":"/a","text":"x"}`, path: "/a"},
		{name: "save", input: `{"path":"/a","content":"x"}`, path: "/a"},
		{name: "lookup", input: `{"path":"/a","query":"x"}`, path: "/a"},
		{name: "run", input: `{"path":"/a","command":"x"}`, path: "/a"},
		{name: "mcp__read", input: `{"path":"/a"}`, role: Read, path: "/a"},
		{name: "__read", input: `{}`},
		{name: "read__", input: `{}`},
		{name: "", input: `{}`},
	},
	"arguments that are odd": {
		{name: "Read", input: `{"file_path":"/a","file_path":"/b"}`, role: Read},
		{name: "Read", input: `{"file_path":"/a","f\u0069le_path":"/b"}`, role: Read},
		{name: "Read", input: `{"file_path":"/a","file_path":"/b","offset":1,"limit":2}`, role: Read},
		{name: "Read", input: `{"file_path":"/a","x":1,"x":2}`, role: Read, path: "/a"},
		{name: "Edit", input: `{"file_path":"/a","offset":1,"offset":1}`, role: Edit},
		{name: "Read", input: `[]`, role: Read},
		{name: "Read", input: `null`, role: Read},
		{name: "Read", input: `"/a"`, role: Read},
		{name: "Read", input: `/a`, role: Read},
		{name: "Read", input: ``, role: Read},
		{name: "Read", input: `{"file_path":"/a"`, role: Read},
		{name: "Read", input: `{"file_path":"/a\`, role: Read},
		{name: "Bash", input: `{"command":"cat a > b`, role: Shell},
		{name: "apply_patch", input: `{"input":"*** Update File: a`, role: Edit},
		{name: "Read", input: `{"file_path":7,"offset":[]}`, role: Read, rng: "from []"},
		{name: "Read", input: `{"file_path":null,"path":"/a"}`, role: Read, path: "/a"},
		{name: "Read", input: `{"file_path":""}`, role: Read},
		{name: "Read", input: `{"file_path":"/a","offset":null,"limit":null,"pages":null}`, role: Read, path: "/a"},
		{name: "Read", input: `{"file_path":"/a","offset":null,"start_line":3}`, role: Read, path: "/a", rng: "from 3"},
		{name: "Read", input: `{"file_path":"/a","offset":"10"}`, role: Read, path: "/a", rng: "from 10"},
		{name: "Read", input: `{"f\u0069le_path":"\/a\u002f.\/b\/..\/c"}`, role: Read, path: "/a/c"},
		{name: "Read", input: `{"file_path":"a//b/"}`, role: Read, path: "a/b"},
		{name: "Bash", input: `{"command":7}`, role: Shell},
		{name: "Bash", input: `{"command":[]}`, role: Shell},
		{name: "Bash", input: `{"command":{"a":"cat /a"}}`, role: Shell},
		{name: "read_files", input: `{"files":{"a":"b"}}`, role: Read},
		{name: "apply_patch", input: `{"input":["*** Update File: a"]}`, role: Edit},
	},
}

func TestToolRoles(t *testing.T) {
	for client, calls := range clients {
		t.Run(client, func(t *testing.T) {
			for _, w := range calls {
				checkRole(t, w)
			}
		})
	}
}

func checkRole(t *testing.T, w wants) {
	t.Helper()
	f := factsOf(w.name, w.input)
	if f.Role != w.role || f.Path != w.path || f.Range.String() != w.rng {
		t.Errorf("%s%s is a %s of %q (%s), not a %s of %q (%s)", w.name, w.input, f.Role, f.Path, f.Range, w.role, w.path, w.rng)
	}
	if diff := gocmp.Diff(w.files, f.Files, cmpopts.EquateEmpty(), cmpopts.EquateComparable(Range{})); diff != "" {
		t.Errorf("%s%s: files\n%s", w.name, w.input, diff)
	}
	if !strings.HasPrefix(w.input, "{") || !json.Valid([]byte(w.input)) {
		return
	}
	ix := parse(t, fmt.Appendf(nil, `{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":%q,"input":%s}]}]}`, w.name, w.input))
	for range 2 {
		in := *ix.CallFacts(0)
		in.resolved = false
		if diff := gocmp.Diff(f, in, cmpopts.EquateComparable(Range{}), gocmp.AllowUnexported(CallFacts{})); diff != "" {
			t.Errorf("%s%s is another call in a body: %s", w.name, w.input, diff)
		}
	}
	ix.Release()
}

// Every row of the table is called by a client above.
func TestToolTable(t *testing.T) {
	called := map[string]bool{}
	for _, calls := range clients {
		for _, w := range calls {
			_, _, why := (*RoleTable)(nil).find(w.name)
			called[fold(strings.TrimPrefix(why, "tool "))] = true
		}
	}
	for name := range table {
		if !called[name] {
			t.Errorf("no client calls %s", name)
		}
	}
	for r := OtherTool; r <= Browser; r++ {
		if r.Changes() != (r == Edit || r == Write) || r.String() == "" {
			t.Errorf("role %d is called %q and changes files: %v", r, r, r.Changes())
		}
	}
}

// Commands that read files of other servers or hosts read other files.
func TestShellsDiffer(t *testing.T) {
	const cat = `"command":"cat /a"`
	for _, c := range []struct {
		name, a, other, b string
		same              bool
	}{
		{"Bash", `{` + cat + `,"description":"x"}`, "run_command", `{` + cat + `,"timeout":9}`, true},
		{"mcp__a__run_command", `{` + cat + `}`, "mcp__b__run_command", `{` + cat + `}`, false},
		{"mcp__a__run_command", `{` + cat + `}`, "mcp__a__run_command", `{` + cat + `}`, true},
		{"mcp__a__run_command", `{` + cat + `}`, "Bash", `{` + cat + `}`, false},
		{"run_command", `{` + cat + `,"host":"a"}`, "run_command", `{` + cat + `,"host":"b"}`, false},
		{"run_command", `{` + cat + `,"target":"a"}`, "run_command", `{` + cat + `}`, false},
	} {
		a, b := factsOf(c.name, c.a), factsOf(c.other, c.b)
		if len(a.Shell) != 1 || len(b.Shell) != 1 {
			t.Fatalf("%s%s and %s%s are no reads", c.name, c.a, c.other, c.b)
		}
		if same := a.Shell[0].Range == b.Shell[0].Range; same != c.same {
			t.Errorf("%s%s and %s%s ask for the same: %v", c.name, c.a, c.other, c.b, same)
		}
	}
}

// Files of other servers, hosts and revisions are other files.
func TestPlaces(t *testing.T) {
	const path = `{"path":"a","content":"x"`
	for _, c := range []struct {
		name, a, other, b string
		same              bool
	}{
		{"write_file", path + `}`, "Read", `{"file_path":"a"}`, true},
		{"developer__write_file", path + `}`, "Read", `{"file_path":"a"}`, true},
		{"mcp__github__delete_file", `{"path":"a"}`, "Read", `{"file_path":"a"}`, false},
		{"mcp__fs__write_file", path + `}`, "mcp__fs__read_file", `{"path":"a"}`, true},
		{"fs.write_file", path + `}`, "fs.read_file", `{"path":"a"}`, true},
		{"mcp__fs__write_file", path + `,"container":"x"}`, "mcp__fs__read_file", `{"path":"a","container":"y"}`, false},
		{"mcp__fs__write_file", path + `,"container":"x"}`, "mcp__fs__read_file", `{"path":"a","container":"x"}`, true},
		{"write_file", path + `,"host":"x"}`, "read_file", `{"path":"a"}`, false},
	} {
		if same := factsOf(c.name, c.a).Place == factsOf(c.other, c.b).Place; same != c.same {
			t.Errorf("%s%s and %s%s are at one place: %v", c.name, c.a, c.other, c.b, same)
		}
	}
}

// A read of one file that also names others is not a read of that one.
func TestReadsOfMore(t *testing.T) {
	for _, input := range []string{
		`{"include":["a.txt","src/**/*.ts"]}`, `{"paths":["a.txt"],"include":["src/*"]}`, `{"include":["a.txt",7]}`,
		`{"files":[{"path":"a.txt"},{"uri":"b"}]}`, `{"paths":["a.txt"],"include":"b.txt"}`, `{"files":[{"path":"a.txt","path":"b"},"a.txt"]}`,
	} {
		if f := factsOf("read_many_files", input); f.Role != Read || f.Path != "" {
			t.Errorf("%s is a %s of %q", input, f.Role, f.Path)
		}
	}
}

// A command that may leave the shell elsewhere is told by a cd in it.
func TestMoves(t *testing.T) {
	for command, want := range map[string]bool{
		"cd /w": true, "ls; cd ..": true, "pushd a": true, "popd": true, "cd": true, "x\ncd a": true, "cat a": false, "abcdef": false, "ls": false,
	} {
		for _, name := range []string{"Bash", "mcp__s__bash", "write_stdin"} {
			if f := factsOf(name, `{"command":"`+command+`"}`); f.Moves != want {
				t.Errorf("%s of %q moves: %v", name, command, f.Moves)
			}
		}
	}
}

// Two reads cover the same part only if everything that chooses it is equal.
func TestRangesDiffer(t *testing.T) {
	same := func(name, a, other, b string) bool { return factsOf(name, a).Range == factsOf(other, b).Range }
	for _, c := range []struct {
		name, a, other, b string
		same              bool
	}{
		{"Read", `{"file_path":"a"}`, "read_file", `{"path":"a","offset":null}`, true},
		{"Read", `{"file_path":"a","offset":1,"limit":2}`, "Read", `{"limit":2,"offset":1,"file_path":"a"}`, true},
		{"Read", `{"file_path":"a"}`, "Read", `{"file_path":"a","offset":0}`, false},
		{"Read", `{"file_path":"a","offset":1}`, "Read", `{"file_path":"a","limit":1}`, false},
		{"Read", `{"file_path":"a"}`, "Read", `{"file_path":"a","pages":"1"}`, false},
		{"read_file", `{"file_path":"a","mode":"slice"}`, "read_file", `{"file_path":"a"}`, false},
		{"Read", `{"file_path":"a"}`, "get_file_text", `{"path":"a"}`, false},
		{"get_file_text", `{"path":"a"}`, "get_file_text", `{"path":"a"}`, true},
		{"get_file_text", `{"path":"a"}`, "show_file", `{"path":"a"}`, false},
		{"Read", `{"file_path":"a"}`, "mcp__git__read_file", `{"path":"a"}`, false},
		{"mcp__git__read_file", `{"path":"a","ref":"main"}`, "mcp__git__read_file", `{"path":"a","ref":"old"}`, false},
		{"mcp__git__read_file", `{"path":"a","ref":"main"}`, "mcp__git__read_file", `{"ref":"main","path":"a"}`, true},
		// Arguments of unknown meaning may say which part is read, or where.
		{"read_file", `{"path":"a","ref":"main"}`, "read_file", `{"path":"a","ref":"old"}`, false},
		{"read_file", `{"path":"a","offset":0,"length":9}`, "read_file", `{"path":"a","offset":0,"length":99}`, false},
		{"NotebookRead", `{"notebook_path":"a","cell_id":"1"}`, "NotebookRead", `{"notebook_path":"a","cell_id":"2"}`, false},
		{"read_files", `{"files":[{"path":"a","encoding":"x"}]}`, "read_files", `{"files":[{"path":"a"}]}`, false},
		{"read_file", `{"path":"a","explanation":"x"}`, "read_file", `{"path":"a","explanation":"y","task_progress":"z"}`, true},
	} {
		if same(c.name, c.a, c.other, c.b) != c.same {
			t.Errorf("%s%s and %s%s ask for the same: %v", c.name, c.a, c.other, c.b, !c.same)
		}
	}
}

package transcript

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// sameFacts compares facts but for what makes a read of a tool its own.
var sameFacts = []gocmp.Option{
	cmpopts.IgnoreUnexported(CallFacts{}), cmpopts.IgnoreUnexported(Range{}), cmpopts.EquateEmpty(),
}

// someCall is a call of a client.
func someCall() *rapid.Generator[wants] {
	var all []wants
	names := make([]string, 0, len(clients))
	for c := range clients {
		names = append(names, c)
	}
	slices.Sort(names)
	for _, c := range names {
		all = append(all, clients[c]...)
	}
	return rapid.SampledFrom(all)
}

// How a name is written does not matter, nor which server's tool it is, but for the place of its files.
func TestNamesAreFolded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := someCall().Draw(t, "call")
		want, ok := table[fold(strings.ToLower(w.name))]
		if !ok || strings.Contains(w.name, "__") || want.role == OtherTool && want.verbs == nil {
			return
		}
		name := w.name
		switch rapid.IntRange(0, 3).Draw(t, "case") {
		case 0:
			name = strings.ToUpper(name)
		case 1:
			name = strings.ToLower(name)
		case 2:
			name = strings.ReplaceAll(name, "_", "-")
		}
		prefix := rapid.SampledFrom([]string{"", "", "mcp__srv__", "mcp__my_srv__", "functions.", "developer__", "srv__"}).Draw(t, "prefix")
		got := factsOf(prefix+name, w.input)
		if other := strings.HasPrefix(prefix, "mcp__") || prefix == "srv__"; other && !strings.HasPrefix(got.Place, strings.TrimSuffix(prefix, "__")) {
			t.Fatalf("%s is at %q", prefix+name, got.Place)
		}
		got.Place = factsOf(w.name, w.input).Place
		if diff := gocmp.Diff(factsOf(w.name, w.input), got, sameFacts...); diff != "" {
			t.Fatalf("%s and %s with %s: %s", w.name, prefix+name, w.input, diff)
		}
	})
}

// A patch is the same patch in whatever it is handed over.
func TestPatchesAreTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		b.WriteString("*** Begin Patch\n")
		for range rapid.IntRange(0, 4).Draw(t, "files") {
			verb := rapid.SampledFrom([]string{"Update File", "Add File", "Delete File", "Move to", "End of File"}).Draw(t, "verb")
			name := rapid.StringMatching(`(/|\./)?[a-z]{1,3}(/[a-z ]{1,3}\.go)?`).Draw(t, "name")
			b.WriteString("*** " + verb + ": " + name + "\n@@\n-" + rapid.StringMatching(`[a-z*'"\\]{0,9}`).Draw(t, "line") + "\n+*** no\n")
		}
		b.WriteString("*** End Patch\n")
		patch := b.String()
		text, err := json.Marshal(patch)
		if err != nil {
			t.Fatal(err)
		}
		heredoc, err := json.Marshal("apply_patch <<'EOF'\n" + patch + "EOF\n")
		if err != nil {
			t.Fatal(err)
		}
		want := factsOf("apply_patch", patch)
		for _, c := range []struct{ name, input string }{
			{"apply_patch", string(text)},
			{"apply_patch", fmt.Sprintf(`{"input":%s}`, text)},
			{"ApplyPatch", fmt.Sprintf(`{"patch":%s}`, text)},
			{"patch", fmt.Sprintf(`{"patchText":%s}`, text)},
			{"apply_patch", fmt.Sprintf(`["apply_patch",%s]`, text)},
			{"shell", fmt.Sprintf(`{"command":["apply_patch",%s]}`, text)},
			{"shell", fmt.Sprintf(`{"command":["bash","-lc",%s]}`, heredoc)},
			{"exec_command", fmt.Sprintf(`{"cmd":%s}`, heredoc)},
			{"exec", fmt.Sprintf("const p = %s;\ntext(await tools.apply_patch(p));\n", text)},
			{"exec", fmt.Sprintf("const r = await tools.exec_command({cmd:%s}); text(r.output)", heredoc)},
		} {
			if diff := gocmp.Diff(want, factsOf(c.name, c.input), sameFacts...); diff != "" {
				t.Fatalf("%s %s: %s", c.name, c.input, diff)
			}
		}
	})
}

// Whatever the name and the input are: facts that hold, no more of them than the input has room for, and the same for arguments
// that are known to be JSON.
func FuzzFacts(f *testing.F) {
	for _, calls := range clients {
		for _, w := range calls {
			f.Add(w.name, w.input)
		}
	}
	f.Add("exec", "const patch = `*** Add File: a`; const r = await tools.apply_patch(patch); text(r)")
	roles, err := NewRoleTable([]RoleRule{{Name: "*x*", Role: Read, Path: "p", From: "f", To: "t"}, {Name: "run*", Role: Shell, Command: "p"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, name, input string) {
		if len(input) > maxFuzz || len(name) > 100 {
			return
		}
		for _, table := range []*RoleTable{nil, roles} {
			facts, why := table.classify(name, input, false)
			checkFacts(t, &facts)
			if n := len(facts.Files) + len(facts.Shell); n > len(input) {
				t.Fatalf("%d accesses in %d bytes", n, len(input))
			}
			if why == "" && facts.Role != OtherTool {
				t.Fatalf("%s is %s for no reason", name, facts.Role)
			}
			if json.Valid([]byte(input)) {
				again, _ := table.classify(name, input, true)
				if diff := gocmp.Diff(facts, again, cmpopts.EquateComparable(Range{}), gocmp.AllowUnexported(CallFacts{})); diff != "" {
					t.Fatal(diff)
				}
			}
		}
	})
}

// What a route says of tools counts before what is built in, in its order, and says which arguments matter.
func TestRules(t *testing.T) {
	roles, err := NewRoleTable([]RoleRule{
		{Name: "mcp__docs__get_*", Role: Read, Path: "uri", From: "first", To: "count"},
		{Name: "bash", Role: OtherTool},
		{Name: "kb_*", Role: Search},
		{Name: "KB_Save", Role: Write},
		{Name: "load_all", Role: Read, Path: "uris"},
		{Name: "remote", Role: Shell, Command: "script"},
		{Name: "fetch_source", Role: OtherTool},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, input, want string }{
		{"mcp__docs__get_page", `{"uri":"a/../b","first":3,"count":9,"path":"/no","offset":7}`, `read b "3, 9"  by rule mcp__docs__get_*`},
		{"MCP__Docs__get_page", `{"uri":"b"}`, `read b ""  by rule mcp__docs__get_*`},
		{"mcp__docs__get_page", `{"path":"b"}`, `read  ""  by rule mcp__docs__get_*`},
		{"mcp__docs__get_page", `{"uri":"a","uri":"b"}`, `read  ""  by rule mcp__docs__get_*; an argument stands twice`},
		{"mcp__docs__put_page", `{"uri":"b"}`, `other  ""  by `},
		{"Bash", `{"command":"cat a.go"}`, `other  ""  by rule bash`},
		{"kb_save", `{"path":"a","content":"x"}`, `search a ""  by rule kb_*`},
		{"load_all", `{"uris":["a",{"path":"b"},"c*"]}`, `read  "" r a; r b by rule load_all`},
		{"remote", `{"script":"cat a.go > b.go","command":"x"}`, `shell  "" w b.go by rule remote`},
		{"remote", `cat a.go`, `shell  "" r a.go by rule remote`},
		{"fetch_source", `{"path":"a"}`, `other a ""  by rule fetch_source`},
		{"Read", `{"file_path":"a"}`, `read a ""  by tool read`},
		{"look", `{"file_path":"a"}`, `read a ""  by its arguments: a path, and nothing that only editors and searches take`},
	} {
		f, why := roles.classify(c.name, c.input, false)
		got := fmt.Sprintf("%s %s %q %s by %s", f.Role, f.Path, f.Range, does(append(f.Files, f.Shell...)), why)
		if got != c.want {
			t.Errorf("%s%s\n got %s\nwant %s", c.name, c.input, got, c.want)
		}
	}
	ix := parse(t, []byte(`{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"kb_x","input":{}}]}]}`))
	defer ix.Release()
	if ix.Roles = roles; ix.CallFacts(0).Role != Search {
		t.Error("an index does not ask its table")
	}
	for _, name := range []string{"", "[", "a[", `a\`} {
		if _, err := NewRoleTable([]RoleRule{{Name: "a"}, {Name: name}}); err == nil || !strings.Contains(err.Error(), "rule 1: ") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// Two reads of a tool of the route's are the same only if everything that they say is.
func TestRulesReadTheirOwn(t *testing.T) {
	roles, err := NewRoleTable([]RoleRule{{Name: "get", Role: Read, Path: "uri"}})
	if err != nil {
		t.Fatal(err)
	}
	rng := func(name, input string) Range {
		f, _ := roles.classify(name, input, false)
		return f.Range
	}
	if rng("get", `{"uri":"a"}`) == rng("Read", `{"path":"a"}`) || rng("get", `{"uri":"a"}`) != rng("get", `{"uri":"b"}`) ||
		rng("get", `{"uri":"a","rev":1}`) == rng("get", `{"uri":"a","rev":2}`) {
		t.Error("reads are taken for each other")
	}
}

package transcript

import (
	"os"
	"path/filepath"
	"testing"
)

// shared is the folder of recorded requests of real clients; it is no part of the repository.
func shared() string {
	if dir := os.Getenv("TIDEMARK_SHARED"); dir != "" {
		return dir
	}
	return filepath.Join("..", "..", "..", "shared")
}

// Every request that a real client sent is read, every span of it holds, and every result answers a call.
func TestCaptures(t *testing.T) {
	for _, client := range []string{"claude", "opencode"} {
		t.Run(client, func(t *testing.T) {
			pattern := filepath.Join(shared(), "captures", client, "*.body.json")
			files, err := filepath.Glob(pattern)
			if err != nil {
				t.Fatal(err)
			}
			if len(files) == 0 {
				t.Skipf("no recorded requests: nothing matches %s; set TIDEMARK_SHARED", pattern)
			}
			roles, markers := map[ToolRole]int{}, 0
			for _, f := range files {
				body, err := os.ReadFile(f)
				if err != nil {
					t.Fatal(err)
				}
				ix := parse(t, body)
				for i := range ix.Results {
					r := &ix.Results[i]
					if r.Call < 0 || r.Ambiguous || r.Form == StrangeForm {
						t.Errorf("%s: result %d answers call %d, ambiguous %v, form %d", f, i, r.Call, r.Ambiguous, r.Form)
					}
				}
				for c := range ix.Calls {
					facts := ix.CallFacts(int32(c))
					roles[facts.Role]++
					if (facts.Role == Read || facts.Role.Changes()) && facts.Path == "" {
						t.Errorf("%s: %s of no path", f, ix.ToolName(&ix.Calls[c]))
					}
				}
				markers += len(ix.Markers)
				ix.Release()
			}
			if roles[Read] == 0 || roles[Edit] == 0 || roles[Shell] == 0 || markers == 0 {
				t.Errorf("calls by role %v and %d breakpoints in %d requests", roles, markers, len(files))
			}
		})
	}
}

//go:build unix

package clients_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// verb is what the model wants a client to do.
type verb int

const (
	say verb = iota // words, and with nothing else the end of the turn
	read
	edit
	shell
	search
	find    // the tool that gives originals back, where the client hides it
	restore // an original
)

// act is one thing that the model does, in the words of no client.
type act struct {
	verb     verb
	path     string // of read, edit and search
	old, new string // of edit
	text     string // words, a command, what is searched, or the id of what is restored
	tool     string // that restores, as the client calls it
}

// step is one answer of the model to a conversation.
type step func(c *conversation) []act

// script is a task: what the user says and what the model does then, turn by turn. Its last step of a turn says something.
type script struct {
	prompts []string
	turns   [][]step
	idle    []int // after so many answers a pause passes too, in the middle of a turn
}

// prompts are what the user says in the task of all clients.
var prompts = []string{"The limiter counts some requests twice. Mend it and say what you did.", "Good. Now raise the limit once more and check the sum of all files."}

// at is the answer to a conversation. After the script's end there is nothing to say.
func (s *script) at(c *conversation) []act {
	answers := c.answers
	for _, turn := range s.turns {
		if answers < len(turn) {
			return turn[answers](c)
		}
		answers -= len(turn)
	}
	return words("The script is over.")
}

// steps is how many answers the script has.
func (s *script) steps() (n int) {
	for _, turn := range s.turns {
		n += len(turn)
	}
	return n
}

// task is the script of all clients. Reads are outdated by edits and repeated, some with no change between them; what an edit says
// comes from the read before it, and the last words come from the last command.
func task() *script {
	first := []step{
		does(act{verb: shell, text: noise(40)}),
		does(act{verb: read, path: "limit.go"}),
		raises("limit.go", "limit"),
		does(act{verb: read, path: "store.go"}, act{verb: read, path: "handler.go"}),
		does(act{verb: search, path: "store.go", text: "step_7"}),
		does(act{verb: read, path: "limit.go"}),
		raises("limit.go", "limit"),
		does(act{verb: shell, text: noise(60)}),
		does(act{verb: read, path: "store.go"}),
		raises("store.go", "shards"),
		does(act{verb: shell, text: noise(50)}),
		does(act{verb: read, path: "handler.go"}),
		does(act{verb: say, text: "The limiter counts once now."}),
	}
	second := []step{
		does(act{verb: read, path: "limit.go"}),
		raises("limit.go", "limit"),
		does(act{verb: read, path: "handler.go"}),
		raises("handler.go", "retries"),
		does(act{verb: shell, text: "cat limit.go store.go handler.go | cksum"}),
		func(c *conversation) []act {
			sum := checksum.FindString(c.seen)
			if sum == "" {
				return words("The sum is not there: " + c.seen)
			}
			return words("The sum is " + sum + ".")
		},
	}
	return &script{prompts: prompts, turns: [][]step{first, second}}
}

var checksum = regexp.MustCompile(`\b\d{5,} \d+\b`)

func words(text string) []act { return []act{{verb: say, text: text}} }

func does(acts ...act) step { return func(*conversation) []act { return acts } }

// noise is a command that prints some lines.
func noise(lines int) string {
	return fmt.Sprintf("for i in $(seq 1 %d); do echo \"--- PASS: Test%d_$i in the package of the limiter, as it should\"; done", lines, lines)
}

// raises adds one to a constant, whose value it takes from the newest results.
func raises(path, name string) step {
	value := regexp.MustCompile("const " + name + ` = (\d+)`)
	return func(c *conversation) []act {
		found := value.FindStringSubmatch(c.seen)
		if found == nil {
			return words(path + " was not shown, but: " + c.seen)
		}
		n, err := strconv.Atoi(found[1])
		if err != nil {
			return words(err.Error())
		}
		return []act{{verb: edit, path: path, old: found[0], new: fmt.Sprintf("const %s = %d", name, n+1)}}
	}
}

// plant writes the files that the task is about.
func plant(t *testing.T, dir string) {
	t.Helper()
	for name, constant := range map[string]string{"limit.go": "limit", "store.go": "shards", "handler.go": "retries"} {
		var b strings.Builder
		fmt.Fprintf(&b, "package limiter\n\nconst %s = 10\n\n", constant)
		for i := range 90 {
			fmt.Fprintf(&b, "func %s_step_%d(ctx context.Context) error { return add(ctx, \"%s <b>ü\\n\", %d) }\n", constant, i, name, i)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// harvest reads the files of a folder, by name.
func harvest(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(b)
	}
	return files
}

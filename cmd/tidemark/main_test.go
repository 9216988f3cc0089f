package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tidemark-dev/tidemark/internal/serverconfig"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"tidemark": main})
}

// TestScripts runs testdata/script. ADMIN and LISTEN are free addresses. "ready" waits for the server at ADMIN, "fetch" gets
// a path from it, "fetch-until" waits until a path answers with a match, "exits" runs a command that ends with a
// code, "signal" sends HUP or TERM to the servers.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			for _, name := range []string{"ADMIN", "LISTEN"} {
				addr, err := free()
				if err != nil {
					return err
				}
				e.Setenv(name, addr)
			}
			e.Setenv(serverconfig.EnvName("restore.listen"), "127.0.0.1:0") // several servers run at once
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"ready":       cmdReady,
			"fetch":       cmdFetch,
			"fetch-until": cmdFetchUntil,
			"exits":       cmdExits,
			"signal":      cmdSignal,
		},
	})
}

// eventually tries until it is so, for longer than anything takes here.
func eventually(ts *testscript.TestScript, so func() error) {
	var err error
	for range 400 {
		if err = so(); err == nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	ts.Fatalf("never: %v", err)
}

func cmdReady(ts *testscript.TestScript, _ bool, _ []string) {
	eventually(ts, func() error { return ready(context.Background(), &serverconfig.Admin{Listen: ts.Getenv("ADMIN")}) })
}

func get(ts *testscript.TestScript, path string) (string, error) {
	r, err := http.Get("http://" + ts.Getenv("ADMIN") + path)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	return string(text), err
}

func cmdFetch(ts *testscript.TestScript, _ bool, args []string) {
	text, err := get(ts, args[0])
	ts.Check(err)
	_, err = fmt.Fprint(ts.Stdout(), text)
	ts.Check(err)
}

func cmdFetchUntil(ts *testscript.TestScript, _ bool, args []string) {
	eventually(ts, func() error {
		text, err := get(ts, args[0])
		if err != nil || regexp.MustCompile(args[1]).MatchString(text) {
			return err
		}
		return errors.New("no match")
	})
}

func cmdSignal(ts *testscript.TestScript, _ bool, args []string) {
	signals := map[string]os.Signal{"HUP": syscall.SIGHUP, "TERM": syscall.SIGTERM}
	for _, c := range ts.BackgroundCmds() {
		ts.Check(c.Process.Signal(signals[args[0]]))
	}
}

func cmdExits(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || strconv.Itoa(exit.ExitCode()) != args[0] {
		ts.Fatalf("want exit code %s, got %v", args[0], err)
	}
}

// free is an address that nobody listens on, and that nobody was told before.
func free() (string, error) {
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		address := l.Addr().String()
		if _, told := handedOut.LoadOrStore(address, true); told {
			_ = l.Close()
			continue
		}
		return address, l.Close()
	}
}

var handedOut sync.Map

// Every flag of the config names the variable that stands for the same key.
func TestFlagsNameTheirVariables(t *testing.T) {
	typ := reflect.TypeFor[configFlags]()
	for f := range typ.Fields() {
		var name strings.Builder
		for j, r := range f.Name {
			if j > 0 && r >= 'A' && r <= 'Z' {
				name.WriteByte('_')
			}
			name.WriteRune(r)
		}
		if want := "($$" + serverconfig.EnvName(name.String()) + ")"; !strings.Contains(f.Tag.Get("help"), want) {
			t.Errorf("the help of %s does not name %s", f.Name, want)
		}
	}
	flags := configFlags{Listen: new(string), AdminListen: new(string), RestoreListen: new(string), State: new(string), LogLevel: new(string), LogFormat: new(string)}
	if got := len(flags.sources().Flags); got != typ.NumField()-1 {
		t.Errorf("%d of %d flags count", got, typ.NumField()-1)
	}
}

func TestUnknownFlagIsUsage(t *testing.T) {
	stderr := os.Stderr
	defer func() { os.Stderr = stderr }()
	os.Stderr = nil
	if code := run([]string{"check", "--nope"}); code != exitUsage {
		t.Errorf("exit code %d", code)
	}
}

// Command tidemark shrinks the transcripts that LLM agents send through Envoy, and keeps the provider's cache warm while it
// does. Every command is flags and then a call of a library.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/tidemark-dev/tidemark/filters/all"
	"github.com/tidemark-dev/tidemark/internal/routeconfig"
	"github.com/tidemark-dev/tidemark/internal/serverconfig"
)

// commands are tidemark's commands. A command is a struct of flags with a method Run.
type commands struct {
	Serve        serveCommand        `cmd:"" help:"Serve Envoy as an ext_proc filter."`
	Check        checkCommand        `cmd:"" help:"Check tidemark's config and Envoy's before they are deployed."`
	Demo         demoCommand         `cmd:"" help:"Play a coding session through a real Envoy, four ways."`
	Replay       replayCommand       `cmd:"" help:"Play recorded sessions through the engine and report what it did."`
	Explain      explainCommand      `cmd:"" help:"Say what was done to each result of one request, and why not to the others."`
	Top          topCommand          `cmd:"" help:"Show sessions, cache losses and gates of a running server in the terminal."`
	Health       healthCommand       `cmd:"" help:"Ask a running server whether it is ready; for container probes."`
	Doctor       doctorCommand       `cmd:"" help:"Look at a running Envoy and a running tidemark, and say what is wrong."`
	DemoFilter   demoFilterCommand   `cmd:"" hidden:""`
	DemoProvider demoProviderCommand `cmd:"" hidden:""`
	DemoClient   demoClientCommand   `cmd:"" hidden:""`
	Version      kong.VersionFlag    `help:"Print the version."`
}

// Exit codes.
const (
	exitFailed = 1 // the answer is no: findings, not ready, the server failed
	exitUsage  = 2 // the question cannot be answered: flags, files
)

// exitError ends the command with a code; err may be nil if everything was said.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func main() { os.Exit(run(os.Args[1:])) }

// run parses the arguments and runs the command. It returns the exit code.
func run(args []string) int {
	var c commands
	parser, err := kong.New(&c, kong.Name("tidemark"), kong.Vars{"version": version()},
		kong.Description("Smaller transcripts for LLM agents behind Envoy, with a warm prompt cache."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}))
	if err != nil {
		fmt.Fprintln(os.Stderr, "tidemark:", err)
		return exitUsage
	}
	ctx, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "tidemark:", err)
		return exitUsage
	}
	err = ctx.Run()
	if err == nil {
		return 0
	}
	code := exitFailed
	if e := (*exitError)(nil); errors.As(err, &e) {
		code = e.code
	}
	if err.Error() != "" {
		fmt.Fprintln(os.Stderr, "tidemark:", complaint(err))
	}
	return code
}

// complaint is an error in lines without what a terminal obeys: a server's certificate, or its answer, may be quoted in it.
func complaint(err error) string {
	lines := strings.Split(err.Error(), "\n")
	for i, line := range lines {
		lines[i] = printable(line)
	}
	return strings.Join(lines, "\n")
}

// release is set by the linker for releases.
var release string

// version is the release, or else the version of the module that was built.
func version() string {
	if release != "" {
		return release
	}
	if b, ok := debug.ReadBuildInfo(); ok && b.Main.Version != "" {
		return b.Main.Version
	}
	return "unknown"
}

// configFlags are the flags that every command with the server's config has. Each key has an environment variable too.
type configFlags struct {
	Config        string  `help:"File with the server's config ($$TIDEMARK_CONFIG)." placeholder:"FILE" env:"TIDEMARK_CONFIG"`
	Listen        *string `help:"Address of the ext_proc service ($$TIDEMARK_LISTEN)." placeholder:"ADDR"`
	AdminListen   *string `help:"Address of the admin endpoints ($$TIDEMARK_ADMIN_LISTEN)." placeholder:"ADDR"`
	RestoreListen *string `help:"Address of the restore endpoints, empty for none ($$TIDEMARK_RESTORE_LISTEN)." placeholder:"ADDR"`
	State         *string `help:"Directory of the state store, or memory: ($$TIDEMARK_STATE)." placeholder:"DIR"`
	LogLevel      *string `help:"debug, info, warn or error ($$TIDEMARK_LOG_LEVEL)." placeholder:"LEVEL"`
	LogFormat     *string `help:"text or json ($$TIDEMARK_LOG_FORMAT)." placeholder:"FORMAT"`
}

// sources are where the config comes from.
func (f *configFlags) sources() serverconfig.Sources {
	flags := map[string]string{}
	for key, v := range map[string]*string{
		"listen": f.Listen, "admin.listen": f.AdminListen, "restore.listen": f.RestoreListen, "state": f.State, "log.level": f.LogLevel, "log.format": f.LogFormat,
	} {
		if v != nil {
			flags[key] = *v
		}
	}
	return serverconfig.Sources{File: f.Config, Env: os.LookupEnv, Flags: flags, Filters: knownFilters()}
}

// knownFilters are the filters that config can name.
func knownFilters() []routeconfig.Filter {
	specs := all.Specs()
	out := make([]routeconfig.Filter, len(specs))
	for i, s := range specs {
		out[i] = routeconfig.Filter(s)
	}
	return out
}

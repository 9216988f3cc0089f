package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/tidemark-dev/tidemark/internal/board/top"
)

type topCommand struct {
	Admin     string        `help:"Admin listener of the server: http://HOST:PORT, https://HOST:PORT or unix:PATH." default:"http://127.0.0.1:9003" placeholder:"URL"`
	TokenFile string        `help:"File whose first line is a token of admin.token_file." placeholder:"FILE"`
	Sort      string        `help:"Order of sessions: worst, recent, cost or losses." enum:"worst,recent,cost,losses" default:"worst"`
	Interval  time.Duration `help:"How often to ask." default:"2s"`
	Once      bool          `help:"Print once and end; so it does where the output is no terminal."`
}

// Escape sequences of the terminal: another screen without a cursor, and back; to the top; the rest of a line, and of the screen.
const (
	screenOn, screenOff = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
	home, rest          = "\x1b[H", "\x1b[K\x1b[J"
)

// askFor is how long a server may take, and askMost how many sessions are asked for.
const (
	askFor  = 10 * time.Second
	askMost = 200
)

// Run shows sessions until it is interrupted, or once.
func (c *topCommand) Run() error {
	token, err := firstToken(c.TokenFile)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	client, err := top.NewClient(c.Admin, token)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	if c.Interval < 100*time.Millisecond {
		return &exitError{exitUsage, errors.New("--interval must be at least 100ms")}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	fd := int(os.Stdout.Fd()) //nolint:gosec // a file descriptor is small
	if c.Once || !term.IsTerminal(fd) {
		return c.show(ctx, os.Stdout, client, top.Size{Width: width(fd)}, term.IsTerminal(fd) && coloured())
	}
	_, _ = os.Stdout.WriteString(screenOn) // a terminal that went away ends the loop below
	defer func() { _, _ = os.Stdout.WriteString(screenOff) }()
	for {
		w, h, err := term.GetSize(fd)
		if err != nil {
			return fmt.Errorf("look at the terminal: %w", err)
		}
		if err := c.show(ctx, &redraw{os.Stdout}, client, top.Size{Width: w, Height: h}, coloured()); err != nil && ctx.Err() == nil {
			_, _ = (&redraw{os.Stdout}).Write([]byte(complaint(err) + "\n")) // it is asked again
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(c.Interval):
		}
	}
}

// show asks and writes once.
func (c *topCommand) show(ctx context.Context, w io.Writer, client *top.Client, size top.Size, colour bool) error {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	page, err := client.Sessions(ctx, c.Sort, askMost)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Admin, err)
	}
	if _, err := io.WriteString(w, top.Text(page, size, colour)); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// redraw writes each text over the one before, without a flicker: lines are cleared as they are written.
type redraw struct{ to io.Writer }

func (r *redraw) Write(text []byte) (int, error) {
	out := []byte(home)
	for _, c := range text {
		if c == '\n' {
			out = append(out, "\x1b[K\r"...)
		}
		out = append(out, c)
	}
	if _, err := r.to.Write(append(out, rest...)); err != nil {
		return 0, err //nolint:wrapcheck // it is a writer
	}
	return len(text), nil
}

// coloured reports whether colours are wanted: see no-color.org.
func coloured() bool { return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" }

// wideEnough is the width of what is no terminal.
const wideEnough = 140

func width(fd int) int {
	if w, _, err := term.GetSize(fd); err == nil {
		return w
	}
	return wideEnough
}

// Package archtest holds tests of the shape of the code: which package may import which, that every package says what it
// is for, that files stay small, and that the docs name tests that exist. It has no code of its own.
package archtest

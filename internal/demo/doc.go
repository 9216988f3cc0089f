// Package demo plays one coding session through a real Envoy three ways: as it is, with stale reads removed on every turn,
// and through tidemark. A provider simulator keeps the prompt cache and the bill of each.
//
// [Run] prints what happens and fails if anything that it shows does not hold, so the demo is a test.
package demo

// Package demo plays one coding session with a person's pauses through a real Envoy: as it is, with stale reads removed on
// every turn, and through tidemark's presets lossless and default. A provider simulator keeps the prompt cache and the bill
// of each.
//
// [Run] prints what happens and fails if anything that it shows does not hold, so the demo is a test.
package demo

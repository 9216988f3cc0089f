// Package simkit is what the simulators of providers have in common and no provider's law decides: JSON values and their
// digests, the headers that steer a request, compressed bodies and answers, the log, and what is kept for a time.
//
// Like the simulators it shares no code with the rest of tidemark.
package simkit

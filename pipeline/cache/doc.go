// Package cache models what a provider's prompt cache holds for one conversation branch.
//
// The provider keeps prefixes of tools → system → messages. An [Entry] stands for one of them: the prefix that ended at
// a breakpoint of something that was forwarded. Entries are an upper bound: whatever may be cached has one, so a position
// deeper than every live entry is proven cold.
//
// The package is a leaf: it imports nothing of ours, holds no clock (time comes with the request) and no lock.
package cache

// Package cache models what a provider's prompt cache holds for one conversation branch.
//
// The provider keeps prefixes of tools → system → messages. An [Entry] stands for one of them: the prefix that ended at
// a breakpoint of something that was forwarded. Entries are an upper bound: whatever may be cached has one, so a position
// deeper than every live entry is proven cold.
//
// A [Table] says what a model's tokens cost, and the sums of cost.go what a change of cached bytes costs and saves. Their
// units are tokens, and prices as multiples of one uncached input token.
//
// The package is a leaf: it imports nothing of ours and holds no clock (time comes with the request). Entries hold no lock;
// a table is immutable but for the names it remembers, and may be shared.
package cache

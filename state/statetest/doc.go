// Package statetest holds what every store must show and what tests need of one.
//
// [Run], [RunCapped] and [Reopen] are the conformance suite: they take a way to open a store and check the contract of
// [state.Store] on it, against the definition, a model of it, or the store in memory. [Branches] and [Originals] draw whatever
// a store may be asked to keep. [Faulty] puts faults in front of any store.
package statetest

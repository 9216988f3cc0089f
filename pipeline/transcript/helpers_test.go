package transcript

// factsOf is what the built-in table says of a call.
func factsOf(name, input string) CallFacts {
	f, _ := (*RoleTable)(nil).classify(name, input, false)
	return f
}

// shellAccess is what a command does.
func shellAccess(command, dir string, alone bool) []Access {
	found, _ := runCommand(command, dir, alone)
	return found
}

// Package config reads the one YAML file that says how a gate is set up.
//
// A configuration is taken whole or not at all. [Load] parses the file, replaces ${NAME} in string
// values by the environment, decodes it strictly, fills in defaults and checks everything that can be
// checked without a network: that secrets are long enough and not shared, that names, ids,
// addresses, schedules and time zones are what they claim to be, that the policy compiles, and that
// an approver can be reached. It does not stop at the first mistake: each [Problem] says file, line and
// column, the way compilers do, and what to write instead. A problem that is only a warning leaves the
// configuration usable.
//
// The environment enters after parsing, so that a variable's value is always one string and can never
// add a key. Secrets are kept in a type that does not print.
//
// What the MCP servers' require_approval and prompts say is made into rules of the policy, behind its own,
// so that there is one list of rules and one explanation of it.
//
// The sections of a platform are decoded into the Config struct that the platform's own package
// declares, and the policy by the package policy; this package only puts them together and checks what
// concerns more than one of them.
package config

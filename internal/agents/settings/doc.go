// Package settings puts the gate's hooks into the settings of coding agents, and takes them out.
//
// A settings file is the user's. Only our own entries are added, brought up to date or removed; every other
// setting, comment, space and the order of all stay as they are, and a file that is not understood is left
// alone. Nothing is written before it was shown: [Settings.Add] and [Settings.Remove] work on bytes, and a
// [Change] knows its difference and how to become true, whole or not at all.
//
// An agent that can edit files could also edit what holds it. [Guard] puts the line into a configuration that
// has calls asked about which name the gate's files or the agents' settings, and [Unguard] takes it out.
package settings

package testkit

var CommandWithin = command

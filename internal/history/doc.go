// Package history says what the record of calls tells: how often people were asked, and how long they took ([Stats]),
// which rules would have spared them ([Suggest]), and what another policy would have done ([Replay]). It decides
// nothing and changes nothing, and reads in steps, so that a large store holds up no caller.
package history

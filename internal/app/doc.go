// Package app builds the program out of its parts, starts it and stops it. It is the only place that
// knows concrete types: everything else meets in the types of package approval.
//
// New opens the store and binds the listeners, so that what cannot work fails before anything is
// served. Start serves. Stop takes the parts down in the opposite order of their building: no more
// requests are taken and those in hand are answered, long polls among them; the cron table stops;
// sends in flight are finished and recorded; the store closes last. What was not finished is a row,
// and goes on at the next start.
//
// Reload puts a changed configuration in force whole or not at all. Agents, people, channels and the
// policy change while the program runs; addresses and the store need a restart, and it says so.
//
// App holds the parts; what belongs to one noun is a type beside it: the listeners, the receivers of webhooks, the
// platforms, the door that agents come in by, the links and sessions of those who sign in, the reloader, and health,
// which asks every part how it does. What the gate, the outbox and the chat ask inside their transactions (directory,
// routing, chatReaders) is answered from the configuration in force, in memory.
package app

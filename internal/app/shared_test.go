//go:build postgres

package app

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"countersign/approval"
	"countersign/internal/store/postgres"
)

// shared are the URLs of the databases that tests have their programs use, by the file that is configured.
var shared sync.Map

// Share has the programs that are configured for a file use a database.
func Share(file, url string) { shared.Store(file, url) }

func init() {
	openFile := openStore
	openStore = func(ctx context.Context, a *App, broker *approval.Broker) (database, error) {
		url, ok := shared.Load(a.o.Config.StorePath)
		if !ok {
			return openFile(ctx, a, broker)
		}
		d, err := postgres.Open(ctx, postgres.Options{URL: url.(string), Logger: a.logger("store"),
			OnCommit: a.committed(broker), BeforeCommit: broker.BeforeCommit, OnNews: broker.Publish,
			Restored: func(ctx context.Context, tx approval.Tx) error { return a.gate.In(ctx, tx).Freezes().Restored() }})
		if err != nil {
			return nil, err
		}
		return server{d}, nil
	}
}

// server is a store that several programs share.
type server struct{ *postgres.DB }

func (s server) Ping(ctx context.Context) error {
	return s.Update(ctx, approval.OfNothing(), func(approval.Tx) error { return nil })
}
func (server) Problems() []string                   { return nil }
func (server) Ahead() time.Duration                 { return 0 }
func (server) WasRestored() bool                    { return false }
func (server) AcceptRestored(context.Context) error { return nil }
func (server) others() time.Duration                { return time.Second }
func (server) keep(context.Context, *slog.Logger)   {}

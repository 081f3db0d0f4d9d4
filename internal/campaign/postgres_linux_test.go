//go:build postgres

package campaign_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"countersign/internal/campaign"
	"countersign/internal/store/postgres/postgrestest"
)

func init() { hasPostgreSQL = true }

// shared is a database on a server of the test's own, with a way there for each program.
type shared struct {
	server *postgrestest.Server
	direct string
	ways   []*postgrestest.Proxy
}

func (s *shared) reach(n int) string { return s.ways[n].URL + "&pool_max_conns=8" }

func (s *shared) setClock(t testing.TB, off time.Duration) {
	t.Helper()
	postgrestest.SetClock(t, s.direct, off)
}

func (s *shared) fault(w *world, r *rand.Rand, kind string, p *program) {
	switch kind {
	case "cut":
		s.cut(w, r, s.ways[p.n])
	case "stall": // all of it comes later
		s.ways[p.n].Stall()
		w.pause(r, 3*time.Second)
		s.ways[p.n].Resume()
	case "backends":
		if err := s.server.Execute(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
  WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`); err != nil {
			w.t.Errorf("backends: %v", err)
		}
	case "server":
		s.restart(w, r)
	default:
		w.t.Errorf("there is no fault %s", kind)
	}
}

// cut parts a program from its database for a while: what is on its way is lost, on both ways or on one.
func (s *shared) cut(w *world, r *rand.Rand, way *postgrestest.Proxy) {
	switch r.IntN(4) {
	case 0:
		way.Set(true, false, true)
	case 1:
		way.Set(false, true, true) // what the database has done is not told
	case 2:
		way.Set(true, true, true)
	default:
		way.Set(false, false, true) // at once, and nothing new
		way.Cut()
	}
	w.pause(r, 3*time.Second)
	way.Cut()
	way.Set(false, false, false)
}

// restart has the server end, in order or as a loss of power ends it, and begin anew.
func (s *shared) restart(w *world, r *rand.Rand) {
	how, began := postgrestest.Stopped, time.Since(w.began)
	if r.IntN(2) == 0 {
		how = postgrestest.Crashed
		w.faulted("server crashed")
	}
	s.server.Restart(w.t, how)
	if how == postgrestest.Crashed {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.history.Outages = append(w.history.Outages, campaign.Outage{Start: began, End: time.Since(w.began)})
	}
}

// TestCampaignOnPostgreSQL is TestCampaign with three programs that share a database, which has faults of its own.
func TestCampaignOnPostgreSQL(t *testing.T) {
	server, err := postgrestest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	on := flavour{programs: 3, faults: []string{"kill", "die", "stop", "slow", "restart", "skew", "cut", "stall",
		"backends", "server", "platforms", "webhooks", "clock", "reload", "servers"}}
	on.open = func(t testing.TB) database {
		s := &shared{server: server, direct: server.Database(t, "")}
		s.setClock(t, 0)
		for range on.programs {
			s.ways = append(s.ways, postgrestest.NewProxy(t, s.direct))
		}
		return s
	}
	campaignOn(t, on, 15*time.Second)
}

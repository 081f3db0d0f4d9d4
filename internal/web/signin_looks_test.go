//go:build browser

package web

import "countersign/internal/auth/signin"

var (
	_ = addLooks("signin", "", pathSignIn, nil)
	_ = addLooks("signin-link", "", pathLink+"?t=%s", func(w *world) { w.asked = w.link("hana", "line") })
	_ = addLooks("sessions", "hana", pathSessions, func(w *world) {
		if _, _, err := w.signIns.Start(w.ctx, "hana", signin.MethodPasskey, "", signin.Origin{Address: "192.0.2.7",
			UserAgent: "Mozilla/5.0"}); err != nil {
			w.t.Fatal(err)
		}
	})
)

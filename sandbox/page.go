package sandbox

import "net/http"

func (s *Sandbox) pageRoutes(mux *http.ServeMux) {
}

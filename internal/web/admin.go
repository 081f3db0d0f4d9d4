package web

import "slices"

// adminRoutes are the pages around the inbox that approvers and admins see.
func (s *Server) adminRoutes() []route {
	return slices.Concat(s.grantsRoutes(), s.peopleRoutes(), s.statsRoutes(), s.policyRoutes(), s.statusRoutes())
}

package e2e

// mustHaveBooked asserts how many calls of the job cost us something, and how often its owner
// was charged.
func (s *system) mustHaveBooked(jobID string, costs, charges int) {
	s.t.Helper()
	for kind, want := range map[string]int{"cost": costs, "charge": charges} {
		if n := s.count(`SELECT count(*) FROM ledger WHERE job_id = $1 AND kind = $2`, jobID, kind); n != want {
			s.t.Errorf("the ledger has %d entries of kind %s about the job, want %d", n, kind, want)
		}
	}
}

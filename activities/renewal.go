package activities

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/onejob/onejob/postgres"
)

// Renewals are the certifications that are due.
type Renewals struct {
	Due []Renewal `json:"due"`
}

// Renewal is a certificate that expires soon, and the run that is to renew it.
type Renewal struct {
	CertificationInput
	Contract string `json:"contract"` // kind
}

// How long before its end a certificate is renewed, warned of and tried again, as parts of its
// life.
const (
	renewedIn = 4  // from the last quarter on
	warnedIn  = 8  // in the last eighth: nothing has renewed it
	triedIn   = 32 // no sooner after the last try
)

// RenewalsDue returns which certificates of the kinds' contracts are to be renewed, and shows and
// warns of those that expire. One that was revoked or suspended is renewed by nobody but people,
// and so is one of another model or adapter than the configured one: it proves nothing any more.
func (a *Activities) RenewalsDue(ctx context.Context) (Renewals, error) {
	due, err := a.renewalsDue(ctx)
	return Renewals{Due: due}, TemporalError(err)
}

func (a *Activities) renewalsDue(ctx context.Context) (due []Renewal, err error) {
	due = []Renewal{}
	hashes := []string{}
	for _, c := range a.Contracts {
		hashes = append(hashes, c.SHA256)
	}
	now, err := a.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	standing, err := a.Store.StandingCertificates(ctx, hashes)
	if err != nil {
		return nil, err
	}
	a.Observer.CertificatesStand(standing)
	for _, c := range standing {
		if p, ok := a.Providers.Get(c.Provider); !ok || p.Model != c.Model || p.AdapterVersion() != c.Adapter {
			continue
		}
		life, left := c.ExpiresAt.Sub(c.PassedAt), c.ExpiresAt.Sub(now)
		if left < life/warnedIn {
			a.Logger.Warn("a certificate expires and was not renewed: without it no job falls back to the provider; run 'onejob contract verify'",
				"certificate", c.ID, "kind", c.Contract, "provider", c.Provider, "expires_at", c.ExpiresAt)
		}
		if left >= life/renewedIn {
			continue
		}
		last, err := a.Store.LastCertificationStart(ctx, c.ContractSHA256, c.Provider)
		if err != nil {
			return nil, err
		}
		if now.Sub(last) >= max(life/triedIn, time.Minute) {
			due = append(due, renewalOf(c))
		}
	}
	return due, nil
}

func renewalOf(c postgres.Certificate) Renewal {
	return Renewal{
		CertificationInput: CertificationInput{RunID: uuid.NewString(), ContractSHA256: c.ContractSHA256, Provider: c.Provider, RequestedBy: "schedule"},
		Contract:           c.Contract,
	}
}

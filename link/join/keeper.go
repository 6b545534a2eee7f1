// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"crypto/x509"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// minRenewPause is the least time between attempts to renew, retryPause the usual one after a failure. Both are made longer by
	// up to half.
	minRenewPause = 10 * time.Second
	retryPause    = 2 * time.Minute
	renewJitter   = 0.5
	// maxNap is how long it sleeps at most before it looks at the time again. Timers do not run while the machine is suspended, and a clock that
	// is put right moves none of them.
	maxNap = time.Hour
	// renewalsPerLife is how often a certificate is renewed within its life at most, whatever this machine's clock says: one that is wrong
	// lets each new certificate look as old as the former.
	renewalsPerLife = 32
)

// KeeperOptions say how a host keeps its certificate good.
type KeeperOptions struct {
	Files Files
	// Renew asks for another one for the name.
	Renew func(ctx context.Context, name string) (*Identity, error)
	// Logger may be nil.
	Logger *slog.Logger
}

// Keeper renews the certificate of a host while it is good.
type Keeper struct{ o KeeperOptions }

// NewKeeper returns a keeper, which does nothing before Run.
func NewKeeper(o KeeperOptions) *Keeper {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Keeper{o: o}
}

// Run renews in time until ctx ends. It disturbs no connection: new files are for the next one.
func (k *Keeper) Run(ctx context.Context) {
	pause := minRenewPause // what is left of the one after the last attempt
	for {
		cert, err := k.o.Files.Leaf()
		var left time.Duration
		if err != nil {
			k.o.Logger.Error("the host's certificate cannot be renewed", "error", err)
			left = retryPause
		} else {
			left = max(pause, k.untilRenewal(cert))
		}
		nap := min(left, maxNap)
		if !k.sleep(ctx, wait.Jitter(nap, renewJitter)) {
			return
		}
		pause = max(0, pause-nap)
		switch {
		case cert == nil, nap < left:
		case k.renew(ctx, cert):
			pause = max(minRenewPause, lifeOf(cert)/renewalsPerLife)
		default:
			pause = retryPause
		}
	}
}

// sleep says whether to go on.
func (k *Keeper) sleep(ctx context.Context, how time.Duration) bool {
	timer := k.o.Files.Clock.NewTimer(how)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-ctx.Done():
		return false
	}
}

func lifeOf(cert *x509.Certificate) time.Duration { return cert.NotAfter.Sub(cert.NotBefore) }

// untilRenewal is the time until a third of a certificate's is left. By a clock that is behind its beginning that cannot be told: then
// it is now, rather than too late.
func (k *Keeper) untilRenewal(cert *x509.Certificate) time.Duration {
	now := k.o.Files.Clock.Now()
	if now.Before(cert.NotBefore) {
		return 0
	}
	return cert.NotAfter.Add(-lifeOf(cert) / 3).Sub(now)
}

func (k *Keeper) renew(ctx context.Context, cert *x509.Certificate) bool {
	id, err := k.o.Renew(ctx, cert.Subject.CommonName)
	if err == nil {
		err = k.o.Files.Renew(ctx, id, cert)
	}
	if err != nil {
		if ctx.Err() == nil {
			k.o.Logger.Warn("the host's certificate was not renewed", "not_after", cert.NotAfter, "error", err,
				"remedy", "if it was revoked or expires: tombolo host join with a new token")
		}
		return false
	}
	k.o.Logger.Info("the host's certificate was renewed", "not_after", id.NotAfter)
	return true
}

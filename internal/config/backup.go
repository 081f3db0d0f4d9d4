package config

import (
	"fmt"
	"strings"
	"time"

	"filippo.io/age"

	"countersign/heartbeat"
)

// Backup says where copies of the store are kept, how often one is made, and how many there are.
type Backup struct {
	Dir   string        `yaml:"dir" json:"dir"`
	Every time.Duration `yaml:"every" json:"every"`
	Keep  int           `yaml:"keep" json:"keep"`
	// Recipients are the public keys of age that the copies are encrypted to; none: they are not encrypted.
	Recipients []string `yaml:"recipients,omitempty" json:"recipients,omitempty"`
}

func (b *Backup) SetDefaults() { b.Every, b.Keep = 24*time.Hour, 14 }

// The bounds of what can be said of copies.
const (
	leastBetweenBackups = time.Hour
	mostBetweenBackups  = 31 * 24 * time.Hour
	mostBackups         = 1000
)

// checkBackup reads where copies of the store are kept.
func checkBackup(c *checker) {
	const at = "$.backup"
	if !c.Said[at] {
		warnOfIdle(c, heartbeat.Backup, "backup says where backups are kept, and is not there")
	}
	if !c.Said[at] || c.Bad[at] {
		return
	}
	b := c.cfg.File.Backup
	if c.cfg.IsDatabase() {
		c.errorf(at, "backup copies the file of an SQLite store; of a PostgreSQL database take backups with its own "+
			"programs (docs/replicas.md), and remove backup")
		return
	}
	if b.Dir == "" && !c.Bad[at+".dir"] {
		c.errorf(at, "dir is missing: the folder that backups are written to, which must be there")
	}
	if (b.Every < leastBetweenBackups || b.Every > mostBetweenBackups) && !c.Bad[at+".every"] {
		c.errorf(at+".every", "every is how long it is from one backup to the next, from 1h to 744h")
	}
	if (b.Keep < 1 || b.Keep > mostBackups) && !c.Bad[at+".keep"] {
		c.errorf(at+".keep", "keep is how many backups are kept, from 1 to %d", mostBackups)
	}
	plan := &c.cfg.Backups
	plan.Dir, plan.Every, plan.Keep = b.Dir, b.Every, b.Keep
	for i, text := range b.Recipients {
		// What is no recipient is not repeated: it may be the secret key.
		r, err := age.ParseRecipients(strings.NewReader(text))
		if err != nil || len(r) != 1 {
			c.errorf(fmt.Sprintf("%s.recipients[%d]", at, i), "a recipient is a public key of age that begins with age1: what "+
				"age-keygen says after \"Public key:\"; the secret key belongs elsewhere than to the gate")
			continue
		}
		plan.Recipients = append(plan.Recipients, r...)
	}
}

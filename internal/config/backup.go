package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
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
		if c.Places[at].Line > 0 {
			c.errorf(at, "backup is empty: dir is missing, the folder that backups are written to")
		}
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
	warnOfFolder(c, b.Dir)
	plan := &c.cfg.Backups
	plan.Dir, plan.Every, plan.Keep = b.Dir, b.Every, b.Keep
	for i, text := range b.Recipients {
		// What is no recipient is not repeated: it may be the secret key.
		r, err := age.ParseRecipients(strings.NewReader(text))
		if err != nil || len(r) != 1 {
			c.errorf(fmt.Sprintf("%s.recipients[%d]", at, i), "a recipient is a public key of age itself, and not of a plugin: "+
				"what age-keygen says after \"Public key:\"; the secret key belongs elsewhere than to the gate")
			continue
		}
		plan.Recipients = append(plan.Recipients, r...)
	}
	if len(plan.Recipients) > 1 {
		if _, err := age.Encrypt(io.Discard, plan.Recipients...); err != nil {
			c.errorf(at+".recipients", "these recipients cannot read one backup together: all must be post-quantum (age1pq1…), "+
				"or none")
		}
	}
}

// warnOfFolder warns of a folder for backups that cannot be one.
func warnOfFolder(c *checker, dir string) {
	if dir == "" {
		return
	}
	if is, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) || err == nil && !is.IsDir() {
		c.warnf("$.backup.dir", "there is no folder %s, and until there is no backup can be made", dir)
		return
	}
	own, ownErr := os.Stat(filepath.Dir(c.cfg.StorePath))
	if is, err := os.Stat(dir); err == nil && ownErr == nil && os.SameFile(is, own) {
		c.warnf("$.backup.dir", "dir is the folder of the store itself: whatever takes the one takes the other")
	}
}

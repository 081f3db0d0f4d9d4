package approval

import (
	"cmp"
	"time"
)

// rememberSaid is for how long a new card tells what was said last of the same tool.
const rememberSaid = 24 * time.Hour

// putSaid puts on record what a person said of a tool of an agent. who is all who said it, where that is not by alone.
func putSaid(tx Tx, r *Request, d *Decision, approved bool, who string) error {
	return tx.PutSaid(r.Agent, r.Server, saidOf(r.Tool, r.Method), Said{RequestID: r.ID, Approved: approved,
		By: cmp.Or(who, d.By.String()), At: tx.Now(), Reason: d.Reason})
}

// saidOf is what stands for a tool in the record of what was said. No tool is named as a method is there.
func saidOf(tool, method string) string {
	if method != "" {
		return "/" + method
	}
	return tool
}

// saidBefore returns what a person said last, and not long ago, of the tool of a call; nil for nothing.
func saidBefore(tx Tx, c *Call) (*Said, error) {
	s, err := tx.LastSaid(c.Agent, c.Server, saidOf(c.Tool, c.Method))
	if err != nil || s.RequestID == "" || tx.Now().Sub(s.At) >= rememberSaid {
		return nil, err
	}
	return &s, nil
}

package web

import (
	"net/http"
	"net/url"
	"strconv"

	"countersign/approval"
)

// Pages that are read for longer are not replaced under their readers' eyes: they say that there is news, and show it
// when they are asked to. No form on them is touched.

// topic is what a page tells of: the events that are news for it, and whom it is for.
type topic struct {
	whom  audience
	types []approval.EventType
}

// ends are the events with which a request is made, decided, used or over.
var ends = []approval.EventType{approval.EventApprovalRequested, approval.EventDecision,
	approval.EventApprovalCancelled, approval.EventApprovalLapsed, approval.EventApprovalConsumed,
	approval.EventApprovalReturned, approval.EventReasonAdded}

// topics are the pages that say when there is news, by their paths.
var topics = map[string]topic{
	pathHistory: {approvers, ends},
	pathAudit:   {admins, approval.EventTypes},
	pathNotifications: {admins, []approval.EventType{approval.EventNotificationSent, approval.EventNotificationRetrying,
		approval.EventNotificationFailed}},
	"/grants": {approvers, []approval.EventType{approval.EventGranted, approval.EventGrantUsed, approval.EventGrantEnded,
		approval.EventDecision, approval.EventDenialLifted}},
	"/people": {approvers, []approval.EventType{approval.EventDelegated, approval.EventDelegationEnded,
		approval.EventFrozen, approval.EventUnfrozen, approval.EventChannelDead, approval.EventChannelAlive,
		approval.EventPolicyReloaded}},
	"/stats":  {approvers, append([]approval.EventType{approval.EventGrantUsed, approval.EventVote}, ends...)},
	"/policy": {approvers, []approval.EventType{approval.EventPolicyReloaded}},
	"/status": {approvers, append([]approval.EventType{approval.EventPolicyReloaded, approval.EventPolicyReloadFailed,
		approval.EventNotificationFailed, approval.EventChannelDead, approval.EventChannelAlive, approval.EventFrozen,
		approval.EventUnfrozen}, ends...)},
}

// older are the parameters of pages that show what is older: nothing new comes there.
var older = []string{"after", "before", "denials"}

// news says where the script hears of what is new on a page, "" for one that does not change.
func (x *exchange) news(status int) string {
	_, known := topics[x.r.URL.Path]
	if !known || status != http.StatusOK || x.r.Method != http.MethodGet {
		return ""
	}
	query := x.r.URL.Query()
	for _, name := range older {
		if query.Get(name) != "" {
			return ""
		}
	}
	of := url.Values{"of": {x.r.URL.Path}, "since": {strconv.FormatInt(x.since, 10)}}
	if agent := query.Get("agent"); agent != "" {
		of.Set("agent", agent)
	}
	return pathLive + "?" + of.Encode()
}

// hearing is what a page hears of.
type hearing struct {
	whom   audience
	wake   <-chan struct{}
	cancel func()
	once   bool // a page that has said that there is news says no more
}

// hear has a page hear of everything, or of what is news for it: what came since it was made, too.
func (l *liveUpdates) hear(x *exchange) (hearing, error) {
	query, b := x.r.URL.Query(), l.gate.Broker()
	if !query.Has("of") {
		wake, cancel := b.All()
		return hearing{whom: people, wake: wake, cancel: cancel}, nil
	}
	of, known := topics[query.Get("of")]
	since, err := strconv.ParseInt(query.Get("since"), 10, 64)
	agent := query.Get("agent")
	if !known || err != nil || agent != "" && !approval.ValidName(agent) {
		return hearing{}, approval.Errorf(approval.CodeInvalidParameter, "There is no such page.")
	}
	if err := x.admitStill(of.whom); err != nil {
		return hearing{}, err
	}
	wake, cancel := b.Events(agent, of.types...)
	if b.Since(since, of.types...) {
		already := make(chan struct{}, 1)
		already <- struct{}{}
		wake = already
	}
	return hearing{of.whom, wake, cancel, true}, nil
}

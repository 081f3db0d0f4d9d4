package store

import "slices"

// Query is one of the statements that never change: a connection prepares each once.
type Query int

const (
	insertRequest Query = iota
	selectRequest
	selectLive
	selectHead
	selectBatch
	selectBatchHeads
	selectExpired
	selectUnused
	nextExpiry
	nextUseBy
	countPending
	countPendingOf
	resolve
	expire
	cancel
	consume
	consumeDispatched
	giveBack
	lapse
	ack
	addSession
	selectFeed
	selectSessionFeed
	addReason
	selectRecent
	putRecent
	deleteRecent
	appendEvent
	seqRange
	firstSight
	pruneSeen
	pruneEnded

	report
	setInputs
	selectUnderWay
	selectDispatched
	selectTasks
	selectTasksOf
	liveAgents
	selectLiveOf
	selectPin
	putPin

	setNeed
	extend
	selectNeed
	selectEnding
	putVote
	moveVote
	selectVotes
	putDelegation
	selectDelegation
	selectDelegations
	putEpoch
	selectEpoch
	selectEpochs
	selectLiveBefore
	selectLiveOfBefore
	putPolicy
	selectPolicy
	selectPolicyDigests

	putCard
	selectCard
	newestCard
	selectPendingCards
	selectHeld
	putReminded

	putGrant
	selectGrant
	selectGrantsFor
	selectDueGrants
	putGrantUse
	selectGrantUse
	selectRunningUses
	selectSaid
	putSaid

	insertSignInLink
	selectSignInLink
	selectSignInLinks
	endSignInLink
	deleteSignInLinks
	insertSession
	selectSession
	selectSessions
	seeSession
	deleteSession
	selectSignInPeople
	pruneSignInLinks
	pruneSessions

	selectPasskeyOwner
	insertPasskeyOwner
	deletePasskeyOwner
	selectPasskeyPeople
	insertPasskey
	selectPasskey
	selectPasskeys
	updatePasskey
	deletePasskey
	endPasskeySessions

	insertNotification
	selectNotification
	updateNotification
	updateNarrow
	selectQueued
	selectSendable
	selectWaiting
	selectDueSoon
	putAddress
	selectDead
	selectPushes

	eventTime

	selectOldRequests
	selectOldRequest
	selectOldNotifications
	removeArgs
	removeGrantArgs
	removeTextsOf
	removeText
	removeNotification
	removeUses
	removeGrants
	removeReminded
	removeNotificationsOf
	removeVotes
	removeRequestSessions
	eraseTexts
	eraseTextsOf
	removeRequest
	removeEvents
	removeCard
)

const (
	isUnused = `status = 'approved' AND consumed_at IS NULL AND lapsed_at IS NULL`
	isLive   = `(status = 'pending' OR ` + isUnused + `)`

	// aLiveOne begins the search for a live request r.
	aLiveOne = `SELECT 1 FROM approval_requests AS r WHERE ` + isLive + ` AND `

	// LiveTask is a request whose call the gate's own side is to run as a task.
	LiveTask = isLive + ` AND task = 1`

	// hasEnded is of a request that nothing can come of any more.
	hasEnded = `NOT ` + isLive + ` AND (dispatched_at IS NULL OR outcome IS NOT NULL)
    AND NOT EXISTS (SELECT 1 FROM grants AS g WHERE g.request = approval_requests.id AND (g.ended_at IS NULL
      OR EXISTS (SELECT 1 FROM grant_uses AS u
        WHERE u.grant_id = g.id AND u.dispatched_at IS NOT NULL AND u.outcome IS NULL)))
    AND NOT EXISTS (SELECT 1 FROM approval_notifications AS n
      WHERE n.approval_id = approval_requests.id AND (n.status = 'queued' OR n.status = 'retrying'))`
	// isOver is as [approval.Old] says.
	isOver = hasEnded + ` AND acked_at IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM recent_endings AS e
      WHERE (e.agent, e.scope, e.server, e.tool_name, e.args_hash, e.method) = (approval_requests.agent,
        approval_requests.scope, approval_requests.server, approval_requests.tool_name, approval_requests.args_hash,
        approval_requests.method) AND e.denied_id = approval_requests.id)
    AND NOT EXISTS (` + aLiveOne + `r.batch_id = approval_requests.batch_id)`
	// mayGo is of one that may be removed: none is left in whose place an edit has put another, which leads back to it.
	mayGo = isOver + `
    AND NOT EXISTS (SELECT 1 FROM approval_requests AS r WHERE r.id = approval_requests.replaced_by)`
	oldRequest = `SELECT id, CASE WHEN ` + isOver + ` THEN 1 ELSE 0 END,
    CASE WHEN args_removed_at IS NULL THEN 0 ELSE 1 END
  FROM approval_requests WHERE `
	// isSent is of a notification that is not to be sent, nor again.
	isSent = `status <> 'queued' AND status <> 'retrying'`
	// isDone is of one that is not to be changed any more either: nothing waits that it shows.
	isDone = isSent + `
    AND NOT EXISTS (` + aLiveOne + `r.id = approval_notifications.approval_id)
    AND NOT EXISTS (` + aLiveOne + `r.batch_id = approval_notifications.batch_id)`

	// endRequest is what every end writes; when it may, each says.
	endRequest = `UPDATE approval_requests SET status = $1, resolved_at = $2, resolved_by = $3, resolved_via = $4,
  resolve_reason = $5, resolved_seq = $6, use_by = $7, who = $8, end_code = $9, replaced_by = $10, acked_at = NULL
  WHERE id = $11 AND `
)

// Queries are the texts of all, each at its [Query].
func Queries() []string { return slices.Clone(queries) }

var queries = []string{
	insertRequest: newRequestColumns.insert(`approval_requests`) + `
  ON CONFLICT (` + keyColumns + `) WHERE ` + isLive + ` DO NOTHING`,
	selectRequest: `SELECT ` + requestColumns.names() + ` FROM approval_requests WHERE id = $1`,
	selectLive: `SELECT ` + requestColumns.names() + ` FROM approval_requests
  WHERE ` + isKey + ` AND ` + isLive,
	selectHead:       `SELECT ` + headList + ` FROM approval_requests WHERE id = $1`,
	selectBatch:      `SELECT ` + requestColumns.names() + ` FROM approval_requests WHERE batch_id = $1 ORDER BY id`,
	selectBatchHeads: `SELECT ` + headList + ` FROM approval_requests WHERE batch_id = $1 ORDER BY id`,
	selectExpired: `SELECT ` + headList + ` FROM approval_requests
  WHERE status = 'pending' AND expires_at <= $1 ORDER BY expires_at`,
	selectUnused: `SELECT ` + headList + ` FROM approval_requests
  WHERE ` + isUnused + ` AND use_by <= $1 ORDER BY use_by`,
	nextExpiry: `SELECT min(expires_at) FROM approval_requests WHERE status = 'pending'`,
	nextUseBy: `SELECT min(use_by) FROM approval_requests
  WHERE ` + isUnused,
	countPending:   `SELECT count(*) FROM approval_requests WHERE status = 'pending'`,
	countPendingOf: `SELECT count(*) FROM approval_requests WHERE agent = $1 AND ` + isLive + ` AND status = 'pending'`,
	resolve:        endRequest + `status = 'pending' AND expires_at > $2`,
	expire:         endRequest + `status = 'pending' AND expires_at <= $2`,
	cancel:         endRequest + isLive,
	consume: `UPDATE approval_requests SET consumed_at = $1, acked_at = $1
  WHERE id = $2 AND ` + isUnused + ` AND use_by > $1`,
	consumeDispatched: `UPDATE approval_requests SET consumed_at = $1, acked_at = $1, dispatched_at = $1,
  runner = $2 WHERE id = $3 AND ` + isUnused + ` AND use_by > $1`,
	giveBack: `UPDATE approval_requests SET consumed_at = NULL, dispatched_at = NULL, runner = NULL, acked_at = NULL,
  task = 0, returned = returned + 1, resolved_seq = $1
  WHERE id = $2 AND status = 'approved' AND consumed_at = $3 AND dispatched_at = $3 AND returned = $4
    AND outcome IS NULL AND use_by > $5
    AND NOT EXISTS (SELECT 1 FROM approval_requests AS r
      WHERE (r.agent, r.scope, r.server, r.tool_name, r.args_hash, r.method) = (approval_requests.agent,
        approval_requests.scope, approval_requests.server, approval_requests.tool_name, approval_requests.args_hash,
        approval_requests.method) AND ` + isLive + `)`,
	lapse: `UPDATE approval_requests SET lapsed_at = use_by, resolved_seq = $1, acked_at = NULL
  WHERE id = $2 AND ` + isUnused + ` AND use_by <= $3`,
	ack: `UPDATE approval_requests SET acked_at = $1
  WHERE id = $2 AND agent = $3 AND resolved_seq IS NOT NULL AND acked_at IS NULL`,
	addSession: `INSERT INTO request_sessions (request, session_id, first_asked)
  VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
	selectFeed: `SELECT ` + requestColumns.names() + ` FROM approval_requests
  WHERE agent = $1 AND resolved_seq IS NOT NULL AND acked_at IS NULL ORDER BY resolved_seq`,
	selectSessionFeed: `SELECT ` + requestColumns.names() + ` FROM approval_requests
  WHERE agent = $1 AND resolved_seq IS NOT NULL AND acked_at IS NULL
    AND (session_id = $2
      OR EXISTS (SELECT 1 FROM request_sessions s WHERE s.request = approval_requests.id AND s.session_id = $2))
  ORDER BY resolved_seq`,
	addReason: `UPDATE approval_requests SET resolve_reason = $1, resolved_seq = $2, acked_at = NULL
  WHERE id = $3 AND status = 'denied' AND resolved_by = $4 AND resolve_reason IS NULL`,
	selectRecent: `SELECT ` + recentColumns.names() + ` FROM recent_endings
  WHERE ` + isKey,
	putRecent: `INSERT INTO recent_endings (` + keyColumns + `, ` + recentColumns.names() + `, newest)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
  ON CONFLICT (` + keyColumns + `) DO UPDATE SET ` + recentColumns.setExcluded() + `, newest = excluded.newest`,
	deleteRecent: `DELETE FROM recent_endings WHERE ` + isKey,
	appendEvent:  eventColumns.insert(`audit_events`),
	seqRange:     `SELECT (SELECT min(seq) FROM audit_events), (SELECT max(seq) FROM audit_events)`,
	firstSight:   `INSERT INTO webhook_events (id, seen_at) VALUES ($1, $2) ON CONFLICT DO NOTHING`,
	pruneSeen:    `DELETE FROM webhook_events WHERE id IN (SELECT id FROM webhook_events WHERE seen_at < $1 LIMIT $2)`,
	pruneEnded: `DELETE FROM recent_endings WHERE (` + keyColumns + `) IN
  (SELECT ` + keyColumns + ` FROM recent_endings WHERE newest < $1 LIMIT $2)`,

	report: `UPDATE approval_requests SET outcome = $1
  WHERE id = $2 AND dispatched_at IS NOT NULL AND (outcome IS NULL OR outcome = 'unknown' AND $1 <> 'unknown')`,
	setInputs: `UPDATE approval_requests SET inputs = $1 WHERE id = $2`,
	selectUnderWay: `SELECT ` + headList + `, dispatched_at FROM approval_requests
  WHERE dispatched_at IS NOT NULL AND outcome IS NULL AND ($1 = '' OR runner = $1) ORDER BY dispatched_at`,
	selectDispatched: `SELECT dispatched_at, outcome FROM approval_requests WHERE id = $1`,
	selectTasks:      `SELECT ` + requestColumns.names() + ` FROM approval_requests WHERE ` + LiveTask,
	selectTasksOf:    `SELECT ` + requestColumns.names() + ` FROM approval_requests WHERE agent = $1 AND ` + LiveTask,
	liveAgents:       `SELECT DISTINCT agent FROM approval_requests WHERE ` + isLive,
	selectLiveOf:     `SELECT ` + headList + ` FROM approval_requests WHERE agent = $1 AND ` + isLive,
	selectPin: `SELECT ` + pinColumns.names() + ` FROM tool_pins
  WHERE (` + pinKeyColumns.names() + `) = (` + pinKeyColumns.params() + `)`,
	putPin: pinColumns.insert(`tool_pins`) + `
  ON CONFLICT (` + pinKeyColumns.names() + `) DO UPDATE SET ` + pinnedColumns.setExcluded(),

	setNeed: setNeedColumns.update(`approval_requests`, `id`) + ` AND status = 'pending'`,
	extend: `UPDATE approval_requests SET expires_at = $1, extended_at = $2
  WHERE id = $3 AND status = 'pending' AND expires_at > $2 AND extended_at IS NULL`,
	selectNeed: `SELECT ` + needColumns.names() + ` FROM approval_requests WHERE id = $1`,
	// The index of the ids alone is read: upper makes of what was typed what ids are of.
	selectEnding: `SELECT id FROM approval_requests
  WHERE id >= $1 AND substr(id, -length($2)) = upper($2) ORDER BY id DESC`,
	putVote: `INSERT INTO approval_votes (` + voteColumns.names() + `, request, nth)
  VALUES (` + voteColumns.params() + `, $10, (SELECT coalesce(max(nth) + 1, 0) FROM approval_votes WHERE request = $10))
  ON CONFLICT (request, person) DO UPDATE SET ` + voteColumns[1:].setExcluded() + `, nth = excluded.nth`,
	moveVote:    `UPDATE approval_votes SET stage = $1 WHERE request = $2 AND person = $3`,
	selectVotes: `SELECT ` + voteColumns.names() + ` FROM approval_votes WHERE request = $1 ORDER BY nth`,
	putDelegation: delegationColumns.insert(`delegations`) + `
  ON CONFLICT (id) DO UPDATE SET ` + delegationColumns[1:].setExcluded(),
	selectDelegation: `SELECT ` + delegationColumns.names() + ` FROM delegations WHERE id = $1`,
	// The few that hold are sorted, rather than looked for among all.
	selectDelegations: `SELECT ` + delegationColumns.names() + ` FROM delegations
  WHERE ended_at IS NULL AND until_at > $1 ORDER BY +id`,
	putEpoch: epochColumns.insert(`epochs`) + `
  ON CONFLICT (agent) DO UPDATE SET ` + epochColumns[1:].setExcluded(),
	selectEpoch:  `SELECT ` + epochColumns.names() + ` FROM epochs WHERE agent = $1`,
	selectEpochs: `SELECT ` + epochColumns.names() + ` FROM epochs ORDER BY agent`,
	// The + keeps to the index of what is live: by the id, all that was ever before would be looked at.
	selectLiveBefore:    `SELECT ` + headList + ` FROM approval_requests WHERE ` + isLive + ` AND +id < $1`,
	selectLiveOfBefore:  `SELECT ` + headList + ` FROM approval_requests WHERE agent = $1 AND ` + isLive + ` AND +id < $2`,
	putPolicy:           `INSERT INTO policies (digest, source) VALUES ($1, $2) ON CONFLICT DO NOTHING`,
	selectPolicy:        `SELECT source FROM policies WHERE digest = $1`,
	selectPolicyDigests: `SELECT digest FROM policies WHERE digest >= $1 AND digest < $2 ORDER BY digest`,

	putCard: cardColumns.insert(`cards`) + `
  ON CONFLICT (id) DO UPDATE SET ` + cardColumns[1:].setExcluded(),
	selectCard: `SELECT ` + cardColumns.names() + ` FROM cards WHERE id = $1`,
	newestCard: `SELECT ` + cardColumns.names() + ` FROM cards
  WHERE agent = $1 AND session = $2 AND turn = $3 AND scope = $4 AND grouping = $5 ORDER BY id DESC LIMIT 1`,
	// The + keeps to the index of what is live, of which an agent has little.
	selectPendingCards: `SELECT coalesce(batch_id, id) FROM approval_requests
  WHERE agent = $1 AND status = 'pending' AND ` + isLive + ` AND risk_level <> 'critical'
  GROUP BY 1 ORDER BY min(+id)`,
	selectHeld: `SELECT ` + narrowColumns.names() + ` FROM approval_notifications
  WHERE held_for = $1 AND status = 'queued' ORDER BY id`,
	putReminded: `INSERT INTO reminded (request, notification, at) VALUES ($1, $2, $3)
  ON CONFLICT (request, notification) DO NOTHING`,

	putGrant: grantColumns.insert(`grants`) + `
  ON CONFLICT (id) DO UPDATE SET ` + lateGrantColumns.setExcluded(),
	selectGrant: `SELECT ` + grantColumns.names() + ` FROM grants WHERE id = $1`,
	// The args, which may be large, are of use only where some of them may differ.
	selectGrantsFor: `SELECT ` + narrowGrantColumns.names() + `, CASE WHEN terms IS NULL THEN '' ELSE args END FROM grants
  WHERE agent = $1 AND scope = $2 AND server = $3 AND tool_name = $4 AND ended_at IS NULL ORDER BY deny DESC, id DESC`,
	selectDueGrants: `SELECT ` + narrowGrantColumns.names() + `, '' FROM grants
  WHERE ended_at IS NULL AND expires_at <= $1 ORDER BY expires_at`,
	putGrantUse: grantUseColumns.insert(`grant_uses`) + `
  ON CONFLICT (id) DO UPDATE SET outcome = excluded.outcome`,
	selectGrantUse: `SELECT ` + grantUseColumns.names() + ` FROM grant_uses WHERE id = $1`,
	selectRunningUses: `SELECT ` + grantUseColumns.names() + ` FROM grant_uses
  WHERE dispatched_at IS NOT NULL AND outcome IS NULL AND ($1 = '' OR runner = $1) ORDER BY dispatched_at`,
	selectSaid: `SELECT ` + saidColumns.names() + ` FROM said WHERE agent = $1 AND server = $2 AND tool_name = $3`,
	putSaid: `INSERT INTO said (agent, server, tool_name, ` + saidColumns.names() + `)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
  ON CONFLICT (agent, server, tool_name) DO UPDATE SET ` + saidColumns.setExcluded(),

	insertSignInLink:  newLinkColumns.insert(`signin_links`),
	selectSignInLink:  `SELECT ` + linkColumns.names() + ` FROM signin_links WHERE digest = $1`,
	selectSignInLinks: `SELECT ` + linkColumns.names() + ` FROM signin_links WHERE person = $1 ORDER BY id`,
	endSignInLink: lateLinkColumns.update(`signin_links`, `digest`) + `
  AND ended_at IS NULL AND expires_at > $1`,
	deleteSignInLinks:  `DELETE FROM signin_links WHERE person = $1`,
	insertSession:      sessionColumns.insert(`signin_sessions`),
	selectSession:      `SELECT ` + sessionColumns.names() + ` FROM signin_sessions WHERE digest = $1`,
	selectSessions:     `SELECT ` + sessionColumns.names() + ` FROM signin_sessions WHERE person = $1 ORDER BY id`,
	seeSession:         `UPDATE signin_sessions SET seen_at = $1 WHERE id = $2`,
	deleteSession:      `DELETE FROM signin_sessions WHERE id = $1`,
	selectSignInPeople: `SELECT person FROM signin_links UNION SELECT person FROM signin_sessions ORDER BY 1`,
	pruneSignInLinks: `DELETE FROM signin_links WHERE digest IN
  (SELECT digest FROM signin_links WHERE expires_at <= $1 LIMIT $2)`,
	pruneSessions: `DELETE FROM signin_sessions WHERE digest IN
  (SELECT digest FROM signin_sessions WHERE expires_at <= $1 OR seen_at <= $2 LIMIT $3)`,

	selectPasskeyOwner:  `SELECT ` + passkeyOwnerColumns.names() + ` FROM passkey_owners WHERE person = $1`,
	insertPasskeyOwner:  passkeyOwnerColumns.insert(`passkey_owners`),
	deletePasskeyOwner:  `DELETE FROM passkey_owners WHERE person = $1`,
	selectPasskeyPeople: `SELECT person FROM passkey_owners ORDER BY person`,
	insertPasskey:       passkeyColumns.insert(`passkeys`),
	selectPasskey:       `SELECT ` + passkeyColumns.names() + ` FROM passkeys WHERE credential = $1`,
	selectPasskeys:      `SELECT ` + passkeyColumns.names() + ` FROM passkeys WHERE person = $1 ORDER BY id`,
	updatePasskey:       latePasskeyColumns.update(`passkeys`, `id`),
	deletePasskey:       `DELETE FROM passkeys WHERE id = $1`,
	endPasskeySessions:  `DELETE FROM signin_sessions WHERE person = $1 AND opener = $2`,

	insertNotification: notificationColumns.insert(`approval_notifications`),
	selectNotification: `SELECT ` + notificationColumns.names() + ` FROM approval_notifications WHERE id = $1`,
	updateNotification: changingColumns.update(`approval_notifications`, `id`, `status`, `attempt`),
	updateNarrow:       changingNarrowColumns.update(`approval_notifications`, `id`, `status`, `attempt`),
	selectQueued:       `SELECT ` + waitingColumns.names() + ` FROM approval_notifications WHERE id = $1`,
	selectSendable: `SELECT ` + waitingColumns.names() + ` FROM approval_notifications AS n
  WHERE status IN ('queued', 'retrying') AND next_attempt_at <= $1 AND (lease_until IS NULL OR lease_until <= $1)
    AND (kind <> 'outcome' OR target_id IS NULL OR NOT EXISTS (
      SELECT 1 FROM approval_notifications AS other
      WHERE other.target_id = n.target_id AND other.kind = 'outcome' AND other.status IN ('queued', 'retrying')
        AND other.lease_until > $1))
  ORDER BY next_attempt_at, id`,
	selectWaiting: `SELECT next_attempt_at, lease_until FROM approval_notifications
  WHERE status IN ('queued', 'retrying') ORDER BY next_attempt_at`,
	selectDueSoon: `SELECT ` + waitingColumns.names() + ` FROM approval_notifications
  WHERE status IN ('queued', 'retrying') AND next_attempt_at > $1 AND next_attempt_at <= $2
    AND channel = $3 AND recipient = $4
  ORDER BY next_attempt_at, id`,
	putAddress: `INSERT INTO addresses (channel, recipient, dead, since) VALUES ($1, $2, $3, $4)
  ON CONFLICT (channel, recipient) DO UPDATE SET dead = excluded.dead, since = excluded.since
  WHERE addresses.since <= excluded.since`,
	selectDead: `SELECT 1 FROM addresses WHERE channel = $1 AND recipient = $2 AND dead = 1`,

	// Of what is no push, no request is looked up.
	selectPushes: `SELECT ` + pushColumns.names() + `
  FROM approval_notifications AS n LEFT JOIN approval_requests AS r
    ON r.id = CASE WHEN n.sent_at IS NOT NULL AND n.kind IN ('request', 'reminder') THEN n.approval_id END
  WHERE n.id >= $1 AND n.id < $2 ORDER BY n.id DESC`,

	eventTime: `SELECT seq, at FROM audit_events WHERE seq >= $1 ORDER BY seq LIMIT 1`,

	selectOldRequests: oldRequest + `id > $1 AND id < $2 ORDER BY id`,
	selectOldRequest:  `SELECT id, CASE WHEN ` + mayGo + ` THEN 1 ELSE 0 END, 0 FROM approval_requests WHERE id = $1`,
	selectOldNotifications: `SELECT id, CASE WHEN ` + isDone + ` THEN 1 ELSE 0 END,
    CASE WHEN body IS NULL AND text IS NULL THEN 1 ELSE 0 END
  FROM approval_notifications WHERE id > $1 AND id < $2 ORDER BY id`,
	removeArgs: `UPDATE approval_requests SET args_bytes = octet_length(tool_args), tool_args = 'null', rationale = NULL,
    preview = NULL, preview_from = NULL, inputs = NULL, args_removed_at = $1
  WHERE id = $2 AND args_removed_at IS NULL AND ` + isOver,
	eraseTexts: `UPDATE approval_requests SET
    args_bytes = CASE WHEN args_removed_at IS NULL THEN octet_length(tool_args) ELSE args_bytes END,
    args_removed_at = coalesce(args_removed_at, $1), tool_args = 'null', rationale = NULL, preview = NULL,
    preview_from = NULL, inputs = NULL, human_message = '', sentences = NULL
  WHERE id = $2 AND (args_removed_at IS NULL OR human_message <> '' OR sentences IS NOT NULL) AND ` + hasEnded,
	removeGrantArgs: `UPDATE grants SET args = 'null' WHERE request = $1 AND ended_at IS NOT NULL`,
	removeTextsOf: `UPDATE approval_notifications SET body = NULL, text = NULL
  WHERE approval_id = $1 AND ` + isSent,
	eraseTextsOf: `UPDATE approval_notifications SET body = NULL, text = NULL
  WHERE (approval_id = $1 OR batch_id = (SELECT batch_id FROM approval_requests WHERE id = $1)) AND ` + isSent,
	removeText:            `UPDATE approval_notifications SET body = NULL, text = NULL WHERE id = $1 AND ` + isDone,
	removeNotification:    `DELETE FROM approval_notifications WHERE id = $1 AND ` + isDone,
	removeUses:            `DELETE FROM grant_uses WHERE grant_id IN (SELECT id FROM grants WHERE request = $1)`,
	removeGrants:          `DELETE FROM grants WHERE request = $1`,
	removeReminded:        `DELETE FROM reminded WHERE request = $1`,
	removeNotificationsOf: `DELETE FROM approval_notifications WHERE approval_id = $1`,
	removeVotes:           `DELETE FROM approval_votes WHERE request = $1`,
	removeRequestSessions: `DELETE FROM request_sessions WHERE request = $1`,
	removeEvents:          `DELETE FROM audit_events WHERE seq <= $1`,
	removeRequest:         `DELETE FROM approval_requests WHERE id = $1 AND ` + mayGo,
	removeCard: `DELETE FROM cards
  WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM approval_requests AS r WHERE r.batch_id = cards.id)`,
}

-- +goose Up

-- rule_digest: of the rule by which the policy asked, with all that it says: a rule without a name is called by its place,
-- where another may stand after a reload. A delegation for one rule is for that of its digest; one without covers nothing.
ALTER TABLE approval_requests ADD COLUMN rule_digest TEXT;
ALTER TABLE delegations ADD COLUMN rule_digest TEXT;

-- opener: what a link was asked for with, and a session began with: "terminal:" and a digest of the token, "line:" and one of
-- the chat's user id, "openid:" and one of the account, "passkey:" and its id. NULL: from before, and of no use any more.
ALTER TABLE signin_links ADD COLUMN opener TEXT;
ALTER TABLE signin_sessions ADD COLUMN opener TEXT;

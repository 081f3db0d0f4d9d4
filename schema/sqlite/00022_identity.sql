-- +goose Up

-- rule_digest: of the rule by which the policy asked, with all that it says: a rule without a name is called by its place,
-- where another may stand after a reload. A delegation for one rule is for that of its digest; one without covers nothing.
ALTER TABLE approval_requests ADD COLUMN rule_digest TEXT;
ALTER TABLE delegations ADD COLUMN rule_digest TEXT;

-- +goose Up

-- sentences: what the rule said of the call to people, filled in as it was asked: {"summary": {language: text}, "message":
-- {language: text}}, where the language "" is for whoever reads another.
ALTER TABLE approval_requests ADD COLUMN sentences TEXT;

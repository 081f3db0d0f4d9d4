-- +goose Up

-- resolved_via: which channels there are is the program's to know, and a new one needs no migration. SQLite can
-- drop a CHECK by having the table's text edited, as its documentation of ALTER TABLE describes: no row is touched,
-- so that it takes no time and no space however many there are.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql,
    'CHECK (resolved_via IS NULL OR resolved_via = ''line'' OR resolved_via = ''slack'' OR resolved_via = ''web'' OR resolved_via = ''api'' OR resolved_via = ''cli'' OR resolved_via = ''terminal'' OR resolved_via = ''system'')',
    'CHECK (resolved_via IS NULL OR resolved_via <> '''')')
  WHERE type = 'table' AND name = 'approval_requests';
PRAGMA writable_schema = RESET; -- the connection reads the schema again

-- Fails, and with it the migration, unless the text was the one expected. That a table comes and goes also tells
-- other connections that the schema is another.
CREATE TABLE edited (one INTEGER NOT NULL CHECK (one = 1)) STRICT;
INSERT INTO edited (one) SELECT count(*) FROM sqlite_schema
  WHERE type = 'table' AND name = 'approval_requests' AND instr(sql, 'CHECK (resolved_via IS NULL OR resolved_via <> '''')') > 0;
DROP TABLE edited;

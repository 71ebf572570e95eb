-- Version 2. Grants say what they cover as it was shown, how far they hold, and whether they were taken
-- back; requests say what they offer and where they are asked; the audit can only grow.

ALTER TABLE approvals ADD COLUMN summary TEXT NOT NULL DEFAULT '';
ALTER TABLE approvals ADD COLUMN offer TEXT;
ALTER TABLE approvals ADD COLUMN batch TEXT;
ALTER TABLE approvals ADD COLUMN route TEXT;

CREATE TABLE grants_2 (
    seq             INTEGER PRIMARY KEY AUTOINCREMENT,
    id              BLOB NOT NULL UNIQUE,
    scope           TEXT NOT NULL,
    conversation_id BLOB NOT NULL,
    agent           TEXT NOT NULL,
    tool            TEXT NOT NULL,
    pattern         TEXT NOT NULL,
    key             TEXT NOT NULL,
    granted_by      TEXT NOT NULL,
    granted_at      INTEGER NOT NULL,
    expires_at      INTEGER NOT NULL,
    revoked_by      TEXT,
    revoked_at      INTEGER
);
-- A key of version 1 is the hash of the arguments, which is still the key of most tools' calls. Where it
-- isn't, the person is asked again.
INSERT INTO grants_2 (id, scope, conversation_id, agent, tool, pattern, key, granted_by, granted_at,
                      expires_at)
    SELECT g.id, 'conversation', g.conversation_id, c.agent, g.tool,
           g.tool || ' ' || COALESCE(
               (SELECT a.arguments FROM approvals a
                WHERE a.conversation_id = g.conversation_id AND a.tool = g.tool
                  AND a.arguments_hash = g.arguments_hash LIMIT 1), g.arguments_hash),
           g.arguments_hash, g.granted_by, g.granted_at, g.expires_at
    FROM grants g JOIN conversations c ON c.id = g.conversation_id
    ORDER BY g.granted_at;
DROP TABLE grants;
ALTER TABLE grants_2 RENAME TO grants;
CREATE INDEX grants_by_key ON grants (tool, key);

CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;
CREATE TRIGGER audit_is_not_shortened BEFORE DELETE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;

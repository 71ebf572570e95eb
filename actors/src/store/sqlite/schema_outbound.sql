-- What a channel keeps: which parts of a long reply were sent, what people see of one that is being written,
-- and messages whose attachments are on their way.

ALTER TABLE outbox ADD COLUMN progress TEXT;

CREATE TABLE IF NOT EXISTS drafts (
    turn_id BLOB PRIMARY KEY,
    message TEXT,
    shown   TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS spool (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT,
    channel     TEXT NOT NULL,
    external_id TEXT NOT NULL,
    incoming    TEXT NOT NULL,
    at          INTEGER NOT NULL,
    done_at     INTEGER,
    UNIQUE (channel, external_id)
);
CREATE INDEX IF NOT EXISTS spool_done ON spool (done_at) WHERE done_at IS NOT NULL;

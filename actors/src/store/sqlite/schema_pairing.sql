-- Who paired with a channel, the codes that are out (hashes), and what strangers tried. A row of
-- `pair_tries` without a sender counts the channel's.

CREATE TABLE IF NOT EXISTS pairings (
    channel   TEXT NOT NULL,
    sender    TEXT NOT NULL,
    display   TEXT,
    paired_at INTEGER NOT NULL,
    made_by   TEXT NOT NULL,
    PRIMARY KEY (channel, sender)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS pair_codes (
    channel    TEXT NOT NULL,
    hash       TEXT NOT NULL,
    made_by    TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (channel, hash)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS pair_tries (
    channel      TEXT NOT NULL,
    sender       TEXT NOT NULL,
    wrong        INTEGER NOT NULL DEFAULT 0,
    since        INTEGER NOT NULL DEFAULT 0,
    locked_until INTEGER NOT NULL DEFAULT 0,
    told_at      INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (channel, sender)
) WITHOUT ROWID;

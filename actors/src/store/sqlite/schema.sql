-- Version 1. Ids are 16-byte blobs, times are nanoseconds since 1970 (UTC), structured values are JSON.

-- Small facts about this file.
CREATE TABLE meta (
    key   TEXT PRIMARY KEY NOT NULL,
    value INTEGER NOT NULL
) WITHOUT ROWID;

-- One row a conversation: a channel, the platform's id, an agent.
CREATE TABLE conversations (
    id           BLOB PRIMARY KEY NOT NULL,
    channel      TEXT NOT NULL,
    conversation TEXT NOT NULL,
    agent        TEXT NOT NULL,
    lease_epoch  INTEGER NOT NULL DEFAULT 1,
    last_at      INTEGER NOT NULL,
    UNIQUE (conversation, channel, agent)
) WITHOUT ROWID;

-- One row an accepted envelope, in arrival order. `outcome` is null until its one end (I1).
CREATE TABLE inbox (
    seq             INTEGER PRIMARY KEY AUTOINCREMENT,
    id              BLOB NOT NULL,
    turn_id         BLOB NOT NULL,
    conversation_id BLOB NOT NULL REFERENCES conversations (id),
    channel         TEXT NOT NULL,
    external_id     TEXT NOT NULL,
    inbound         TEXT NOT NULL,
    accepted_at     INTEGER NOT NULL,
    outcome         TEXT,
    UNIQUE (channel, external_id)
);
CREATE INDEX inbox_outcome ON inbox (outcome);

-- The turn that answers an envelope; `seq` is the envelope's.
CREATE TABLE turns (
    seq              INTEGER PRIMARY KEY REFERENCES inbox (seq),
    id               BLOB NOT NULL UNIQUE,
    envelope_id      BLOB NOT NULL,
    conversation_id  BLOB NOT NULL REFERENCES conversations (id),
    origin           TEXT NOT NULL,
    reply_address    TEXT NOT NULL,
    state            TEXT NOT NULL,
    outcome          TEXT,
    reply            TEXT,
    error_code       TEXT,
    error_message    TEXT,
    attempts         INTEGER NOT NULL DEFAULT 0,
    cancel_requested INTEGER NOT NULL DEFAULT 0,
    started_at       INTEGER,
    ended_at         INTEGER,
    input_tokens     INTEGER NOT NULL DEFAULT 0,
    output_tokens    INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX turns_by_conversation ON turns (conversation_id, seq);
CREATE INDEX turns_open ON turns (conversation_id, seq) WHERE outcome IS NULL;

CREATE TABLE journal (
    turn_seq INTEGER NOT NULL REFERENCES turns (seq),
    attempt  INTEGER NOT NULL,
    seq      INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    kind     TEXT NOT NULL,
    body     TEXT NOT NULL,
    PRIMARY KEY (turn_seq, attempt, seq)
) WITHOUT ROWID;

CREATE TABLE calls (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    turn_seq   INTEGER NOT NULL REFERENCES turns (seq),
    id         BLOB NOT NULL,
    tool       TEXT NOT NULL,
    state      TEXT NOT NULL,
    started_at INTEGER,
    ended_at   INTEGER,
    UNIQUE (turn_seq, id)
);

-- The history a model sees.
CREATE TABLE messages (
    seq             INTEGER PRIMARY KEY AUTOINCREMENT,
    id              BLOB NOT NULL UNIQUE,
    conversation_id BLOB NOT NULL REFERENCES conversations (id),
    turn_id         BLOB NOT NULL,
    at              INTEGER NOT NULL,
    body            TEXT NOT NULL
);
CREATE INDEX messages_by_conversation ON messages (conversation_id, seq);

CREATE TABLE approvals (
    seq             INTEGER PRIMARY KEY AUTOINCREMENT,
    id              BLOB NOT NULL UNIQUE,
    turn_id         BLOB NOT NULL,
    conversation_id BLOB NOT NULL,
    channel         TEXT NOT NULL,
    call_id         BLOB NOT NULL,
    tool            TEXT NOT NULL,
    arguments       TEXT NOT NULL,
    arguments_hash  TEXT NOT NULL,
    risk            TEXT NOT NULL,
    reason          TEXT NOT NULL,
    asked_at        INTEGER NOT NULL,
    expires_at      INTEGER NOT NULL,
    approvers       TEXT NOT NULL,
    state           TEXT NOT NULL,
    decision        TEXT,
    decided_by      TEXT,
    decided_at      INTEGER
);
CREATE INDEX approvals_by_turn ON approvals (turn_id);
CREATE INDEX approvals_pending ON approvals (seq) WHERE state = 'pending';

CREATE TABLE grants (
    id              BLOB PRIMARY KEY NOT NULL,
    conversation_id BLOB NOT NULL,
    tool            TEXT NOT NULL,
    arguments_hash  TEXT NOT NULL,
    granted_by      TEXT NOT NULL,
    granted_at      INTEGER NOT NULL,
    expires_at      INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX grants_by_scope ON grants (conversation_id, tool, arguments_hash);

-- What is to be sent: pending, sending, sent, dead. `seq` is the order within (channel, conversation).
CREATE TABLE outbox (
    seq               INTEGER PRIMARY KEY AUTOINCREMENT,
    id                BLOB NOT NULL UNIQUE,
    channel           TEXT NOT NULL,
    conversation      TEXT NOT NULL,
    address           TEXT NOT NULL,
    kind              TEXT NOT NULL,
    turn_id           BLOB,
    payload           TEXT NOT NULL,
    state             TEXT NOT NULL,
    attempts          INTEGER NOT NULL DEFAULT 0,
    possibly_repeated INTEGER NOT NULL DEFAULT 0,
    not_before        INTEGER NOT NULL,
    cause             TEXT,
    class             TEXT,
    external_id       TEXT,
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL
);
CREATE INDEX outbox_open ON outbox (channel, conversation, seq)
    WHERE state IN ('pending', 'sending');
CREATE INDEX outbox_dead ON outbox (seq) WHERE state = 'dead';

CREATE TABLE processes (
    call_id     BLOB NOT NULL,
    pgid        INTEGER NOT NULL,
    boot_id     TEXT NOT NULL,
    start_ticks INTEGER NOT NULL,
    PRIMARY KEY (call_id, pgid)
) WITHOUT ROWID;

-- `location` is empty, not null, so that the same crash is found again.
CREATE TABLE crashes (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    kind            TEXT NOT NULL,
    path            TEXT NOT NULL,
    cause           TEXT NOT NULL,
    location        TEXT NOT NULL,
    at              INTEGER NOT NULL,
    count           INTEGER NOT NULL,
    message_in_hand TEXT,
    UNIQUE (kind, cause, location)
);

CREATE TABLE audit (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    at     INTEGER NOT NULL,
    who    TEXT NOT NULL,
    via    TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    detail TEXT NOT NULL
);

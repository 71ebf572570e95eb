-- What is remembered. One live row a place (agent, session, key); superseded rows are older versions.
CREATE TABLE memories (
    seq INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    agent TEXT NOT NULL,
    -- The conversation it holds in; null: in all of the agent's.
    session BLOB,
    key TEXT NOT NULL,
    content TEXT NOT NULL,
    category TEXT NOT NULL,
    -- 0 external, 1 model, 2 user.
    source INTEGER NOT NULL,
    via TEXT,
    turn BLOB,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    superseded_by BLOB
) STRICT;

CREATE UNIQUE INDEX memories_live ON memories (agent, coalesce(session, x''), key)
    WHERE superseded_by IS NULL;
CREATE INDEX memories_place ON memories (agent, key);

-- The words of live rows, and the scope's as one word, so that foreign entries are not even visited.
CREATE VIRTUAL TABLE memory_words
    USING fts5 (words, scope, tokenize = 'porter unicode61 remove_diacritics 2');
-- What is forgotten leaves the index's pages at once.
INSERT INTO memory_words (memory_words, rank) VALUES ('secure-delete', 1);

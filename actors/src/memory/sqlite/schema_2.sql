-- What entries mean: a vector a live row, of the model that read it. One of no bytes: the model refused.
CREATE TABLE memory_vectors (
    seq INTEGER PRIMARY KEY,
    model TEXT NOT NULL,
    -- 32-bit floats, little-endian, of unit length together.
    vector BLOB NOT NULL
) STRICT;

-- A vector goes with its row.
CREATE TRIGGER memory_vectors_forgotten AFTER DELETE ON memories BEGIN
    DELETE FROM memory_vectors WHERE seq = OLD.seq;
END;
CREATE TRIGGER memory_vectors_superseded AFTER UPDATE OF superseded_by ON memories
    WHEN NEW.superseded_by IS NOT NULL BEGIN
    DELETE FROM memory_vectors WHERE seq = NEW.seq;
END;

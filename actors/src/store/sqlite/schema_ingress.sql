-- Messages that go with another's turn say which. What a turn cost, in millionths of the currency of the
-- configured prices. What a conversation's people chose: a model, and where its history begins: after a
-- message, and after an envelope, since a turn that runs meanwhile still writes its own.

ALTER TABLE turns ADD COLUMN merged_into BLOB;
ALTER TABLE turns ADD COLUMN cost_micros INTEGER NOT NULL DEFAULT 0;
ALTER TABLE conversations ADD COLUMN model TEXT;
ALTER TABLE conversations ADD COLUMN history_after INTEGER NOT NULL DEFAULT 0;
ALTER TABLE conversations ADD COLUMN begins_after INTEGER NOT NULL DEFAULT 0;

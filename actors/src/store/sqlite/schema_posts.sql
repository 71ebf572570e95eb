-- What is sent for no turn is found again when it is old; the prompts of a turn's requests, when they change.

CREATE INDEX IF NOT EXISTS outbox_loose ON outbox (updated_at) WHERE turn_id IS NULL;
CREATE INDEX IF NOT EXISTS outbox_prompts ON outbox (turn_id) WHERE kind = 'approval';

-- Turns that another turn handed on. `child_of` is their place, as JSON; `parent_id` is set for all of
-- them, `task_of` (the conversation above all parents) for background tasks only.

ALTER TABLE turns ADD COLUMN child_of TEXT;
ALTER TABLE turns ADD COLUMN parent_id BLOB;
ALTER TABLE turns ADD COLUMN task_of BLOB;
CREATE INDEX turns_by_parent ON turns (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX turns_by_task ON turns (task_of, seq) WHERE task_of IS NOT NULL;

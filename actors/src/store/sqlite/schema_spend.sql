-- What was spent a day (UTC, counted since 1970), added up for those who have a limit.

CREATE TABLE IF NOT EXISTS spend (
    day         INTEGER NOT NULL,
    scope       TEXT NOT NULL,
    name        TEXT NOT NULL,
    tokens      INTEGER NOT NULL,
    cost_micros INTEGER NOT NULL,
    PRIMARY KEY (day, scope, name)
) WITHOUT ROWID;

//! Who is allowed beside a channel's list, and what strangers tried.

use jiff::Timestamp;
use rookery_messages::approval::Decider;
use rookery_messages::ids::ChannelId;
use rookery_messages::pairing::{Knock, KnockBounds, Knocked, Pairing, PairingWrite};
use rookery_messages::store::AuditRow;
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Value, json};

use super::error::Result;
use super::{codec, records};

/// Most strangers a channel remembers; of more, none is told anything, and no code of theirs is looked at
/// before the others are forgotten.
const MOST_STRANGERS: i64 = 10_000;
/// In the place of a sender: all of the channel.
const CHANNEL: &str = "";

/// Applies a change; tells what came of a knock, and whether there was anything to take back.
pub(super) fn write(conn: &Connection, write: &PairingWrite) -> Result<Option<Knocked>> {
    match write {
        PairingWrite::NewCode { channel, hash, by, at, expires_at } => {
            conn.prepare_cached("DELETE FROM pair_codes WHERE channel = ?1 AND expires_at <= ?2")?
                .execute(params![channel.as_str(), codec::nanos(*at)])?;
            conn.prepare_cached(
                "INSERT INTO pair_codes (channel, hash, made_by, expires_at) \
                 VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
            )?
            .execute(params![
                channel.as_str(),
                hash,
                by.who,
                codec::nanos(*expires_at)
            ])?;
            audit(conn, "pairing.code", channel, None, by, *at)?;
            Ok(None)
        }
        PairingWrite::Knock(knock) => self::knock(conn, knock).map(Some),
        PairingWrite::Revoke { channel, sender, by, at } => {
            let gone = conn
                .prepare_cached("DELETE FROM pairings WHERE channel = ?1 AND sender = ?2")?
                .execute(params![channel.as_str(), sender])?;
            if gone == 0 {
                return Err(rookery_messages::store::StoreError::NotFound.into());
            }
            audit(conn, "pairing.revoke", channel, Some(sender), by, *at)?;
            Ok(None)
        }
    }
}

fn audit(
    conn: &Connection,
    action: &str,
    channel: &ChannelId,
    sender: Option<&str>,
    by: &Decider,
    at: Timestamp,
) -> Result<()> {
    let detail = sender.map_or(Value::Null, |sender| json!({ "sender": sender }));
    let row = AuditRow {
        at,
        who: by.who.clone(),
        via: by.via.clone(),
        action: action.to_owned(),
        target: channel.to_string(),
        detail,
    };
    records::audit(conn, &row)
}

#[derive(Clone, Copy, Default)]
struct Tries {
    wrong: u32,
    since: i64,
    locked_until: i64,
    told_at: i64,
}

fn knock(conn: &Connection, knock: &Knock) -> Result<Knocked> {
    if is_paired(conn, &knock.channel, &knock.sender)? {
        return Ok(Knocked::Known);
    }
    let (now, lock) = (codec::nanos(knock.at), nanos_of(knock.bounds.lock));
    let known = tries(conn, knock, &knock.sender)?;
    if known.is_none() && is_crowded(conn, knock, now - lock)? {
        return Ok(Knocked::Stranger { tell: false });
    }
    let mut own = known.unwrap_or_default();
    let mut all = tries(conn, knock, CHANNEL)?.unwrap_or_default();
    let Some(hash) = &knock.hash else {
        let tell = own.told_at == 0 || now - own.told_at >= nanos_of(knock.bounds.tell_every);
        if tell {
            own.told_at = now;
            keep(conn, knock, &knock.sender, own)?;
        }
        return Ok(Knocked::Stranger { tell });
    };
    let until = own.locked_until.max(all.locked_until);
    if until > now {
        let until = Timestamp::from_nanosecond(i128::from(until)).unwrap_or(Timestamp::MAX);
        return Ok(Knocked::Locked { until });
    }
    // Whoever is first takes it: it is gone with the same transaction.
    let made_by: Option<String> = conn
        .prepare_cached(
            "DELETE FROM pair_codes WHERE channel = ?1 AND hash = ?2 AND expires_at > ?3 \
             RETURNING made_by",
        )?
        .query_row(params![knock.channel.as_str(), hash, now], |row| row.get(0))
        .optional()?;
    match made_by {
        Some(made_by) => {
            pair(conn, knock, &made_by)?;
            Ok(Knocked::Paired)
        }
        None => {
            let KnockBounds { tries, channel_tries, .. } = knock.bounds;
            let left = own.wrongly(now, lock, tries);
            all.wrongly(now, lock, channel_tries);
            keep(conn, knock, &knock.sender, own)?;
            keep(conn, knock, CHANNEL, all)?;
            Ok(Knocked::Wrong { left })
        }
    }
}

impl Tries {
    /// One more; gives those that are left.
    fn wrongly(&mut self, now: i64, within: i64, most: u32) -> u32 {
        if now - self.since >= within {
            (self.wrong, self.since) = (0, now);
        }
        self.wrong += 1;
        if self.wrong >= most {
            self.locked_until = now.saturating_add(within);
            (self.wrong, self.since) = (0, 0);
            return 0;
        }
        most - self.wrong
    }
}

fn nanos_of(time: std::time::Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

fn pair(conn: &Connection, knock: &Knock, made_by: &str) -> Result<()> {
    conn.prepare_cached(
        "INSERT INTO pairings (channel, sender, display, paired_at, made_by) \
         VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (channel, sender) DO NOTHING",
    )?
    .execute(params![
        knock.channel.as_str(),
        knock.sender,
        knock.display,
        codec::nanos(knock.at),
        made_by
    ])?;
    conn.prepare_cached("DELETE FROM pair_tries WHERE channel = ?1 AND sender = ?2")?
        .execute(params![knock.channel.as_str(), knock.sender])?;
    let by = Decider { who: knock.sender.clone(), via: knock.channel.to_string() };
    audit(conn, "pairing.paired", &knock.channel, Some(&knock.sender), &by, knock.at)
}

fn tries(conn: &Connection, knock: &Knock, sender: &str) -> Result<Option<Tries>> {
    Ok(conn
        .prepare_cached(
            "SELECT wrong, since, locked_until, told_at FROM pair_tries \
             WHERE channel = ?1 AND sender = ?2",
        )?
        .query_row(params![knock.channel.as_str(), sender], |row| {
            Ok(Tries {
                wrong: row.get(0)?,
                since: row.get(1)?,
                locked_until: row.get(2)?,
                told_at: row.get(3)?,
            })
        })
        .optional()?)
}

fn keep(conn: &Connection, knock: &Knock, sender: &str, tries: Tries) -> Result<()> {
    conn.prepare_cached(
        "INSERT INTO pair_tries (channel, sender, wrong, since, locked_until, told_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (channel, sender) DO UPDATE SET \
         wrong = excluded.wrong, since = excluded.since, locked_until = excluded.locked_until, \
         told_at = excluded.told_at",
    )?
    .execute(params![
        knock.channel.as_str(),
        sender,
        tries.wrong,
        tries.since,
        tries.locked_until,
        tries.told_at
    ])?;
    Ok(())
}

/// Too many strangers are remembered, also after the old ones are forgotten.
fn is_crowded(conn: &Connection, knock: &Knock, long_ago: i64) -> Result<bool> {
    let count = || -> Result<i64> {
        Ok(conn
            .prepare_cached("SELECT count(*) FROM pair_tries WHERE channel = ?1")?
            .query_row([knock.channel.as_str()], |row| row.get(0))?)
    };
    if count()? < MOST_STRANGERS {
        return Ok(false);
    }
    let told_before = codec::nanos(knock.at) - nanos_of(knock.bounds.tell_every);
    conn.prepare_cached(
        "DELETE FROM pair_tries WHERE channel = ?1 AND told_at < ?2 AND since < ?3 \
         AND locked_until < ?3 AND sender <> ''",
    )?
    .execute(params![knock.channel.as_str(), told_before, long_ago])?;
    Ok(count()? >= MOST_STRANGERS)
}

/// Whether somebody paired with a channel.
pub(super) fn is_paired(conn: &Connection, channel: &ChannelId, sender: &str) -> Result<bool> {
    Ok(conn
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM pairings WHERE channel = ?1 AND sender = ?2)",
        )?
        .query_row(params![channel.as_str(), sender], |row| row.get(0))?)
}

/// All who paired, by channel and sender.
pub(super) fn list(conn: &Connection) -> Result<Vec<Pairing>> {
    super::reads::rows(
        conn,
        "SELECT channel, sender, display, paired_at, made_by FROM pairings \
         ORDER BY channel, sender",
        [],
        |row| {
            Ok(Pairing {
                channel: ChannelId(row.get(0)?),
                sender: row.get(1)?,
                display: row.get(2)?,
                paired_at: codec::time(row, 3)?,
                made_by: row.get(4)?,
            })
        },
    )
}

//! A turn's step, under its fence (I3), written once however often it is sent.

use jiff::Timestamp;
use rookery_messages::approval::Approval;
use rookery_messages::check_invariant;
use rookery_messages::envelope::ReplyAddress;
use rookery_messages::ids::ConversationId;
use rookery_messages::journal::JournalEntry;
use rookery_messages::store::{
    CommitAck, NewOutbox, OutboxPayload, StoreError, StoredMessage, TurnCommit,
};
use rookery_messages::turn::{CallRecord, CallState, TurnError, TurnFinish, TurnState};
use rookery_messages::{chat::Usage, turn::Outcome};
use rusqlite::{Connection, OptionalExtension, params};

use super::error::Result;
use super::{children, codec, finish, merge, outbox, records, spend};

/// What a commit has to know of its turn.
struct Current {
    seq: i64,
    ended: bool,
    /// Where its reply goes, if the commit has something to send.
    reply_address: Option<ReplyAddress>,
}

/// Writes the step, or finds that it is written already.
pub(super) fn commit(conn: &Connection, commit: &TurnCommit) -> Result<CommitAck> {
    let current = fenced(conn, commit)?;
    let mut ack = CommitAck {
        outbox: commit.outbox.iter().map(|row| (row.id, row.channel.clone())).collect(),
        nothing_waits: false,
        stops: Vec::new(),
        unmerged: Vec::new(),
    };
    let nothing_waits = || -> Result<bool> {
        Ok(commit.finish.is_some() && !super::reads::has_open(conn, commit.conversation_id)?)
    };
    if current.ended {
        if !is_repeated(conn, commit, &current)? {
            return Err(StoreError::Stale.into());
        }
        ack.nothing_waits = nothing_waits()?;
        return Ok(ack);
    }
    ack.unmerged = merge::rows(conn, commit)?;
    let (mut kept, mut added) = (0, 0);
    for entry in commit.entries.iter().filter(|entry| !merge::is_about(entry, &ack.unmerged)) {
        kept += 1;
        added += add_entry(conn, current.seq, entry, commit.at)?;
    }
    if added < kept {
        standing(conn, commit, current.seq)?;
        if added == 0 {
            return Ok(ack);
        }
    }
    let is_merged =
        |message: &&StoredMessage| !ack.unmerged.iter().any(|row| row.0 == message.id.0);
    for message in commit.messages.iter().filter(is_merged) {
        add_message(conn, commit.conversation_id, message)?;
    }
    for call in &commit.calls {
        put_call(conn, current.seq, call)?;
    }
    for approval in &commit.approvals {
        add_approval(conn, commit, approval)?;
    }
    if let Some(state) = commit.state {
        set_state(conn, current.seq, state)?;
    }
    spend::add(conn, current.seq, commit)?;
    // An end says the usage itself, but not what it cost.
    let says_it = commit.finish.is_some() && commit.cost_micros == 0;
    if let Some(usage) = commit.usage.filter(|_| !says_it) {
        conn.prepare_cached(
            "UPDATE turns SET input_tokens = ?2, output_tokens = ?3, cost_micros = ?4 WHERE seq = ?1",
        )?
        .execute(params![
            current.seq,
            codec::count(usage.input),
            codec::count(usage.output),
            codec::count(commit.cost_micros)
        ])?;
    }
    if commit.withdraw_approvals || commit.finish.is_some() {
        // An ended turn has no use for an answer.
        finish::withdraw(conn, commit.turn, commit.at)?;
    }
    if let Some(end) = &commit.finish
        && !finish::end(conn, current.seq, end, commit.at)?
    {
        return Err(StoreError::Stale.into());
    }
    if commit.finish.as_ref().is_some_and(children::takes_tasks_along) {
        ack.stops = children::cancel_tasks(conn, commit.turn, commit.at)?;
    }
    for row in &commit.outbox {
        check_address(commit, row, current.reply_address.as_ref())?;
        outbox::add(conn, row, commit.at)?;
    }
    for row in &commit.audit {
        records::audit(conn, row)?;
    }
    ack.nothing_waits = nothing_waits()?;
    Ok(ack)
}

/// The turn, if the commit comes from its present owner and attempt.
fn fenced(conn: &Connection, commit: &TurnCommit) -> Result<Current> {
    let found = conn
        .prepare_cached(
            "SELECT t.seq, t.outcome IS NOT NULL, t.attempts, c.lease_epoch, t.conversation_id, \
             CASE WHEN ?2 THEN t.reply_address END \
             FROM turns t JOIN conversations c ON c.id = t.conversation_id WHERE t.id = ?1",
        )?
        .query_row(params![commit.turn.0.as_bytes(), !commit.outbox.is_empty()], |row| {
            let reply_address = codec::json_option(row, 5)?;
            Ok((
                Current { seq: row.get(0)?, ended: row.get(1)?, reply_address },
                row.get::<_, u32>(2)?,
                codec::counter(row, 3)?,
                ConversationId(codec::id(row, 4)?),
            ))
        })
        .optional()?;
    let Some((current, attempt, epoch, conversation)) = found else {
        return Err(StoreError::NotFound.into());
    };
    if conversation != commit.conversation_id {
        return Err(StoreError::Conflict("the turn belongs to another conversation".into()).into());
    }
    // A turn that never began has attempt 0: nobody holds its fence.
    if attempt == 0 || attempt != commit.fence.attempt || epoch != commit.fence.epoch {
        return Err(StoreError::Stale.into());
    }
    if commit.entries.iter().any(|entry| entry.attempt != commit.fence.attempt) {
        return Err(StoreError::Conflict("an entry names another attempt".into()).into());
    }
    Ok(current)
}

/// Whether the commit that ended the turn was this very one: all its entries are there, or, if it has none,
/// its finish is.
fn is_repeated(conn: &Connection, commit: &TurnCommit, current: &Current) -> Result<bool> {
    if commit.entries.is_empty() {
        return match &commit.finish {
            Some(end) => Ok(&stored_finish(conn, current.seq)? == end),
            None => Ok(false),
        };
    }
    Ok(standing(conn, commit, current.seq)? == commit.entries.len())
}

/// How many of the commit's entries are in the database; one that says something else there is a conflict.
fn standing(conn: &Connection, commit: &TurnCommit, turn_seq: i64) -> Result<usize> {
    let mut statement = conn.prepare_cached(
        "SELECT body FROM journal WHERE turn_seq = ?1 AND attempt = ?2 AND seq = ?3",
    )?;
    let mut found = 0;
    for entry in &commit.entries {
        let stored = statement
            .query_row(params![turn_seq, entry.attempt, codec::count(entry.seq)], |row| {
                codec::json(row, 0)
            })
            .optional()?;
        match stored {
            None => {}
            Some(kind) if entry.kind == kind => found += 1,
            Some(_) => {
                let text = format!("entry {}.{} says something else", entry.attempt, entry.seq);
                return Err(StoreError::Conflict(text).into());
            }
        }
    }
    Ok(found)
}

fn stored_finish(conn: &Connection, seq: i64) -> Result<TurnFinish> {
    Ok(conn
        .prepare_cached(
            "SELECT outcome, reply, error_code, error_message, input_tokens, output_tokens \
             FROM turns WHERE seq = ?1",
        )?
        .query_row([seq], |row| {
            let code: Option<String> = row.get(2)?;
            let message: Option<String> = row.get(3)?;
            Ok(TurnFinish {
                outcome: codec::word::<Outcome>(row, 0)?,
                reply: row.get(1)?,
                error: code.map(|code| TurnError { code, message: message.unwrap_or_default() }),
                usage: Usage { input: codec::counter(row, 4)?, output: codec::counter(row, 5)? },
            })
        })?)
}

/// Writes an entry; one already there stays as it is. Tells how many were written.
pub(super) fn add_entry(
    conn: &Connection,
    turn_seq: i64,
    entry: &JournalEntry,
    at: Timestamp,
) -> Result<usize> {
    let mut statement = conn.prepare_cached(
        "INSERT INTO journal (turn_seq, attempt, seq, at, kind, body) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (turn_seq, attempt, seq) DO NOTHING",
    )?;
    Ok(statement.execute(params![
        turn_seq,
        entry.attempt,
        codec::count(entry.seq),
        codec::nanos(at),
        entry.kind.as_str(),
        serde_json::to_string(&entry.kind)?,
    ])?)
}

/// Appends a message; one already there stays as it is (A114).
pub(super) fn add_message(
    conn: &Connection,
    conversation_id: ConversationId,
    message: &StoredMessage,
) -> Result<()> {
    conn.prepare_cached(
        "INSERT INTO messages (id, conversation_id, turn_id, at, body) \
         VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (id) DO NOTHING",
    )?
    .execute(params![
        message.id.0.as_bytes(),
        conversation_id.0.as_bytes(),
        message.turn.0.as_bytes(),
        codec::nanos(message.at),
        serde_json::to_string(&message.message)?,
    ])?;
    Ok(())
}

/// Inserts or updates a call. The first end stands (I4), and that it began stays known.
fn put_call(conn: &Connection, turn_seq: i64, call: &CallRecord) -> Result<()> {
    let key = call.id.0.as_bytes();
    let (began, ended) = (call.started_at.map(codec::nanos), call.ended_at.map(codec::nanos));
    let values = params![turn_seq, key, call.tool, call.state.as_str(), began, ended];
    let update = || {
        conn.prepare_cached(
            "UPDATE calls SET tool = ?3, state = ?4, started_at = COALESCE(?5, started_at), \
             ended_at = ?6 WHERE turn_seq = ?1 AND id = ?2 \
             AND state IN ('planned', 'waiting', 'running')",
        )?
        .execute(values)
    };
    let insert = || {
        conn.prepare_cached(
            "INSERT INTO calls (turn_seq, id, tool, state, started_at, ended_at) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (turn_seq, id) DO NOTHING",
        )?
        .execute(values)
    };
    // An end nearly always finds its row, a begin none.
    let written = match call.state.is_end() {
        true => update()? > 0 || insert()? > 0,
        false => insert()? > 0 || update()? > 0,
    };
    if !written {
        let stands: CallState = conn
            .prepare_cached("SELECT state FROM calls WHERE turn_seq = ?1 AND id = ?2")?
            .query_row(params![turn_seq, key], |row| codec::word(row, 0))?;
        let (id, new) = (call.id, call.state);
        check_invariant!(I4, stands == new, "call {id} ended {stands:?}, then {new:?}");
    }
    Ok(())
}

fn add_approval(conn: &Connection, commit: &TurnCommit, approval: &Approval) -> Result<()> {
    if approval.turn != commit.turn || approval.conversation_id != commit.conversation_id {
        return Err(StoreError::Conflict("the approval belongs to another turn".into()).into());
    }
    conn.prepare_cached(
        "INSERT INTO approvals (id, turn_id, conversation_id, channel, call_id, tool, arguments, \
         arguments_hash, risk, reason, asked_at, expires_at, approvers, state, decision, \
         decided_by, decided_at, summary, offer, batch, route) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, \
         ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21) ON CONFLICT (id) DO NOTHING",
    )?
    .execute(params![
        approval.id.0.as_bytes(),
        approval.turn.0.as_bytes(),
        approval.conversation_id.0.as_bytes(),
        approval.channel.as_str(),
        approval.call.0.as_bytes(),
        approval.tool,
        serde_json::to_string(&approval.arguments)?,
        approval.arguments_hash,
        approval.risk.as_str(),
        approval.reason,
        codec::nanos(approval.asked_at),
        codec::nanos(approval.expires_at),
        serde_json::to_string(&approval.approvers)?,
        approval.state.as_str(),
        approval.decision.as_ref().map(serde_json::to_string).transpose()?,
        approval.decided_by.as_ref().map(serde_json::to_string).transpose()?,
        approval.decided_at.map(codec::nanos),
        approval.summary,
        approval.offer.as_ref().map(serde_json::to_string).transpose()?,
        approval.batch.as_ref().map(serde_json::to_string).transpose()?,
        approval.route.as_ref().map(serde_json::to_string).transpose()?,
    ])?;
    Ok(())
}

fn set_state(conn: &Connection, seq: i64, state: TurnState) -> Result<()> {
    match state {
        TurnState::Running | TurnState::WaitingApproval => {
            conn.prepare_cached("UPDATE turns SET state = ?2 WHERE seq = ?1")?
                .execute(params![seq, state.as_str()])?;
            Ok(())
        }
        TurnState::Queued | TurnState::Ended => {
            let text =
                format!("a step can't make a turn {}; it ends by its finish", state.as_str());
            Err(StoreError::Conflict(text).into())
        }
    }
}

/// A turn's reply goes where its message came from, as accepted, and nowhere else (A015).
fn check_address(
    commit: &TurnCommit,
    row: &NewOutbox,
    address: Option<&ReplyAddress>,
) -> Result<()> {
    match &row.payload {
        OutboxPayload::Reply { turn, .. } if *turn == commit.turn => {}
        OutboxPayload::Reply { .. } => {
            return Err(StoreError::Conflict("the reply belongs to another turn".into()).into());
        }
        // A notice may go to somebody else: an approver in another channel.
        OutboxPayload::Notice { .. } | OutboxPayload::Approval { .. } => return Ok(()),
    }
    if address.is_some_and(|address| *address == row.address && address.channel == row.channel) {
        Ok(())
    } else {
        Err(StoreError::Conflict("the reply's address is not the turn's".into()).into())
    }
}

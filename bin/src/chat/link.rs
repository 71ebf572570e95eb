//! The connection across its losses, and the carrying out of steps.

use std::collections::VecDeque;
use std::time::Duration;

use reqwest::StatusCode;
use rookery_messages::ids::TurnId;

use super::connection::{Connection, Incoming};
use super::input::Lines;
use super::state::{Chat, Step};
use crate::client::{Client, ClientError};
use crate::exit::{Exit, Failure};
use crate::output::{to_stderr, to_stdout};
use crate::signals::Signals;

/// Tries to connect again, the wait before each twice the one before: half a minute in all.
const TRIES: u32 = 7;
const FIRST_WAIT: Duration = Duration::from_millis(250);

/// A connection that may be lost and opened again.
pub(super) struct Link<'a> {
    client: &'a Client,
    query: Vec<(&'a str, &'a str)>,
    connection: Option<Connection>,
}

impl<'a> Link<'a> {
    /// Connects once: a service that isn't there at the begin is not waited for.
    pub(super) async fn open(
        client: &'a Client,
        query: Vec<(&'a str, &'a str)>,
    ) -> Result<Self, ClientError> {
        let connection = Some(Connection::open(client, &query).await?);
        Ok(Self { client, query, connection })
    }

    /// What comes next. Cancel safe.
    pub(super) async fn next(&mut self) -> Incoming {
        match &mut self.connection {
            Some(connection) => connection.next().await,
            None => Incoming::Lost,
        }
    }

    /// Asks for a sign of life; false when the connection is lost.
    pub(super) async fn ping(&mut self) -> bool {
        match &mut self.connection {
            Some(connection) => connection.ping().await,
            None => false,
        }
    }

    /// Gives the connection up; the next look finds it lost.
    pub(super) fn drop_connection(&mut self) {
        self.connection = None;
    }

    /// Takes leave.
    pub(super) async fn close(self) {
        if let Some(connection) = self.connection {
            connection.close().await;
        }
    }

    /// Opens the connection again; the steps that catch up, or nothing when somebody wants to leave meanwhile.
    pub(super) async fn reconnect(
        &mut self,
        chat: &mut Chat,
        signals: &mut Signals,
        lines: &mut Lines,
    ) -> Result<Option<Vec<Step>>, Failure> {
        self.connection = None;
        let note = chat.note(
            "the connection is lost; trying for half a minute, what you type meanwhile is sent then",
        );
        self.perform(chat, note).await?;
        let mut wait = FIRST_WAIT;
        let mut last = None;
        for _ in 0..TRIES {
            tokio::select! {
                _ = signals.next() => return Ok(None),
                () = lines.hold() => return Ok(None),
                () = tokio::time::sleep(wait) => {}
            }
            wait *= 2;
            match Connection::open(self.client, &self.query).await {
                Ok(connection) => {
                    self.connection = Some(connection);
                    let mut steps = chat.note("connected again");
                    steps.extend(chat.reconnected());
                    return Ok(Some(steps));
                }
                Err(error) if is_final(&error) => return Err(error.into()),
                Err(error) => last = Some(error),
            }
        }
        Err(last
            .map_or_else(|| Failure::new(Exit::Unreachable, "the connection is lost"), Into::into))
    }

    /// Carries steps out, and those that follow from them. An exit code ends the chat.
    pub(super) async fn perform(
        &mut self,
        chat: &mut Chat,
        steps: Vec<Step>,
    ) -> Result<Option<Exit>, Failure> {
        let mut steps = VecDeque::from(steps);
        while let Some(step) = steps.pop_front() {
            match step {
                Step::Out(text) => to_stdout(&text)?,
                Step::Err(text) => to_stderr(&text),
                Step::Send(frame) => {
                    if let Some(connection) = &mut self.connection
                        && !connection.send(&frame).await
                    {
                        self.connection = None;
                    }
                }
                Step::Fetch(turn) => steps.extend(self.fetch(chat, turn).await?),
                Step::Leave(exit) => return Ok(Some(exit)),
            }
        }
        Ok(None)
    }

    /// A turn's record. One that can't be had now is asked for again at the next sign of life.
    async fn fetch(&self, chat: &mut Chat, turn: TurnId) -> Result<Vec<Step>, Failure> {
        match self.client.get(&["v1", "turns", &turn.to_string()], &[]).await {
            Ok(value) => Ok(chat.fetched(self.client.read(value)?)),
            Err(error @ ClientError::Refused { status: StatusCode::NOT_FOUND, .. }) => {
                Ok(chat.lost(turn, &error.to_string()))
            }
            Err(_) => Ok(Vec::new()),
        }
    }
}

/// Whether trying again can't help.
fn is_final(error: &ClientError) -> bool {
    match error {
        ClientError::Refused { status, .. } | ClientError::Foreign { status, .. } => {
            status.is_client_error() && *status != StatusCode::TOO_MANY_REQUESTS
        }
        ClientError::BadUrl(_) | ClientError::Unreadable { .. } => true,
        ClientError::Unreachable { .. } => false,
    }
}

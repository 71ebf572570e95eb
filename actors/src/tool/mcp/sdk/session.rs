//! Requests over an open connection, each within a limit of ours.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, ListToolsRequest,
    PaginatedRequestParams, PingRequest, ProgressToken, ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestHandle, RoleClient, ServiceError};
use rookery_messages::BoxFuture;
use rookery_messages::tool::head;
use tokio_util::sync::CancellationToken;

use super::convert;
use super::handler::ProgressSinks;
use crate::tool::mcp::client::{CallError, CallOutput, CallRequest, Page, Session};

/// How long one page of a list may take.
const PAGE_LIMIT: Duration = Duration::from_secs(20);
/// How long a server may take to say that it lives.
const PING_LIMIT: Duration = Duration::from_secs(5);
/// How long telling it of a cancelled call may take.
const TELL_LIMIT: Duration = Duration::from_millis(500);
/// How long the cause of a broken connection may take to be known.
const CAUSE_LIMIT: Duration = Duration::from_secs(1);
/// Longest words of a server that are passed on, in bytes.
const LONGEST_WORDS: usize = 2_000;

/// The end of a connection, told to the calls that wait.
#[derive(Default)]
pub(super) struct End {
    over: CancellationToken,
    cause: OnceLock<String>,
}

impl End {
    /// The first cause stands.
    pub(super) fn set(&self, cause: impl Into<String>) {
        let _ = self.cause.set(cause.into());
        self.over.cancel();
    }

    pub(super) fn cause(&self) -> String {
        self.cause.get().cloned().unwrap_or_else(|| "the connection was closed".to_owned())
    }
}

/// A session over the SDK's peer.
pub(super) struct SdkSession {
    pub(super) peer: Peer<RoleClient>,
    pub(super) progress: ProgressSinks,
    pub(super) end: Arc<End>,
    /// A failed send means that the connection is gone, not that the server may come back by itself.
    pub(super) by_pipe: bool,
}

/// Forgets a call's sink.
struct Listening<'a>(&'a ProgressSinks, ProgressToken);

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.0.remove(&self.1);
    }
}

impl SdkSession {
    async fn send(&self, request: ClientRequest) -> Result<RequestHandle<RoleClient>, CallError> {
        let sent = self.peer.send_cancellable_request(request, PeerRequestOptions::no_options());
        match sent.await {
            Ok(handle) => Ok(handle),
            Err(error) => Err(self.failed(error).await),
        }
    }

    /// The answer, unless the limit, the end of the connection or `cancel` comes first.
    async fn answer(
        &self,
        mut handle: RequestHandle<RoleClient>,
        limit: Duration,
        cancel: &CancellationToken,
    ) -> Result<ServerResult, CallError> {
        let (why, error) = tokio::select! {
            biased;
            answer = &mut handle.rx => {
                return match answer {
                    Ok(Ok(result)) => Ok(result),
                    Ok(Err(error)) => Err(self.failed(error).await),
                    Err(_) => Err(self.failed(ServiceError::TransportClosed).await),
                };
            }
            () = self.end.over.cancelled() => return Err(CallError::Gone(self.end.cause())),
            () = cancel.cancelled() => ("the call was stopped", CallError::Cancelled),
            () = tokio::time::sleep(limit) => ("it took too long", CallError::TimedOut(limit)),
        };
        // A server that hangs does not read it: not waited for.
        let _ = tokio::time::timeout(TELL_LIMIT, handle.cancel(Some(why.to_owned()))).await;
        Err(error)
    }

    async fn failed(&self, error: ServiceError) -> CallError {
        match error {
            ServiceError::McpError(error) => CallError::Refused {
                code: error.code.0,
                message: head(&error.message, LONGEST_WORDS).to_owned(),
            },
            ServiceError::TransportSend(error) if !self.by_pipe => {
                CallError::Unreachable(chain(&error))
            }
            ServiceError::TransportSend(_) | ServiceError::TransportClosed => {
                // Whoever serves the connection finds out why it ended.
                let known = tokio::time::timeout(CAUSE_LIMIT, self.end.over.cancelled()).await;
                match known {
                    Ok(()) => CallError::Gone(self.end.cause()),
                    Err(_) => CallError::Gone("the connection was closed".to_owned()),
                }
            }
            other => CallError::Protocol(other.to_string()),
        }
    }
}

/// An error with its causes: the SDK's own says little.
pub(super) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    head(&text, LONGEST_WORDS).to_owned()
}

impl Session for SdkSession {
    fn list(&self, cursor: Option<String>) -> BoxFuture<'_, Result<Page, CallError>> {
        Box::pin(async move {
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            let request = ListToolsRequest::with_param(params);
            let handle = self.send(ClientRequest::ListToolsRequest(request)).await?;
            let page = match self.answer(handle, PAGE_LIMIT, &CancellationToken::new()).await? {
                ServerResult::ListToolsResult(result) => Some(convert::page(result)),
                ServerResult::CustomResult(result) => convert::loose_page(result),
                _ => None,
            };
            page.ok_or_else(|| CallError::Protocol("its list of tools can't be read".to_owned()))
        })
    }

    fn call<'a>(&'a self, call: CallRequest<'a>) -> BoxFuture<'a, Result<CallOutput, CallError>> {
        Box::pin(async move {
            let params = CallToolRequestParams::new(call.tool.to_owned())
                .with_arguments(call.arguments.clone());
            let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
            let handle = self.send(request).await?;
            let token = handle.progress_token.clone();
            self.progress.insert(token.clone(), call.progress);
            let _listening = Listening(&self.progress, token);
            let output = match self.answer(handle, call.limit, call.cancel).await? {
                ServerResult::CallToolResult(result) => Some(convert::output(result)),
                ServerResult::CustomResult(result) => convert::loose_output(result),
                ServerResult::EmptyResult(_) | ServerResult::TaskAckResult(_) => {
                    Some(CallOutput { parts: Vec::new(), is_error: false })
                }
                ServerResult::InputRequiredResult(_) => {
                    return Err(CallError::Protocol(
                        "it asks for input during the call, which nobody here can give".to_owned(),
                    ));
                }
                _ => None,
            };
            output.ok_or_else(|| CallError::Protocol("its result can't be read".to_owned()))
        })
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), CallError>> {
        Box::pin(async move {
            let request = ClientRequest::PingRequest(PingRequest::default());
            let handle = self.send(request).await?;
            match self.answer(handle, PING_LIMIT, &CancellationToken::new()).await {
                // One that does not know the method is alive.
                Ok(_) | Err(CallError::Refused { .. }) => Ok(()),
                Err(error) => Err(error),
            }
        })
    }
}

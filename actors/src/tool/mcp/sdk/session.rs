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
use super::oauth::{Authority, missing_scope};
use crate::tool::mcp::client::{CallError, CallOutput, CallRequest, Page, Session};

/// How long one page of a list may take.
const PAGE_LIMIT: Duration = Duration::from_secs(20);
/// How long a server may take to say that it lives.
const PING_LIMIT: Duration = Duration::from_secs(5);
/// How long telling it of a cancelled call may take.
const TELL_LIMIT: Duration = Duration::from_millis(500);
/// How often one request may ask for more than was granted.
const MOST_WIDENED: u32 = 2;
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
    /// What requests are authorized with, if anything.
    pub(super) authority: Option<Authority>,
}

/// Why a request has no answer.
enum Failed {
    /// It needs more than was granted.
    Scope(String),
    /// It needs authorization: the server's challenge.
    Challenge(String),
    Otherwise(CallError),
}

/// Forgets a call's sink.
struct Listening<'a>(&'a ProgressSinks, ProgressToken);

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.0.remove(&self.1);
    }
}

impl SdkSession {
    /// A request's answer. If it turns out to need authorization, that is asked for once; if it needs
    /// more than was granted, that is, a few times.
    async fn ask(
        &self,
        request: ClientRequest,
        limit: Duration,
        cancel: &CancellationToken,
        progress: Option<Arc<dyn Fn(String) + Send + Sync>>,
    ) -> Result<ServerResult, CallError> {
        let (mut asked, mut widened) = (false, 0);
        loop {
            let request = request.clone();
            let sent =
                self.peer.send_cancellable_request(request, PeerRequestOptions::no_options());
            let answer = match sent.await {
                Ok(handle) => {
                    let token = handle.progress_token.clone();
                    if let Some(progress) = &progress {
                        self.progress.insert(token.clone(), Arc::clone(progress));
                    }
                    let _listening = Listening(&self.progress, token);
                    self.answer(handle, limit, cancel).await
                }
                Err(error) => Err(self.failed(error).await),
            };
            match (answer, &self.authority) {
                (Ok(result), _) => return Ok(result),
                (Err(Failed::Otherwise(error)), _) => return Err(error),
                (Err(Failed::Scope(scope)), Some(authority)) if widened < MOST_WIDENED => {
                    widened += 1;
                    authority.widen(&scope).await.map_err(CallError::Protocol)?;
                }
                (Err(Failed::Challenge(challenge)), Some(authority)) if !asked => {
                    asked = true;
                    authority.obtain(&challenge).await.map_err(CallError::Protocol)?;
                }
                (Err(Failed::Challenge(_)), _) => {
                    let what = "it refuses us without authorization".to_owned();
                    return Err(CallError::Protocol(what));
                }
                (Err(Failed::Scope(scope)), _) => {
                    let what = format!("it refuses us without the scope {scope}");
                    return Err(CallError::Protocol(what));
                }
            }
        }
    }

    /// The answer, unless the limit, the end of the connection or `cancel` comes first.
    async fn answer(
        &self,
        mut handle: RequestHandle<RoleClient>,
        limit: Duration,
        cancel: &CancellationToken,
    ) -> Result<ServerResult, Failed> {
        let (why, error) = tokio::select! {
            biased;
            answer = &mut handle.rx => {
                return match answer {
                    Ok(Ok(result)) => Ok(result),
                    Ok(Err(error)) => Err(self.failed(error).await),
                    Err(_) => Err(self.failed(ServiceError::TransportClosed).await),
                };
            }
            () = self.end.over.cancelled() => {
                return Err(Failed::Otherwise(CallError::Gone(self.end.cause())));
            }
            () = cancel.cancelled() => ("the call was stopped", CallError::Cancelled),
            () = tokio::time::sleep(limit) => ("it took too long", CallError::TimedOut(limit)),
        };
        // A server that hangs does not read it: not waited for.
        let _ = tokio::time::timeout(TELL_LIMIT, handle.cancel(Some(why.to_owned()))).await;
        Err(Failed::Otherwise(error))
    }

    async fn failed(&self, error: ServiceError) -> Failed {
        if let Some(scope) = missing_scope(&error) {
            return Failed::Scope(scope);
        }
        if let Some(challenge) = error.auth_challenge() {
            return Failed::Challenge(challenge.to_owned());
        }
        Failed::Otherwise(match error {
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
        })
    }
}

/// An error with its causes: the SDK's own says little.
pub(super) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = without_types(&error.to_string());
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = without_types(&cause.to_string());
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    head(&text, LONGEST_WORDS).to_owned()
}

/// The SDK names the Rust type of its transport, which tells an operator nothing.
fn without_types(text: &str) -> String {
    const FROM: &str = "Transport [";
    const TO: &str = "] error: ";
    match text.split_once(FROM).and_then(|(before, rest)| Some((before, rest.split_once(TO)?.1))) {
        Some(("Send message error ", cause)) => format!("can't send to it: {cause}"),
        Some((before, cause)) => format!("{before}{cause}"),
        None => text.to_owned(),
    }
}

impl Session for SdkSession {
    fn list(&self, cursor: Option<String>) -> BoxFuture<'_, Result<Page, CallError>> {
        Box::pin(async move {
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            let request = ListToolsRequest::with_param(params);
            let request = ClientRequest::ListToolsRequest(request);
            let page = match self.ask(request, PAGE_LIMIT, &CancellationToken::new(), None).await? {
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
            let answer = self.ask(request, call.limit, call.cancel, Some(call.progress)).await?;
            let output = match answer {
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

    fn is_over(&self) -> bool {
        self.end.over.is_cancelled()
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), CallError>> {
        Box::pin(async move {
            let request = ClientRequest::PingRequest(PingRequest::default());
            match self.ask(request, PING_LIMIT, &CancellationToken::new(), None).await {
                // One that does not know the method is alive.
                Ok(_) | Err(CallError::Refused { .. }) => Ok(()),
                Err(error) => Err(error),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_operator_reads_has_no_rust_types_in_it() {
        let sdk = "Send message error Transport [rmcp::transport::async_rw::AsyncRwTransport<\
                   rmcp::service::client::RoleClient, tokio::process::ChildStdout>] error: Broken pipe";
        assert_eq!(without_types(sdk), "can't send to it: Broken pipe");
        assert_eq!(without_types("connection closed"), "connection closed");
    }
}

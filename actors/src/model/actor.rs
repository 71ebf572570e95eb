//! One model call's actor: `model/<n>` below its turn.
//!
//! Its one task asks the profiles of the chain for a slot, streams, retries what failed before anything
//! was shown, and falls back. Deltas go to the clients through the turn's voice, which never waits, so a
//! slow reader never slows the stream (V-E24). Calls that a model writes as text are found here, before
//! anything is shown or recorded: what the turn gets are calls, however they came (T8). A stop aborts the task, which closes the connection; what
//! had been shown is reported. Exactly one report goes to the turn, on a place reserved at the spawn.

mod reply;

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use parking_lot::Mutex;
use rookery_messages::address::{Address, Reserved, SendError};
use rookery_messages::chat::{Arguments, OpaqueBlock, ToolCall, Usage};
use rookery_messages::event::TurnEventKind;
use rookery_messages::exit::{ActorError, StopReason};
use rookery_messages::ids::CallId;
use rookery_messages::model::{
    Admission, FinishReason, ModelDelta, ModelEnd, ModelError, ModelErrorClass, ModelMsg,
    ModelReport, ModelRequest, ModelResponse, ProviderMsg, RawCall, Slot,
};
use rookery_messages::observe::Observation;
use rookery_messages::settings::ToolMode;
use rookery_messages::time::{World, rfc3339_millis};
use rookery_messages::tool::{ToolSpec, head};
use rookery_messages::turn::TurnMsg;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

use super::ceiling::Ceiling;
use super::gallery::ImageFolder;
use super::sight::Sight;
use super::text::{Released, ReplyReader, as_text};
use crate::observe::TurnVoice;
use crate::policy::redact::{Redactor, ScrubStream};
use crate::runtime::{Ctx, Supervised};

/// The first pause before a retry; doubles, with full jitter on top of half of it.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause of our own making.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The longest a call waits for a cooling profile, all in all, when there is no other.
const LONGEST_COOLDOWN_WAIT: Duration = Duration::from_secs(300);
/// How long a call waits for a profile's actor that is being restarted, and between its looks.
const RESTART_WAIT: Duration = Duration::from_secs(10);
const RESTART_STEP: Duration = Duration::from_millis(50);
/// Most failed profiles that an error or a notice names, and the most bytes of them.
const MAX_LISTED: usize = 8;
const MAX_LISTED_BYTES: usize = 2_048;
/// People are told about a wait longer than this.
const TELL_AFTER: Duration = Duration::from_secs(3);

/// See the module's documentation.
pub struct ModelActor;

/// One profile of the chain.
#[derive(Clone, Debug)]
pub struct ProfileRef {
    /// The profile's name.
    pub name: String,
    /// Its actor.
    pub address: Address<ProviderMsg>,
    /// Tries before the next profile.
    pub max_attempts: u32,
    /// How its model asks for tools.
    pub tool_mode: ToolMode,
    /// What its model sees.
    pub sight: Sight,
    /// What its model was found not to take.
    pub ceiling: Arc<Ceiling>,
}

/// What it is built from.
pub struct ModelArgs {
    /// Which model call of the turn, from 1.
    pub iteration: u32,
    /// What is sent.
    pub request: ModelRequest,
    /// Where the images of its messages are.
    pub images: ImageFolder,
    /// What that is estimated at, in tokens.
    pub estimated: u64,
    /// The profiles to try, in order.
    pub chain: Arc<[ProfileRef]>,
    /// The tools that a call written as text may name; more than are offered where none may be called.
    pub known: Arc<Vec<Arc<ToolSpec>>>,
    /// Only native calls count.
    pub strict: bool,
    /// The turn's voice.
    pub voice: TurnVoice,
    /// Takes configured secrets out of what the model says, before anybody sees or runs it (I12).
    pub redactor: Arc<Redactor>,
    /// Visible text so far; shared, so that a crash of this actor does not lose it (V-N4).
    pub shown: Arc<Mutex<String>>,
    /// The place of its one report.
    pub report: Reserved<TurnMsg>,
}

/// What it knows.
pub struct ModelCall {
    iteration: u32,
    shown: Arc<Mutex<String>>,
    spent: Arc<Mutex<Usage>>,
    report: Option<Reserved<TurnMsg>>,
}

impl Supervised for ModelActor {
    const KIND: &'static str = "model";
    type Msg = ModelMsg;
    type Args = ModelArgs;
    type State = ModelCall;

    fn start(ctx: &mut Ctx<Self>, args: ModelArgs) -> Result<ModelCall, ActorError> {
        let spent = Arc::new(Mutex::new(Usage::default()));
        let call = Call {
            request: args.request,
            images: args.images,
            estimated: args.estimated,
            chain: args.chain,
            known: args.known,
            strict: args.strict,
            voice: args.voice,
            redactor: args.redactor,
            shown: Arc::clone(&args.shown),
            spent: Arc::clone(&spent),
            world: ctx.world().clone(),
        };
        let profiles: Vec<&str> = call.chain.iter().map(|one| one.name.as_str()).collect();
        ctx.set_waiting_on(Some(format!("provider {}", profiles.join(", then "))));
        ctx.task(async move {
            let end = match call.run().await {
                Ok(end) => end,
                Err(error) => ModelEnd::Failed { error, partial: call.shown.lock().clone() },
            };
            let spent = *call.spent.lock();
            Some(ModelMsg::Done { end, spent })
        });
        let ModelArgs { iteration, shown, report, .. } = args;
        Ok(ModelCall { iteration, shown, spent, report: Some(report) })
    }

    async fn handle(
        ctx: &mut Ctx<Self>,
        state: &mut ModelCall,
        message: ModelMsg,
    ) -> Result<(), ActorError> {
        let ModelMsg::Done { end, spent } = message;
        state.report(end, spent);
        ctx.end();
        Ok(())
    }

    async fn stop_requested(
        ctx: &mut Ctx<Self>,
        state: &mut ModelCall,
        reason: &StopReason,
    ) -> Result<(), ActorError> {
        let (partial, spent) = (state.shown.lock().clone(), *state.spent.lock());
        state.report(ModelEnd::Stopped { reason: reason.clone(), partial }, spent);
        ctx.end();
        Ok(())
    }

    fn observe(state: &ModelCall) -> Value {
        json!({ "iteration": state.iteration, "shown_bytes": state.shown.lock().len() })
    }
}

impl ModelCall {
    fn report(&mut self, end: ModelEnd, spent: Usage) {
        if let Some(report) = self.report.take() {
            let report = report.send(TurnMsg::ModelEnded(ModelReport {
                iteration: self.iteration,
                end,
                spent,
            }));
            // An error means that the turn has ended: nobody waits for the answer.
            let _ = report;
        }
    }
}

struct Call {
    request: ModelRequest,
    images: ImageFolder,
    estimated: u64,
    chain: Arc<[ProfileRef]>,
    known: Arc<Vec<Arc<ToolSpec>>>,
    strict: bool,
    voice: TurnVoice,
    redactor: Arc<Redactor>,
    shown: Arc<Mutex<String>>,
    spent: Arc<Mutex<Usage>>,
    world: World,
}

/// Why an attempt did not give a response.
struct Failed {
    error: ModelError,
    /// Text had been shown: it can't be taken back, so nothing is tried again.
    final_: bool,
}

impl Call {
    async fn run(&self) -> Result<ModelEnd, ModelError> {
        self.check_capability()?;
        let mut last = ModelError::new(
            ModelErrorClass::InvalidRequest,
            "no provider profile is configured for this agent; set agents.<name>.provider",
        );
        let mut failed: Vec<(&str, ModelErrorClass)> = Vec::new();
        for (index, profile) in self.chain.iter().enumerate() {
            let is_last = index + 1 == self.chain.len();
            // What it was found not to take goes to whoever may take it.
            if !self.may_fit(profile) && self.chain[index + 1..].iter().any(|it| self.may_fit(it)) {
                failed.push((profile.name.as_str(), ModelErrorClass::ContextTooLong));
                continue;
            }
            match self.try_profile(profile, is_last).await {
                Ok(end) => {
                    self.tell_who_served(&end, &failed);
                    return Ok(end);
                }
                Err(Failed { error, final_: true }) => return Err(error),
                Err(Failed { error, final_: false }) => {
                    tracing::warn!(profile = profile.name, %error, "a provider could not answer");
                    failed.push((profile.name.as_str(), error.class));
                    last = error;
                }
            }
        }
        if failed.len() > 1 {
            last.message = nobody_answered(&failed);
        }
        Err(last)
    }

    fn may_fit(&self, profile: &ProfileRef) -> bool {
        profile.ceiling.tokens().is_none_or(|most| self.estimated <= most)
    }

    /// V-L11: that another profile gave the answer is said once, with the final one.
    fn tell_who_served(&self, end: &ModelEnd, failed: &[(&str, ModelErrorClass)]) {
        if let (ModelEnd::Completed(response), false) = (end, failed.is_empty())
            && response.calls.is_empty()
        {
            let text = format!("answered by provider {} ({})", response.served_by, listed(failed));
            self.voice.tell(TurnEventKind::Notice { text });
        }
    }

    /// V-D24: with strict parsing a profile in text mode gets no tools, so that what an agent can do would
    /// depend on which profile happens to serve.
    fn check_capability(&self) -> Result<(), ModelError> {
        let mut modes = self.chain.iter().map(|profile| profile.tool_mode);
        let first = modes.next();
        if !self.strict || self.request.tools.is_empty() || modes.all(|mode| Some(mode) == first) {
            return Ok(());
        }
        let names: Vec<&str> = self
            .chain
            .iter()
            .filter(|profile| profile.tool_mode == ToolMode::Text)
            .map(|profile| profile.name.as_str())
            .collect();
        Err(ModelError::new(
            ModelErrorClass::Capability,
            format!(
                "tools were not offered to anybody: strict_tool_parsing is on, and of the agent's providers \
                 {} can be offered tools as text only; take strict_tool_parsing out of the runtime profile, \
                 or these providers out of the fallbacks and of vision_provider",
                names.join(", ")
            ),
        ))
    }

    async fn try_profile(&self, profile: &ProfileRef, is_last: bool) -> Result<ModelEnd, Failed> {
        let mut pause = FIRST_PAUSE;
        let mut attempt = 0;
        let mut waited = Duration::ZERO;
        loop {
            attempt += 1;
            let slot = match self.admission(profile).await {
                Ok(Admission::Granted(slot)) => slot,
                Ok(Admission::CoolingDown { until, wait, cause, capped }) => {
                    let error = ModelError {
                        class: cause,
                        message: format!(
                            "provider {} asks to wait until {}{}",
                            profile.name,
                            rfc3339_millis(until),
                            longer(&profile.name, capped)
                        ),
                        retry_after: Some(wait),
                    };
                    // A cooling profile is skipped if there is another (A044).
                    waited += wait;
                    // Others may make it longer again and again: the sum is bounded (A050).
                    if !is_last || waited > LONGEST_COOLDOWN_WAIT {
                        return Err(Failed { error, final_: false });
                    }
                    self.wait(profile, wait, capped).await;
                    attempt -= 1;
                    continue;
                }
                Ok(Admission::Refused(error)) | Err(error) => {
                    return Err(Failed { error, final_: false });
                }
            };
            let failed = match self.attempt(profile, slot).await {
                Ok(end) => return Ok(end),
                Err(failed) => failed,
            };
            if failed.final_
                || !failed.error.class.is_retryable()
                || attempt >= profile.max_attempts
            {
                return Err(failed);
            }
            // With a time from the provider the profile's actor cools down and says until when.
            if failed.error.retry_after.is_none() {
                let half = pause / 2;
                self.wait(profile, half + self.world.jitter(half), false).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }

    async fn wait(&self, profile: &ProfileRef, wait: Duration, capped: bool) {
        if wait > TELL_AFTER {
            let until = self.world.now() + wait;
            self.voice.tell(TurnEventKind::Notice {
                text: format!(
                    "waiting for provider {} until {}{}",
                    profile.name,
                    rfc3339_millis(until),
                    longer(&profile.name, capped)
                ),
            });
        }
        sleep(wait).await;
    }

    /// A profile's actor that restarts is waited for: its crash is no failure of this call (I8).
    async fn admission(&self, profile: &ProfileRef) -> Result<Admission, ModelError> {
        let gone = |what: &str| {
            let message = format!("the actor of provider {} {what}", profile.name);
            ModelError::new(ModelErrorClass::Server, message)
        };
        let deadline = Instant::now() + RESTART_WAIT;
        loop {
            let (reply, answer) = oneshot::channel();
            match profile.address.send(ProviderMsg::Acquire { reply }).await {
                Ok(()) => {
                    if let Ok(admission) = self.told_while(profile, answer).await {
                        return Ok(admission);
                    }
                }
                Err(SendError::Closed(_)) => {
                    return Err(gone("has been stopped; restart it in the tree"));
                }
                Err(_) => {}
            }
            if Instant::now() >= deadline {
                return Err(gone("is being restarted and did not come back in time"));
            }
            sleep(RESTART_STEP).await;
        }
    }

    /// An answer that takes long is waited for, and people hear of it.
    async fn told_while<T>(
        &self,
        profile: &ProfileRef,
        mut answer: oneshot::Receiver<T>,
    ) -> Result<T, oneshot::error::RecvError> {
        if let Ok(answer) = timeout(TELL_AFTER, &mut answer).await {
            return answer;
        }
        self.voice.tell(TurnEventKind::Notice {
            text: format!("waiting for a free place at provider {}", profile.name),
        });
        answer.await
    }

    async fn attempt(&self, profile: &ProfileRef, slot: Slot) -> Result<ModelEnd, Failed> {
        let began = Instant::now();
        let mut usage = Usage::default();
        let result = self.stream(profile, &slot, &mut usage).await.map_err(|error| ModelError {
            // A provider knows its own key only; what it says may hold another's.
            message: self.redactor.scrub(&error.message),
            ..error
        });
        drop(slot.permit);
        // V-F18: a rejected reply is no success, though the provider did its part.
        let class = match &result {
            Ok(ModelEnd::Rejected { .. }) => Some(ModelErrorClass::MalformedCall),
            Ok(_) => None,
            Err(error) => Some(error.class),
        };
        match &class {
            Some(ModelErrorClass::ContextTooLong) => profile.ceiling.too_long(self.estimated),
            None => profile.ceiling.fits(self.estimated),
            Some(_) => {}
        }
        let error = result.as_ref().err().cloned();
        self.voice.observe(|scope| Observation::ModelCall {
            scope,
            provider: profile.name.clone(),
            error: class,
            duration: began.elapsed(),
            usage,
        });
        // Best effort: a full mailbox costs the profile one observation of its health.
        let _ = profile.address.try_send(ProviderMsg::Outcome { error });
        result.map_err(|error| {
            self.spent.lock().add(usage);
            Failed { error, final_: !self.shown.lock().is_empty() }
        })
    }
}

/// V-L9: what each profile said stands in the log; a person reads which failed, and how.
fn nobody_answered(failed: &[(&str, ModelErrorClass)]) -> String {
    let said =
        format!("no provider could answer ({}); see the log for what they said", listed(failed));
    head(&said, MAX_LISTED_BYTES).to_owned()
}

fn listed(failed: &[(&str, ModelErrorClass)]) -> String {
    let shown =
        failed.iter().take(MAX_LISTED).map(|(name, class)| format!("{name}: {}", class.code()));
    let shown = shown.collect::<Vec<_>>().join(", ");
    match failed.len().checked_sub(MAX_LISTED) {
        None | Some(0) => shown,
        Some(more) => format!("{shown}, and {more} more"),
    }
}

/// What is said of a wait that is shorter than the provider asked for (V-L6).
fn longer(profile: &str, capped: bool) -> String {
    match capped {
        true => format!(
            " (it asked for longer, and providers.{profile}.max_retry_after_secs is the most that is waited)"
        ),
        false => String::new(),
    }
}

//! One reply as it comes: what is shown of it, what it asks for, what it comes to.

use super::*;

/// What was shown of one reply, and what is on its way there.
struct Shown {
    text: String,
    said: ScrubStream,
    thought: ScrubStream,
}

/// What a complete reply said.
struct Said {
    text: String,
    /// As it was written, if the reply closes a turn.
    raw: String,
    /// It holds calls, and closes a turn all the same.
    closes: bool,
}

impl Call {
    pub(super) async fn stream(
        &self,
        profile: &ProfileRef,
        slot: &Slot,
        usage: &mut Usage,
    ) -> Result<ModelEnd, ModelError> {
        let mut stream = slot.provider.stream(self.request_for(profile).await).await?;
        let mut reader = self.reader();
        let mut shown = Shown {
            text: String::new(),
            said: ScrubStream::new(Arc::clone(&self.redactor)),
            thought: ScrubStream::new(Arc::clone(&self.redactor)),
        };
        let mut opaque = Vec::new();
        let mut raw = String::new();
        while let Some(delta) = stream.next().await {
            let delta = match delta {
                // The provider itself could not read what its model asked for: the same as a textual
                // call that can't be read (V-F16).
                Err(error) if error.class == ModelErrorClass::MalformedCall => {
                    let why = self.redactor.scrub(&error.message);
                    let rest = (shown.thought.finish(), shown.said.finish());
                    self.tell(rest.0, rest.1, &mut shown.text);
                    let partial = self.shown.lock().clone();
                    return Ok(ModelEnd::Rejected { why, partial, usage: *usage });
                }
                delta => delta?,
            };
            match delta {
                ModelDelta::Text(part) => {
                    if self.is_closing() {
                        raw.push_str(&part);
                    }
                    self.show(reader.push(&part), &mut shown);
                }
                // Reasoning never becomes text (V-E5).
                ModelDelta::Thinking(thinking) => {
                    self.show(Released { thinking, ..Released::default() }, &mut shown);
                }
                ModelDelta::Usage(reported) => *usage = reported,
                ModelDelta::Opaque(block) => opaque.push(block),
                ModelDelta::Ended { mut calls, mut finish } => {
                    let end = reader.finish();
                    self.show(Released { text: end.text, thinking: end.thinking }, &mut shown);
                    let rest = (shown.thought.finish(), shown.said.finish());
                    self.tell(rest.0, rest.1, &mut shown.text);
                    let mut text = shown.text;
                    // V-K4: nobody is asked again what no call can answer any more.
                    let unreadable = end.malformed.filter(|_| calls.is_empty());
                    let closes =
                        self.is_closing() && (unreadable.is_some() || !end.calls.is_empty());
                    if let Some(why) = unreadable.filter(|_| !closes) {
                        let (why, partial) = (self.redactor.scrub(&why), self.shown.lock().clone());
                        return Ok(ModelEnd::Rejected { why, partial, usage: *usage });
                    }
                    if !end.calls.is_empty() {
                        // The line breaks around the calls are no part of what was said.
                        text.truncate(text.trim_end().len());
                    }
                    take_textual(&mut calls, end.calls, &mut finish);
                    let said = Said { text, raw, closes };
                    let response = self.complete(profile, said, (calls, opaque), finish, *usage)?;
                    return Ok(ModelEnd::Completed(response));
                }
            }
        }
        Err(ModelError::new(
            ModelErrorClass::Truncated,
            format!("the stream of provider {} ended before its terminal event", profile.name),
        ))
    }

    /// What this profile is sent: its model may know tools from the prompt only (T4), and see nothing.
    /// Images are read for each attempt, with its slot in hand: so many are in memory as calls are made.
    async fn request_for(&self, profile: &ProfileRef) -> ModelRequest {
        let request = match profile.tool_mode {
            ToolMode::Native => self.request.clone(),
            ToolMode::Text if self.strict => {
                as_text(&ModelRequest { tools: Arc::default(), ..self.request.clone() })
            }
            ToolMode::Text => as_text(&self.request),
        };
        self.images.fill(request, profile.sight).await
    }

    /// There are tools, but none is on offer any more: what is said now closes the turn.
    fn is_closing(&self) -> bool {
        self.request.tools.is_empty() && !self.known.is_empty()
    }

    fn reader(&self) -> ReplyReader {
        if self.strict || self.known.is_empty() {
            ReplyReader::plain()
        } else {
            ReplyReader::with_tools(&self.known)
        }
    }

    fn show(&self, released: Released, shown: &mut Shown) {
        let thought = shown.thought.push(&released.thinking);
        let said = shown.said.push(&released.text);
        self.tell(thought, said, &mut shown.text);
    }

    fn tell(&self, thought: String, said: String, text: &mut String) {
        if !thought.is_empty() {
            self.voice.tell(TurnEventKind::Thinking { text: thought });
        }
        if !said.is_empty() {
            text.push_str(&said);
            self.shown.lock().push_str(&said);
            self.voice.tell(TurnEventKind::Delta { text: said });
        }
    }

    fn complete(
        &self,
        profile: &ProfileRef,
        said: Said,
        (calls, mut opaque): (Vec<RawCall>, Vec<OpaqueBlock>),
        finish: FinishReason,
        usage: Usage,
    ) -> Result<ModelResponse, ModelError> {
        // V-E18: an empty completion is a failed attempt; one that used up its output limit is not,
        // since trying again would do the same; nor is one that the provider's filter took away.
        let told = matches!(finish, FinishReason::Length | FinishReason::ContentFilter);
        let is_empty = said.text.trim().is_empty() && calls.is_empty() && !said.closes;
        if is_empty && !told {
            return Err(ModelError::new(
                ModelErrorClass::Empty,
                format!("provider {} gave an empty answer", profile.name),
            ));
        }
        let calls = calls
            .into_iter()
            .map(|raw| ToolCall {
                id: CallId(self.world.ids.next()),
                provider_id: raw.provider_id,
                name: self.redactor.scrub(&raw.name),
                arguments: Arguments::parse(&self.redactor.scrub(&raw.arguments)),
            })
            .collect();
        let text = self.redactor.scrub(&said.text);
        let raw = Some(self.redactor.scrub(&said.raw))
            .filter(|raw| self.is_closing() && !raw.trim().is_empty() && *raw != text);
        // I12: a block in which the model repeats a secret can't be altered, so it is not kept.
        opaque.retain(|block| {
            let said = block.block.to_string();
            self.redactor.scrub(&said) == said
        });
        let served_by = profile.name.clone();
        Ok(ModelResponse { text, raw, calls, opaque, finish, usage, served_by })
    }
}

/// The calls found in the text join the native ones. A model that writes a call both ways means it once.
fn take_textual(calls: &mut Vec<RawCall>, textual: Vec<RawCall>, finish: &mut FinishReason) {
    let native = calls.len();
    for call in textual {
        let arguments = Arguments::parse(&call.arguments);
        let same = |other: &RawCall| {
            other.name.eq_ignore_ascii_case(&call.name)
                && Arguments::parse(&other.arguments) == arguments
        };
        if !calls[..native].iter().any(same) {
            calls.push(call);
        }
    }
    // The cap of the output still says that the last call may be cut.
    if calls.len() > native && *finish != FinishReason::Length {
        *finish = FinishReason::ToolCalls;
    }
}

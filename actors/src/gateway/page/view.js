// What is shown. Everything from outside goes in as text, never as markup.

function node(kind, className, text) {
  const element = document.createElement(kind);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

function button(label, action) {
  const element = node("button", "", label);
  element.type = "button";
  element.addEventListener("click", action);
  return element;
}

// Controls, zero-width and bidirectional characters as their escapes: what is shown is what runs.
const visible = (text) =>
  text.replace(/[\p{Cc}\p{Cf}\u2028\u2029\u115f\u1160\u3164\uffa0]/gu, (c) =>
    c === "\n" || c === "\t" ? c : `\\u{${c.codePointAt(0).toString(16)}}`,
  );

const shown = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));

export class Log {
  constructor(element) {
    this.element = element;
    this.clear();
  }

  clear() {
    this.element.replaceChildren();
    this.answers = new Map();
    this.calls = new Map();
    this.approvals = new Map();
  }

  append(element) {
    const atEnd = this.element.scrollHeight - this.element.scrollTop - this.element.clientHeight < 80;
    this.element.append(element);
    if (atEnd) element.scrollIntoView({ block: "end" });
    return element;
  }

  line(className, text) {
    return this.append(node("div", `item ${className}`, text));
  }

  // Text of a turn goes into one block until something else of the turn comes.
  delta(turn, text, className = "assistant") {
    const open = this.answers.get(turn);
    if (open && open.className === `item ${className}`) {
      open.append(text);
      return;
    }
    this.answers.set(turn, this.line(className, text));
  }

  call(frame) {
    this.answers.delete(frame.turn);
    const card = node("details", "item card");
    const state = node("span", "", " · running");
    const summary = node("summary", "", frame.tool);
    summary.append(state);
    card.append(summary);
    if (frame.arguments !== undefined) card.append(node("pre", "", shown(frame.arguments)));
    this.calls.set(frame.call, { card, state });
    this.append(card);
  }

  result(frame) {
    const call = this.calls.get(frame.call);
    if (!call) {
      this.line("notice", [frame.state, frame.output].filter(Boolean).join(": "));
      return;
    }
    call.state.textContent = frame.state ? ` · ${frame.state}` : "";
    call.card.append(node("pre", "", frame.output));
  }

  approval(frame, decide) {
    // Shown again, it keeps its place.
    const former = this.approvals.get(frame.id)?.card;
    this.answers.delete(frame.turn);
    const card = node("div", "item card approval");
    if (frame.tool === "ask_user") {
      this.question(card, frame, decide);
      if (former) former.replaceWith(card);
      else this.append(card);
      this.approvals.set(frame.id, { card, turn: frame.turn, pending: frame.state === "pending", decide });
      return;
    }
    const place = frame.batch ? `[${frame.batch.position} of ${frame.batch.of}] ` : "";
    card.append(node("strong", "", `${place}${visible(frame.tool)} asks (${frame.risk} risk)`));
    card.append(node("div", "", visible(frame.reason)), node("pre", "", visible(shown(frame.arguments))));
    if (frame.state === "pending") {
      card.append(this.buttons(frame, decide));
    } else {
      const by = frame.decided_by ? ` by ${frame.decided_by.who} via ${frame.decided_by.via}` : "";
      const word = frame.decision?.decision === "replace" ? "replaced" : frame.state;
      card.append(node("div", "notice", visible(`${word}${by}`)));
    }
    if (former) former.replaceWith(card);
    else this.append(card);
    this.approvals.set(frame.id, { card, turn: frame.turn, batch: frame.batch?.id, pending: frame.state === "pending", decide });
  }

  buttons(frame, decide) {
    const buttons = node("div", "buttons");
    const replacement = node("input");
    replacement.placeholder = "result in its place";
    replacement.setAttribute("aria-label", "Result in its place");
    buttons.append(button("approve", () => decide({ decision: "approve" })));
    buttons.append(button("deny", () => decide({ decision: "deny" })));
    if (frame.batch) {
      buttons.append(button("approve all", () => this.all(frame.batch.id, "approve")));
      buttons.append(button("deny all", () => this.all(frame.batch.id, "deny")));
    }
    buttons.append(
      replacement,
      button("replace", () => decide({ decision: "replace", replacement: replacement.value })),
    );
    if (frame.offer) {
      const always = node("div", "offer", `always would cover: ${visible(frame.offer.pattern)}`);
      const here = () => decide({ decision: "always", scope: "conversation" });
      const agent = () => decide({ decision: "always", scope: "agent" });
      always.append(button("always here", here), button("always for the agent", agent));
      buttons.append(always);
    }
    return buttons;
  }

  // Those of one response that nobody has decided yet.
  all(batch, decision) {
    for (const one of this.approvals.values()) {
      if (one.pending && one.batch === batch) one.decide({ decision });
    }
  }

  // A question: a choice, or what is typed, is the answer.
  question(card, frame, decide) {
    const asked = frame.arguments ?? {};
    card.append(node("strong", "", visible(asked.question ?? "")));
    if (frame.state !== "pending") {
      card.append(node("div", "notice", frame.decision?.replacement ?? frame.state));
      return;
    }
    const say = (text) => decide({ decision: "replace", replacement: text });
    const answer = node("input");
    answer.placeholder = "your answer";
    answer.setAttribute("aria-label", "Your answer");
    const buttons = node("div", "buttons");
    for (const choice of asked.choices ?? []) buttons.append(button(visible(choice), () => say(choice)));
    buttons.append(answer, button("answer", () => say(answer.value)));
    buttons.append(button("decline", () => decide({ decision: "deny" })));
    card.append(buttons);
  }

  // What the store says became of it, never what was pressed.
  decided(id, text) {
    const one = this.approvals.get(id);
    if (!one || !one.pending) return;
    one.pending = false;
    one.card.querySelector(".buttons")?.remove();
    one.card.append(node("div", "notice", visible(text)));
  }

  ended(frame) {
    for (const [id, one] of this.approvals) {
      if (one.turn === frame.turn) this.decided(id, "withdrawn: the turn has ended");
    }
    const open = this.answers.get(frame.turn);
    this.answers.delete(frame.turn);
    if (frame.outcome === "answered") {
      if (open && open.className === "item assistant") open.textContent = frame.reply ?? "";
      else if (frame.reply) this.line("assistant", frame.reply);
    } else {
      const why = frame.error?.message ?? "";
      // A cause that names the outcome says it all: cancelled by user.
      const text = why.startsWith(frame.outcome) ? why : [frame.outcome, why].filter(Boolean).join(": ");
      this.line(frame.outcome === "failed" ? "error" : "notice", text);
    }
  }

  history(messages) {
    for (const message of messages) {
      if (message.role === "tool") {
        // How it ended stands in its text: the history keeps what the model reads.
        this.result({ call: message.call, output: message.content });
        continue;
      }
      if (message.content) this.line(message.role === "user" ? "user" : "assistant", message.content);
      for (const call of message.calls ?? []) {
        this.call({ call: call.id, tool: call.tool, arguments: call.arguments, turn: message.turn });
      }
    }
  }
}

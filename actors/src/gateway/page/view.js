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
    this.approvals.get(frame.id)?.remove();
    this.answers.delete(frame.turn);
    const card = node("div", "item card approval");
    card.append(node("strong", "", `${frame.tool} asks (${frame.risk} risk)`));
    card.append(node("div", "", frame.reason), node("pre", "", shown(frame.arguments)));
    if (frame.state === "pending") {
      const replacement = node("input");
      replacement.placeholder = "result in its place";
      replacement.setAttribute("aria-label", "Result in its place");
      const buttons = node("div", "buttons");
      for (const decision of ["approve", "deny", "always"]) {
        buttons.append(button(decision, () => decide({ decision })));
      }
      const replace = () => decide({ decision: "replace", replacement: replacement.value });
      buttons.append(replacement, button("replace", replace));
      card.append(buttons);
    } else {
      card.append(node("div", "notice", frame.state));
    }
    this.approvals.set(frame.id, this.append(card));
  }

  // What the store says became of it, never what was pressed.
  decided(id, text) {
    const card = this.approvals.get(id);
    if (!card) return;
    card.querySelector(".buttons")?.remove();
    card.append(node("div", "notice", text));
  }

  ended(frame) {
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

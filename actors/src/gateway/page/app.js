// The page: which conversation is open, and what its frames do.

import { Conversation } from "/page/socket.js";
import { Log } from "/page/view.js";

const at = (id) => document.getElementById(id);
const log = new Log(at("log"));
// The names only, for this browser's list; the token stays in this tab.
const names = new Set(JSON.parse(localStorage.getItem("rookery.conversations") ?? '["main"]'));
let token = sessionStorage.getItem("rookery.token");
let open = null;
// Turns of the open conversation that have not ended, oldest first, and those that have.
let running = [];
let over = new Set();

function list(current) {
  localStorage.setItem("rookery.conversations", JSON.stringify([...names]));
  at("conversations").replaceChildren(
    ...[...names].map((name) => {
      const item = document.createElement("li");
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = name;
      button.setAttribute("aria-current", String(name === current));
      button.addEventListener("click", () => show(name));
      item.append(button);
      return item;
    }),
  );
}

function setRunning(turns) {
  running = [...new Set(turns)].filter((turn) => !over.has(turn));
  at("stop").hidden = running.length === 0;
}

function onframe(frame) {
  switch (frame.type) {
    case "accepted":
      // A message sent twice: its turn may have ended while nobody listened.
      if (frame.duplicate) unended(open.name).catch(() => {});
      else setRunning([...running, frame.turn]);
      break;
    case "delta":
      log.delta(frame.turn, frame.text);
      break;
    case "thinking":
      log.delta(frame.turn, frame.text, "thinking");
      break;
    case "tool_call":
      log.call(frame);
      break;
    case "tool_result":
      log.result(frame);
      break;
    case "approval":
      log.approval(frame, (decision) => open.send({ type: "approval", id: frame.id, ...decision }));
      break;
    case "notice":
      if (frame.approval) log.decided(frame.approval, frame.text);
      else log.line("notice", frame.text);
      break;
    case "ended":
      log.ended(frame);
      over.add(frame.turn);
      setRunning(running);
      break;
    case "gap":
      log.clear();
      if (frame.snapshot) snapshot(frame.snapshot);
      unended(open.name).catch(() => {});
      break;
    case "error":
      if (frame.approval && frame.code === "already_decided") log.decided(frame.approval, frame.message);
      else log.line("error", frame.message);
      break;
  }
}

function snapshot(taken) {
  log.history(taken.messages);
  for (const approval of taken.approvals) onframe({ ...approval, type: "approval" });
}

const ask = (url) => fetch(url, { headers: token ? { authorization: `Bearer ${token}` } : {} });

// What runs since before this connection: it can be stopped, and its tools are seen.
async function unended(name) {
  setRunning([]);
  const answer = await ask(`/v1/turns?conversation=${encodeURIComponent(name)}&limit=50`);
  if (!answer.ok || open?.name !== name) return;
  const turns = (await answer.json()).filter((turn) => turn.channel === "ws" && turn.state !== "ended");
  for (const turn of turns.toReversed()) {
    const live = turn.calls.filter((call) => call.state === "running" && !log.calls.has(call.id));
    for (const call of live) log.call({ call: call.id, tool: call.tool, turn: turn.id });
  }
  setRunning([...turns.map((turn) => turn.id).toReversed(), ...running]);
}

async function history(name) {
  const answer = await ask(`/v1/conversations/ws/${encodeURIComponent(name)}/messages?limit=100`);
  if (answer.status === 401) {
    at("login").showModal();
    return false;
  }
  if (answer.ok) log.history((await answer.json()).messages);
  return true;
}

async function show(name) {
  open?.close();
  open = null;
  names.add(name);
  list(name);
  log.clear();
  over = new Set();
  setRunning([]);
  at("title").textContent = name;
  try {
    if (!(await history(name))) return;
  } catch {
    log.line("error", "the service can't be reached; the page tries again");
  }
  open = new Conversation(name, token, {
    onframe,
    onstatus: (text) => (at("status").textContent = text),
    // A connection that is lost meanwhile asks again.
    onopen: () => unended(name).catch(() => {}),
  });
}

at("open").addEventListener("submit", (event) => {
  event.preventDefault();
  const name = at("name").value.trim();
  at("name").value = "";
  if (name) show(name);
});

at("say").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = at("text").value;
  if (!text.trim() || !open) return;
  log.line("user", text);
  open.message(text);
  at("text").value = "";
});

at("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    at("say").requestSubmit();
  }
});

at("stop").addEventListener("click", () => {
  if (running.length > 0 && open) open.send({ type: "cancel", turn: running[0] });
});

at("login").addEventListener("close", () => {
  token = at("token").value;
  at("token").value = "";
  sessionStorage.setItem("rookery.token", token);
  show(at("title").textContent || "main");
});

show([...names][0] ?? "main");

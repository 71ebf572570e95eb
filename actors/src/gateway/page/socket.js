// One conversation's WebSocket: reconnects with growing delays and resumes where it stopped.

const FIRST_DELAY = 500;
const LONGEST_DELAY = 15000;

// Browsers can't set headers here: the token travels as a subprotocol, base64url without padding.
function protocols(token) {
  if (!token) return ["rookery.v1"];
  const bytes = new TextEncoder().encode(token);
  const text = btoa(String.fromCharCode(...bytes));
  const encoded = text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  return ["rookery.v1", `rookery.token.${encoded}`];
}

export class Conversation {
  constructor(name, token, { onframe, onstatus, onopen }) {
    this.name = name;
    this.token = token;
    this.onframe = onframe;
    this.onstatus = onstatus;
    this.onopen = onopen;
    this.seq = 0;
    this.delay = FIRST_DELAY;
    this.closed = false;
    this.unsent = [];
    this.connect();
  }

  connect() {
    const url = new URL("/v1/ws", location.href);
    url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    url.searchParams.set("conversation", this.name);
    this.onstatus("connecting");
    this.socket = new WebSocket(url, protocols(this.token));
    this.socket.onopen = () => {
      this.delay = FIRST_DELAY;
      this.onstatus("connected");
      // First of all, so that what was missed comes before what is new.
      if (this.seq > 0) this.socket.send(JSON.stringify({ type: "resume", seq: this.seq }));
      for (const frame of this.unsent) this.socket.send(JSON.stringify(frame));
      this.onopen();
    };
    this.socket.onmessage = (message) => this.receive(JSON.parse(message.data));
    this.socket.onclose = () => this.again();
  }

  receive(frame) {
    if (frame.type === "accepted" || frame.type === "error") {
      this.unsent = this.unsent.filter((sent) => sent.id !== frame.id);
    }
    // Events rise by one; whatever answers this client alone carries the last event's seq.
    if (typeof frame.seq === "number" && frame.seq > this.seq) this.seq = frame.seq;
    this.onframe(frame);
  }

  again() {
    if (this.closed) return;
    this.onstatus("offline, connecting again");
    this.timer = setTimeout(() => this.connect(), this.delay * (0.5 + Math.random() / 2));
    this.delay = Math.min(this.delay * 2, LONGEST_DELAY);
  }

  // A message keeps its id until it is accepted: sent twice, it is one message.
  message(text) {
    const frame = { type: "message", id: crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`, text };
    this.unsent.push(frame);
    this.send(frame);
    return frame.id;
  }

  send(frame) {
    if (this.socket.readyState === WebSocket.OPEN) {
      this.socket.send(JSON.stringify(frame));
      return true;
    }
    return false;
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    this.socket.close();
  }
}

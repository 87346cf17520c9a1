// Connection to the server: requests, and a WebSocket that reconnects with the last event number.
import { signal } from "./html.js";

export const connection = signal("connecting"); // connecting | open | offline | signedOut
const FIRST_WAIT = 250, MAX_WAIT = 8000;

// The page may be served below a path: URLs are relative to it.
export const here = (path) => new URL(path.slice(1), document.baseURI).href;
export const sessionAt = (session) => `/api/sessions/${encodeURIComponent(session)}`;

export async function api(method, path, body) {
  const headers = body === undefined ? {} : { "Content-Type": "application/json" };
  if (method !== "GET" && body === undefined) headers["Content-Type"] = "application/json";
  const response = await fetch(here(path), { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  if (response.status === 401 && path !== "/api/login") connection.value = "signedOut";
  if (!response.ok) {
    const problem = await response.json().catch(() => ({}));
    throw new Error(problem.detail || `${response.status} ${response.statusText}`);
  }
  return response.status === 204 ? null : response.json();
}

export function freshKey() {
  return [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

export class Wire {
  // onEvent: gets each event. onReset: called if events are missing. onOpen: called after each connect.
  constructor({ onEvent, onReset, onOpen }) {
    Object.assign(this, { onEvent, onReset, onOpen });
    this.pending = new Map(); // unanswered requests by id
    this.watching = null; // {session, after}: the session and its last event number
    this.count = 0;
    this.wait = FIRST_WAIT;
    this.socket = null;
  }

  start() {
    const socket = new WebSocket(here("/ws").replace(/^http/, "ws"));
    this.socket = socket;
    socket.onmessage = (message) => this.receive(JSON.parse(message.data));
    socket.onclose = () => this.reconnect(socket);
    socket.onerror = () => {};
  }

  receive(frame) {
    if (!frame.control) {
      const watched = this.watching;
      if (watched && frame.session === watched.session && frame.number > watched.after) {
        watched.after = frame.number;
        this.onEvent(frame);
      }
    } else if (frame.control === "hello") {
      connection.value = "open";
      this.wait = FIRST_WAIT;
      if (this.watching) this.watch(this.watching.session, this.watching.after).catch(() => {});
      for (const request of this.pending.values()) if (request.isRepeatable) this.socket.send(request.text);
      this.onOpen();
    } else if (frame.control === "reset") {
      if (this.watching && frame.session === this.watching.session) this.onReset(frame);
    } else {
      const request = this.pending.get(frame.id);
      this.pending.delete(frame.id);
      if (request) frame.control === "reply" ? request.done(frame.data) : request.failed(new Error(frame.detail || frame.title));
    }
  }

  async reconnect(socket) {
    if (socket !== this.socket) return;
    connection.value = "offline";
    for (const [id, request] of this.pending) {
      if (request.isRepeatable) continue; // safe to repeat: it has an idempotency key
      this.pending.delete(id);
      request.failed(new Error("The connection was lost."));
    }
    const wait = this.wait * (0.75 + Math.random() / 2);
    this.wait = Math.min(this.wait * 2, MAX_WAIT);
    await new Promise((done) => setTimeout(done, wait));
    try {
      await api("GET", "/api/me"); // a WebSocket does not report the reason of a rejection
    } catch (error) {
      if (connection.value === "signedOut") return;
      return this.reconnect(socket);
    }
    this.start();
  }

  ask(type, fields = {}) {
    const id = ++this.count;
    const text = JSON.stringify({ type, id, ...fields });
    return new Promise((done, failed) => {
      const isOpen = this.socket?.readyState === WebSocket.OPEN && connection.value === "open";
      const isRepeatable = Boolean(fields.key);
      if (!isOpen && !isRepeatable) return failed(new Error("Not connected."));
      this.pending.set(id, { done, failed, text, isRepeatable });
      if (isOpen) this.socket.send(text);
    });
  }

  watch(session, after) {
    const before = this.watching;
    this.watching = { session, after };
    if (before && before.session !== session) this.ask("unwatch", { session: before.session }).catch(() => {});
    return this.ask("watch", { session, after });
  }

  unwatch() {
    const before = this.watching;
    this.watching = null;
    if (before) this.ask("unwatch", { session: before.session }).catch(() => {});
  }
}

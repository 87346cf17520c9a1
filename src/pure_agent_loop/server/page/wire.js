// Connection to the server: requests, and a WebSocket that reconnects with the last event number.
import { signal } from "./html.js";
import { language, t } from "./words.js";

export const connection = signal("connecting"); // connecting | open | offline | signedOut
const FIRST_WAIT = 250, MAX_WAIT = 8000;

// The page may be served below a path: URLs are relative to it.
export const here = (path) => new URL(path.slice(1), document.baseURI).href;
export const sessionAt = (session) => `/api/sessions/${encodeURIComponent(session)}`;

export async function api(method, path, body) {
  const headers = { "Accept-Language": language.value };
  if (method !== "GET" || body !== undefined) headers["Content-Type"] = "application/json";
  const response = await fetch(here(path), { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  if (response.status === 401 && path !== "/api/login") connection.value = "signedOut";
  if (!response.ok) {
    const problem = await response.json().catch(() => ({}));
    throw Object.assign(new Error(problem.detail || `${response.status} ${response.statusText}`), { problem });
  }
  return response.status === 204 ? null : response.json();
}

export function freshKey() {
  return [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

export const problem = signal("");
export const note = signal(""); // shown in place of a problem
export const showError = (error) => { problem.value = String(error.message || error); };
export const guarded = (action) => async (...args) => {
  try { problem.value = note.value = ""; return await action(...args); } catch (error) { showError(error); return undefined; }
};

// Run one request at a time, and one more after it for all calls in between, so that an older response never comes last.
export function oneAtATime(load) {
  let isBusy = false, isDue = false;
  return async function ask() {
    if (isBusy) { isDue = true; return; }
    isBusy = true; isDue = false;
    try { await load(); } catch { setTimeout(ask, 1000); }
    isBusy = false;
    if (isDue) await ask();
  };
}

export class Wire {
  // onEvent: gets each event. onReset: called if events are missing. onOpen: called after each connect, onWatch after each watch.
  constructor({ onEvent, onReset, onOpen, onWatch }) {
    Object.assign(this, { onEvent, onReset, onOpen, onWatch });
    this.pending = new Map(); // unanswered requests by id
    this.watching = null; // {session, after, last, isOn}: the session, its last event number here and on the server, and if the server replied
    this.count = 0;
    this.wait = FIRST_WAIT;
    this.socket = null;
  }

  start() {
    const socket = new WebSocket(here(`/ws?language=${language.value}`).replace(/^http/, "ws"));
    this.socket = socket;
    socket.onmessage = (message) => this.receive(JSON.parse(message.data));
    socket.onclose = () => this.reconnect(socket);
    socket.onerror = () => {};
  }

  receive(frame) {
    if (!frame.control) {
      const watched = this.watching;
      if (watched?.isOn && frame.session === watched.session && frame.number > watched.after) {
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
      if (request) frame.control === "reply" ? request.done(frame.data) : request.failed(Object.assign(new Error(frame.detail || frame.title), { problem: frame }));
    }
  }

  async reconnect(socket) {
    if (socket !== this.socket) return;
    connection.value = "offline";
    for (const [id, request] of this.pending) {
      if (request.isRepeatable) continue; // safe to repeat: it has an idempotency key
      this.pending.delete(id);
      request.failed(new Error(t("connectionLost")));
    }
    const wait = this.wait * (0.75 + Math.random() / 2);
    this.wait = Math.min(this.wait * 2, MAX_WAIT);
    await new Promise((done) => setTimeout(done, wait));
    try {
      await api("GET", "/api/me"); // a WebSocket does not report the reason of a rejection
    } catch (error) {
      if (connection.value !== "signedOut") return this.reconnect(socket);
      for (const request of this.pending.values()) request.failed(new Error(t("notSignedIn")));
      return this.pending.clear();
    }
    this.start();
  }

  ask(type, fields = {}) {
    const id = ++this.count;
    const text = JSON.stringify({ type, id, ...fields });
    return new Promise((done, failed) => {
      const isOpen = this.socket?.readyState === WebSocket.OPEN && connection.value === "open";
      const isRepeatable = Boolean(fields.key);
      if (!isOpen && !isRepeatable) return failed(new Error(t("notConnected")));
      this.pending.set(id, { done, failed, text, isRepeatable });
      if (isOpen) this.socket.send(text);
    });
  }

  // Events that arrive before the reply were sent for an earlier watch: they would hide the replay.
  async watch(session, after) {
    if (this.watching?.session !== session) this.unwatch();
    const watched = this.watching = { session, after, isOn: false };
    Object.assign(watched, await this.ask("watch", { session, after, whole: true }), { isOn: true });
    this.onWatch();
  }

  unwatch() {
    const before = this.watching;
    this.watching = null;
    if (before) this.ask("unwatch", { session: before.session }).catch(() => {});
  }
}

// The way to the server: requests, and one WebSocket that comes back by itself with the last number it saw.
import { signal } from "./html.js";

export const connection = signal("connecting"); // connecting | open | offline | nobody
const FIRST_WAIT = 250, LONGEST_WAIT = 8000;

export async function api(method, path, body) {
  const headers = body === undefined ? {} : { "Content-Type": "application/json" };
  if (method !== "GET" && body === undefined) headers["Content-Type"] = "application/json";
  const answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  if (answer.status === 401 && path !== "/api/login") connection.value = "nobody";
  if (!answer.ok) {
    const problem = await answer.json().catch(() => ({}));
    throw new Error(problem.detail || `${answer.status} ${answer.statusText}`);
  }
  return answer.status === 204 ? null : answer.json();
}

export function freshKey() {
  return [...crypto.getRandomValues(new Uint8Array(12))].map((each) => each.toString(16).padStart(2, "0")).join("");
}

export class Wire {
  // told: called with each event; reset: called where events are missing; opened: called after each connect.
  constructor({ told, reset, opened }) {
    Object.assign(this, { told, reset, opened });
    this.pending = new Map(); // what was sent and not yet answered, by id
    this.watching = null; // {session, after}: where to go on
    this.count = 0;
    this.wait = FIRST_WAIT;
    this.socket = null;
  }

  start() {
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws`);
    this.socket = socket;
    socket.onmessage = (message) => this.take(JSON.parse(message.data));
    socket.onclose = () => this.lost(socket);
    socket.onerror = () => {};
  }

  take(frame) {
    if (!frame.control) {
      const watched = this.watching;
      if (watched && frame.session === watched.session && frame.number > watched.after) {
        watched.after = frame.number;
        this.told(frame);
      }
    } else if (frame.control === "hello") {
      connection.value = "open";
      this.wait = FIRST_WAIT;
      if (this.watching) this.watch(this.watching.session, this.watching.after).catch(() => {});
      for (const each of this.pending.values()) if (each.again) this.socket.send(each.text);
      this.opened();
    } else if (frame.control === "reset") {
      if (this.watching && frame.session === this.watching.session) this.reset(frame);
    } else {
      const waiting = this.pending.get(frame.id);
      this.pending.delete(frame.id);
      if (waiting) frame.control === "reply" ? waiting.done(frame.data) : waiting.failed(new Error(frame.detail || frame.title));
    }
  }

  async lost(socket) {
    if (socket !== this.socket) return;
    connection.value = "offline";
    for (const [id, each] of this.pending) {
      if (each.again) continue; // it has a key: sent again, it begins nothing twice
      this.pending.delete(id);
      each.failed(new Error("The connection was lost."));
    }
    const wait = this.wait * (0.75 + Math.random() / 2);
    this.wait = Math.min(this.wait * 2, LONGEST_WAIT);
    await new Promise((done) => setTimeout(done, wait));
    try {
      await api("GET", "/api/me"); // who may not come in gets no reason from a WebSocket
    } catch (error) {
      if (connection.value === "nobody") return;
      return this.lost(socket);
    }
    this.start();
  }

  ask(type, about = {}) {
    const id = ++this.count;
    const text = JSON.stringify({ type, id, ...about });
    return new Promise((done, failed) => {
      const isOpen = this.socket?.readyState === WebSocket.OPEN && connection.value === "open";
      const again = Boolean(about.key);
      if (!isOpen && !again) return failed(new Error("There is no connection."));
      this.pending.set(id, { done, failed, text, again });
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

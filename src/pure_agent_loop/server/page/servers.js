// MCP servers of the agents, loaded if there are any: their state, prompts and resources, and suggestions for the message field.
import { html, signal, useEffect, useState } from "./html.js";
import * as store from "./store.js";
import { api } from "./wire.js";
import { seconds, t } from "./words.js";

const MAX_SHOWN = 8;
const looks = signal({}); // prompts and resources of each server, by agent and name
let pending = {}; // requests already sent, by key

const completions = signal({}); // of prompt arguments, by agent, server, prompt and arguments
const keyOf = (agent, name) => `${agent}/${name}`;
const serversOf = (agent) => store.agents.value.find((candidate) => candidate.name === agent)?.servers || [];

async function look(agent, name) {
  const response = await api("POST", `/api/agents/${encodeURIComponent(agent)}/servers/${encodeURIComponent(name)}/look`);
  looks.value = { ...looks.value, [keyOf(agent, name)]: response };
  return response;
}

// Suggestions query each server once; the panel's test queries again.
function lookOnce(agent, name) {
  const key = keyOf(agent, name);
  pending[key] ||= look(agent, name).catch((error) => { delete pending[key]; store.showError(error); });
}

// Completions of the last argument of a prompt, requested once.
function completionsOf(agent, name, prompt, words) {
  const key = JSON.stringify([agent, name, prompt, words]);
  pending[key] ||= api("POST", `/api/agents/${encodeURIComponent(agent)}/servers/${encodeURIComponent(name)}/complete`, { prompt, words })
    .then((response) => { completions.value = { ...completions.value, [key]: response.values }; }, (error) => { delete pending[key]; store.showError(error); });
  return completions.value[key] || [];
}

export function Servers() {
  useEffect(() => { store.loadAgents(); }, []);
  return html`<section class="panel servers" aria-label=${t("mcp")}><h2>${t("mcp")}</h2>
    ${store.agents.value.map((agent) => html`<ul key=${agent.name} aria-label=${agent.name}>${agent.servers.map((server) => html`<${Server} key=${server.name} agent=${agent.name} server=${server} />`)}</ul>`)}</section>`;
}

function Server({ agent, server }) {
  const [isBusy, setBusy] = useState(false);
  const looked = looks.value[keyOf(agent, server.name)], shown = looked && !isBusy ? looked : server;
  const test = async () => {
    setBusy(true);
    try { await look(agent, server.name); } catch (error) { store.showError(error); }
    setBusy(false);
  };
  const numbers = shown.state === "ready" && [t("nTools", { n: shown.tools }), ...(looked ? [t("nPrompts", { n: looked.prompts.length }), t("nResources", { n: looked.resources.length }), seconds(looked.seconds)] : [])];
  return html`<li><span class="badge ${isBusy ? "" : shown.state}">${t(isBusy ? "connecting" : `server_${shown.state}`)}</span> <span class="tool">${server.name}</span>
    <button class="link" disabled=${isBusy} aria-label="${t("test")}: ${server.name}" onClick=${test}>${t("test")}</button>
    ${numbers && html`<span class="dim">${numbers.join(" · ")}</span>`}<p class="dim">${server.place}</p>
    ${shown.error && !isBusy && html`<p class="bad">${shown.error}</p>`}</li>`;
}

// Suggestions for the text before the caret: servers and resources after @, prompts after /, then their arguments.
function suggestionsFor(agent, text, caret) {
  const before = text.slice(0, caret), servers = serversOf(agent);
  if (!servers.length) return [];
  const promptMatch = /^\/([\w-]+):(\S+)((?:\s+\S+)*)\s+(\S*)$/.exec(before);
  if (promptMatch && servers.some((server) => server.name === promptMatch[1]) && looks.value[keyOf(agent, promptMatch[1])]?.prompts.some((prompt) => prompt.name === promptMatch[2])) {
    const partial = promptMatch[4], words = [...promptMatch[3].split(/\s+/).filter(Boolean), partial];
    const values = completionsOf(agent, promptMatch[1], promptMatch[2], words).filter((value) => value !== partial);
    return values.slice(0, MAX_SHOWN).map((value) => ({ start: caret - partial.length, words: value, about: "" }));
  }
  const match = /(?:^|\s)(@([\w-]*)(?::(\S*))?|\/(\S*))$/.exec(before);
  if (!match || (match[4] !== undefined && before !== match[1])) return [];
  const start = caret - match[1].length, rows = [];
  const row = (words, about, continues) => rows.push({ start, words, about, continues });
  const itemsOf = (name, kind) => { lookOnce(agent, name); return looks.value[keyOf(agent, name)]?.[kind] || []; };
  if (match[4] !== undefined) {
    for (const server of servers) for (const prompt of itemsOf(server.name, "prompts")) row(`/${server.name}:${prompt.name}`, prompt.about);
  } else if (match[3] === undefined) {
    for (const server of servers) row(`@${server.name}:`, t(`server_${(looks.value[keyOf(agent, server.name)] || server).state}`), true);
  } else if (servers.some((server) => server.name === match[2])) {
    for (const resource of itemsOf(match[2], "resources")) row(`@${match[2]}:${resource.name}`, resource.about);
  }
  const word = match[1].toLowerCase();
  const fits = rows.filter((row) => row.words.toLowerCase().startsWith(word) || (match[3] && row.words.toLowerCase().includes(match[3].toLowerCase())));
  return fits.some((row) => row.words === match[1]) ? [] : fits.slice(0, MAX_SHOWN);
}

// Suggestions for a field. `keys` gets a handler that must see the field's keys first.
export function Suggestions({ field, text, setText, keys }) {
  const [caret, setCaret] = useState(0), [chosen, setChosen] = useState(0), [closed, setClosed] = useState("");
  const rows = text && closed === text.slice(0, caret) ? [] : suggestionsFor(store.agent.value, text, caret);
  const at = Math.min(chosen, rows.length - 1);
  useEffect(() => {
    const input = field.current, follow = () => setCaret(input.selectionStart);
    input.setAttribute("aria-autocomplete", "list");
    for (const type of ["input", "select", "keyup", "click"]) input.addEventListener(type, follow);
    return () => { keys.current = null; for (const type of ["input", "select", "keyup", "click"]) input.removeEventListener(type, follow); };
  }, []);
  useEffect(() => {
    const input = field.current;
    for (const [name, value] of [["aria-controls", "suggestions"], ["aria-activedescendant", `suggestion-${at}`]]) rows.length ? input.setAttribute(name, value) : input.removeAttribute(name);
  });
  const take = (row) => {
    const inserted = row.words + (row.continues ? "" : " ");
    const whole = text.slice(0, row.start) + inserted + text.slice(caret).replace(/^ /, row.continues ? " " : "");
    const input = field.current, end = row.start + inserted.length;
    input.value = whole; // immediately, so that the next key finds the caret after the inserted text
    input.focus();
    input.setSelectionRange(end, end);
    setText(whole); setCaret(end); setChosen(0);
  };
  keys.current = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!rows.length || event.isComposing || event.shiftKey) return false;
    if (step) setChosen((at + step + rows.length) % rows.length);
    else if (event.key === "Enter" || event.key === "Tab") take(rows[at]);
    else if (event.key === "Escape") setClosed(text.slice(0, caret));
    else return false;
    event.preventDefault();
    return true;
  };
  return html`<div class="heard" role="status">${rows.length ? t("suggestions", { n: rows.length }) : ""}</div>
    ${rows.length > 0 && html`<ul class="suggestions" id="suggestions" role="listbox" aria-label=${t("mcp")}>${rows.map((row, index) => html`<li key=${row.words} id="suggestion-${index}" role="option" aria-selected=${index === at}
      onMouseDown=${(event) => { event.preventDefault(); take(row); }}><span class="tool">${row.words}</span> <span class="dim">${row.about}</span></li>`)}</ul>`}`;
}

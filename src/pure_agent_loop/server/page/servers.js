// MCP servers of the agents, loaded where there are some: how they stand, a look at what they offer, and what of it fits the words being written.
import { html, signal, useEffect, useState } from "./html.js";
import * as store from "./store.js";
import { api } from "./wire.js";
import { seconds, t } from "./words.js";

const MOST_SHOWN = 8;
const looks = signal({}); // what each said when it was looked at: by agent and name
let looking = {};

const endings = signal({}); // what words behind a prompt may go on to: by agent, name and words
const keyOf = (agent, name) => `${agent}/${name}`;
const serversOf = (agent) => store.agents.value.find((each) => each.name === agent)?.servers || [];

async function look(agent, name) {
  const found = await api("POST", `/api/agents/${encodeURIComponent(agent)}/servers/${encodeURIComponent(name)}/look`);
  looks.value = { ...looks.value, [keyOf(agent, name)]: found };
  return found;
}

// Each is looked at once for suggestions; the panel looks again.
function lookOnce(agent, name) {
  const key = keyOf(agent, name);
  looking[key] ||= look(agent, name).catch((error) => { delete looking[key]; store.tell(error); });
}

// What the last of some words behind a prompt may go on to; asked once for each.
function endingsOf(agent, name, prompt, words) {
  const key = JSON.stringify([agent, name, prompt, words]);
  looking[key] ||= api("POST", `/api/agents/${encodeURIComponent(agent)}/servers/${encodeURIComponent(name)}/complete`, { prompt, words })
    .then((found) => { endings.value = { ...endings.value, [key]: found.values }; }, (error) => { delete looking[key]; store.tell(error); });
  return endings.value[key] || [];
}

export function Servers() {
  useEffect(() => { store.loadAgents(); }, []);
  return html`<section class="panel servers" aria-label=${t("mcp")}><h2>${t("mcp")}</h2>
    ${store.agents.value.map((agent) => html`<ul key=${agent.name} aria-label=${agent.name}>${agent.servers.map((each) => html`<${Server} key=${each.name} agent=${agent.name} about=${each} />`)}</ul>`)}</section>`;
}

function Server({ agent, about }) {
  const [isBusy, setBusy] = useState(false);
  const found = looks.value[keyOf(agent, about.name)], shown = found && !isBusy ? found : about;
  const test = async () => {
    setBusy(true);
    try { await look(agent, about.name); } catch (error) { store.tell(error); }
    setBusy(false);
  };
  const numbers = shown.state === "ready" && [t("nTools", { n: shown.tools }), ...(found ? [t("nPrompts", { n: found.prompts.length }), t("nResources", { n: found.resources.length }), seconds(found.seconds)] : [])];
  return html`<li><span class="badge ${isBusy ? "" : shown.state}">${t(isBusy ? "connecting" : `server_${shown.state}`)}</span> <span class="tool">${about.name}</span>
    <button class="link" disabled=${isBusy} aria-label="${t("test")}: ${about.name}" onClick=${test}>${t("test")}</button>
    ${numbers && html`<span class="dim">${numbers.join(" · ")}</span>`}<p class="dim">${about.place}</p>
    ${shown.error && !isBusy && html`<p class="bad">${shown.error}</p>`}</li>`;
}

// What fits what stands before the caret: servers and their resources behind @, prompts behind /, their arguments behind those.
function fitting(agent, text, caret) {
  const before = text.slice(0, caret), servers = serversOf(agent);
  if (!servers.length) return [];
  const behind = /^\/([\w-]+):(\S+)((?:\s+\S+)*)\s+(\S*)$/.exec(before);
  if (behind && servers.some((each) => each.name === behind[1]) && looks.value[keyOf(agent, behind[1])]?.prompts.some((each) => each.name === behind[2])) {
    const begun = behind[4], words = [...behind[3].split(/\s+/).filter(Boolean), begun];
    const values = endingsOf(agent, behind[1], behind[2], words).filter((each) => each !== begun);
    return values.slice(0, MOST_SHOWN).map((each) => ({ start: caret - begun.length, words: each, about: "" }));
  }
  const found = /(?:^|\s)(@([\w-]*)(?::(\S*))?|\/(\S*))$/.exec(before);
  if (!found || (found[4] !== undefined && before !== found[1])) return [];
  const start = caret - found[1].length, rows = [];
  const row = (words, about, goesOn) => rows.push({ start, words, about, goesOn });
  const offers = (name, kind) => { lookOnce(agent, name); return looks.value[keyOf(agent, name)]?.[kind] || []; };
  if (found[4] !== undefined) {
    for (const server of servers) for (const each of offers(server.name, "prompts")) row(`/${server.name}:${each.name}`, each.about);
  } else if (found[3] === undefined) {
    for (const server of servers) row(`@${server.name}:`, t(`server_${(looks.value[keyOf(agent, server.name)] || server).state}`), true);
  } else if (servers.some((each) => each.name === found[2])) {
    for (const each of offers(found[2], "resources")) row(`@${found[2]}:${each.name}`, each.about);
  }
  const word = found[1].toLowerCase();
  const fits = rows.filter((each) => each.words.toLowerCase().startsWith(word) || (found[3] && each.words.toLowerCase().includes(found[3].toLowerCase())));
  return fits.some((each) => each.words === found[1]) ? [] : fits.slice(0, MOST_SHOWN);
}

// Suggestions for a field: below it what fits, and in `keys` what takes its keys before the field does.
export function Suggestions({ field, text, setText, keys }) {
  const [caret, setCaret] = useState(0), [chosen, setChosen] = useState(0), [closed, setClosed] = useState("");
  const rows = text && closed === text.slice(0, caret) ? [] : fitting(store.agent.value, text, caret);
  const at = Math.min(chosen, rows.length - 1);
  useEffect(() => {
    const place = field.current, follow = () => setCaret(place.selectionStart);
    place.setAttribute("aria-autocomplete", "list");
    for (const each of ["input", "select", "keyup", "click"]) place.addEventListener(each, follow);
    return () => { keys.current = null; for (const each of ["input", "select", "keyup", "click"]) place.removeEventListener(each, follow); };
  }, []);
  useEffect(() => {
    const place = field.current;
    for (const [name, value] of [["aria-controls", "suggestions"], ["aria-activedescendant", `suggestion-${at}`]]) rows.length ? place.setAttribute(name, value) : place.removeAttribute(name);
  });
  const take = (row) => {
    const put = row.words + (row.goesOn ? "" : " ");
    const whole = text.slice(0, row.start) + put + text.slice(caret).replace(/^ /, row.goesOn ? " " : "");
    const place = field.current, end = row.start + put.length;
    place.value = whole; // at once: the next key must find the caret behind what was taken
    place.focus();
    place.setSelectionRange(end, end);
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

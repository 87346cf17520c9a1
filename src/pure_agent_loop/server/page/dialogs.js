// Dialogs, loaded when one is opened: settings, changes of a conversation, the command palette and the list of keys.
import { html, useLayoutEffect, useRef, useState } from "./html.js";
import { Icon } from "./icons.js";
import { Notify } from "./questions.js";
import * as store from "./store.js";
import { api, sessionAt } from "./wire.js";
import { addWords, ago, choose, language, size, t, theme, thinking } from "./words.js";

addWords({
  palette: ["Conversations, agents and actions", "对话、智能体与操作"],
  switchTo: ["Switch to {agent}", "切换到 {agent}"],
  keys: ["Keys", "快捷键"],
  keys_palette: ["Find a conversation, an agent or an action", "查找对话、智能体或操作"],
  keys_send: ["Send", "发送"],
  keys_line: ["New line", "换行"],
  keys_up: ["Edit your last message, from an empty field", "输入框为空时，编辑上一条消息"],
  keys_stop: ["Stop the run, close a dialog, deny a call", "停止运行、关闭对话框、拒绝调用"],
  keys_allow: ["Allow the call in focus", "允许选中的调用"],
  keys_step: ["Look at the step before, at the step after", "查看上一步、下一步"],
  keys_keys: ["This list", "本列表"],
  shareHint: ["Whoever has the link reads this conversation as it is now, without later messages.", "持有链接者可阅读对话当前的内容，不含之后的消息。"],
  days: ["Days", "天数"],
  makeLink: ["Create link", "创建链接"],
  linkUntil: ["ends {at}", "{at} 失效"],
  endLink: ["End", "结束"],
});

// A dialog that is open while it is shown; a click beside it closes it.
function Dialog({ label, children, ...about }) {
  const box = useRef(null);
  useLayoutEffect(() => { box.current.showModal(); }, []);
  return html`<dialog ref=${box} aria-label=${label} onClose=${() => { store.dialog.value = null; }} onClick=${(event) => { if (event.target === box.current) box.current.close(); }}
    onKeyDown=${(event) => event.stopPropagation()} ...${about}>${children}</dialog>`;
}

export const DIALOGS = { settings: Settings, share: Share, change: Change, palette: Palette, keys: Keys };

// Renames a session, moves it to a folder, or deletes it.
function Change({ what, session }) {
  const close = () => { store.dialog.value = null; };
  const save = async (event) => {
    event.preventDefault();
    const text = new FormData(event.target).get(what)?.trim();
    close();
    if (what === "delete") await store.remove(session.id);
    else if (text !== session[what]) await (what === "title" ? store.rename : store.move)(session.id, text);
  };
  const heading = t(what === "delete" ? "deleteIt" : what === "title" ? "rename" : "moveTo", { title: session.title || t("untitled") });
  return html`<${Dialog} label=${heading}><form onSubmit=${save}>
    <h2>${heading}</h2>
    ${what === "delete" ? html`<p class="dim">${t("deleteHint")}</p>` : html`<label class="field">${t(what)}
      <input name=${what} maxlength=${what === "title" ? 200 : 60} defaultValue=${session[what]} list=${what === "folder" ? "folders" : undefined} /></label>`}
    ${what === "folder" && html`<datalist id="folders">${[...new Set(store.sessions.value.map((other) => other.folder))].map((name) => html`<option key=${name} value=${name} />`)}</datalist>`}
    <p class="choices"><span class="grow"></span><button type="button" onClick=${close}>${t("cancel")}</button><button class=${what === "delete" ? "danger" : "primary"}>${t(what === "delete" ? "delete" : "save")}</button></p></form><//>`;
}

// Links to a conversation as it is: a new one is shown once, as only the server's digest of it is kept.
function Share({ session }) {
  const [links, setLinks] = useState([]), [made, setMade] = useState(""), at = `${sessionAt(session)}/links`;
  const close = () => { store.dialog.value = null; }, act = async (method, path = at, body) => {
    try { const { path: link } = await api(method, path, body) ?? {}; if (link) setMade(new URL(link, location.href).href); setLinks((await api("GET", at)).links); } catch (error) { close(); store.showError(error); }
  };
  useLayoutEffect(() => { act("GET"); }, []);
  const make = (event) => { event.preventDefault(); act("POST", at, { days: Number(new FormData(event.target).get("days")) }); };
  return html`<${Dialog} label=${t("share")}><form onSubmit=${make}><h2>${t("share")}</h2><p class="dim">${t("shareHint")}</p>
    ${made && html`<label class="field">${t("copy")}<input readonly value=${made} onFocus=${(event) => event.target.select()} /></label>`}
    ${links.map((link) => html`<label key=${link.id}><span>${t("linkUntil", { at: new Date(link.until * 1000).toLocaleDateString() })}</span><button type="button" onClick=${() => act("DELETE", `${at}/${link.id}`)}>${t("endLink")}</button></label>`)}
    <label>${t("days")} <input type="number" name="days" min="1" max="365" defaultValue="7" required /></label>
    <p class="choices"><span class="grow"></span><button type="button" onClick=${close}>${t("close")}</button><button class="primary">${t("makeLink")}</button></p></form><//>`;
}

function Settings() {
  const choice = (words, value, set, options) => html`<label>${t(words)} <select value=${value} onChange=${(event) => set(event.target.value)}>${options.map(([name, text, lang]) => html`<option value=${name} lang=${lang}>${text}</option>`)}</select></label>`;
  const shown = [["on", t("shown")], ["off", t("hidden")]];
  return html`<${Dialog} label=${t("settings")}><form method="dialog">
      <h2>${t("settings")}</h2>
      ${choice("language", language.value, (value) => { choose("language", value); store.loadAgents(); }, [["en", "English", "en"], ["zh", "中文", "zh-CN"]])}
      ${choice("theme", theme.value, (value) => choose("theme", value), ["system", "light", "dark"].map((name) => [name, t(name)]))}
      ${choice("textSize", size.value, (value) => choose("size", value), ["small", "usual", "large"].map((name) => [name, t(`size_${name}`)]))}
      ${choice("thinkingShown", thinking.value, (value) => choose("thinking", value), shown)}
      ${store.mayApprove() && html`<${Notify} />`}
      <p class="choices"><button type="button" onClick=${store.logout}>${t("logout")}</button><button type="button" onClick=${() => { store.dialog.value = { name: "keys" }; }}>${t("keys")}</button><span class="grow"></span><button class="primary">${t("close")}</button></p>
    </form><//>`;
}

function Keys() {
  const rows = [["Ctrl K", "palette"], ["Enter", "send"], ["Shift Enter", "line"], ["↑", "up"], ["Esc", "stop"], ["Enter", "allow"], ["[ ]", "step"], ["?", "keys"]];
  return html`<${Dialog} label=${t("keys")}><form method="dialog"><h2>${t("keys")}</h2>
    <dl class="keys">${rows.map(([key, name]) => html`<div key=${name}><dt>${key.split(" ").map((each) => html`<kbd>${each}</kbd> `)}</dt><dd>${t(`keys_${name}`)}</dd></div>`)}</dl>
    <p class="choices"><span class="grow"></span><button class="primary">${t("close")}</button></p></form><//>`;
}

// What can be done from here: icon, words, more about it, action.
function commands() {
  const isInside = store.current.value, panel = (name) => () => { store.panel.value = name; };
  return [
    ["plus", t("new"), "", () => { store.fresh(); document.getElementById("message")?.focus(); }],
    ...store.sessions.value.map((session) => ["chat", session.title || t("untitled"), ago(session.updated), () => store.open(session.id)]),
    ...(store.agents.value.length > 1 ? store.agents.value.map(({ name }) => ["tool", t("switchTo", { agent: name }), "", () => store.chooseAgent(name)]) : []),
    store.mayApprove() && ["inbox", t("inbox"), "", panel("inbox")],
    store.me.value.engine && store.mayOperate() && ["server", t("operate"), "", panel("fleet")],
    isInside && store.isOpen(store.view.value.run.value) && ["stop", t("stop"), "", store.stop],
    isInside && ["chart", t("timeline"), "", panel("timeline")],
    isInside && ["fork", t("fork"), "", () => store.later.fork()],
    isInside && store.canUndo() && ["undo", t("undo"), "", store.later.undo],
    ["gear", t("settings"), "", () => { store.dialog.value = { name: "settings" }; }],
    ["list", t("keys"), "", () => { store.dialog.value = { name: "keys" }; }],
  ].filter(Boolean);
}

const MAX_COMMANDS = 50;

function Palette() {
  const [query, setQuery] = useState(""), [chosen, setChosen] = useState(0), words = query.toLowerCase().split(/\s+/);
  const found = commands().filter(([, text]) => words.every((word) => text.toLowerCase().includes(word))).slice(0, MAX_COMMANDS), at = Math.min(chosen, found.length - 1);
  const run = ([, , , action]) => { store.dialog.value = null; action(); };
  const key = (event) => {
    if (event.isComposing) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) { event.preventDefault(); setChosen((at + step + found.length) % found.length); document.getElementById(`command-${(at + step + found.length) % found.length}`)?.scrollIntoView({ block: "nearest" }); }
    if (event.key === "Enter") { event.preventDefault(); if (found[at]) run(found[at]); }
  };
  return html`<${Dialog} label=${t("palette")} class="palette">
    <input type="text" role="combobox" aria-expanded="true" aria-controls="commands" aria-activedescendant=${found.length ? `command-${at}` : undefined} aria-label=${t("palette")} placeholder=${t("palette")} value=${query} onInput=${(event) => { setQuery(event.target.value); setChosen(0); }} onKeyDown=${key} />
    <ul id="commands" role="listbox" aria-label=${t("palette")}>${found.map((each, index) => html`<li key=${index} id=${`command-${index}`} role="option" aria-selected=${index === at} onClick=${() => run(each)} onPointerMove=${() => setChosen(index)}>
      <${Icon} name=${each[0]} /> <span class="title">${each[1]}</span> <span class="dim">${each[2]}</span></li>`)}</ul>
    ${found.length === 0 && html`<p class="dim" role="status">${t("noMatch", { query })}</p>`}<//>`;
}

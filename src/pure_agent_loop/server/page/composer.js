// The message field: starts a run, or steers the running one. Files come by button, paste or drop.
import { Lazy, html, useEffect, useModule, useRef, useState } from "./html.js";
import { Icon } from "./icons.js";
import { Menu } from "./menu.js";
import { draftOf, keep, returned, send } from "./outbox.js";
import { isPicture, withFiles } from "./sent.js";
import * as store from "./store.js";
import { t } from "./words.js";

const KINDS = /^(image\/(png|jpeg|gif|webp)|application\/pdf|audio\/(wav|x-wav|mpeg|mp3))$/;
const MAX_BYTES = 5 * 1024 * 1024, MAX_TEXT = 200_000;

const FORMS = [
  [/^\x89PNG\r\n/, "image/png"], [/^\xff\xd8\xff/, "image/jpeg"], [/^GIF8[79]a/, "image/gif"], [/^RIFF[^]{4}WEBP/, "image/webp"],
  [/^%PDF-/, "application/pdf"], [/^RIFF[^]{4}WAVE/, "audio/wav"], [/^(ID3|\xff[\xfb\xf3\xf2])/, "audio/mpeg"]];

// The media type of a file by its first bytes, else as the browser declares it by the file's name.
async function typeOf(file) {
  const head = String.fromCharCode(...new Uint8Array(await file.slice(0, 12).arrayBuffer()));
  return FORMS.find(([begins]) => begins.test(head))?.[1] ?? file.type;
}

// The text of a file of any name; null if it is not text in UTF-8.
async function textOf(file) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    return text.includes("\0") ? null : text;
  } catch { return null; }
}

// The agent for the next message, and its model if there are several.
function Picker() {
  const agents = store.agents.value, agent = agents.find((each) => each.name === store.agent.value);
  if (!agent) return null;
  const model = store.model.value || agent.model, hasChoice = agents.length > 1 || agent.models.length > 1;
  const words = [agents.length > 1 && agent.name, model].filter(Boolean).join(" · ");
  if (!hasChoice) return html`<span class="dim model">${words}</span>`;
  const row = (name, isChosen, choose, about) => html`<button type="button" key=${name} class="choice" aria-pressed=${isChosen} onClick=${choose}><strong>${name}</strong>${about && html`<span class="dim">${about}</span>`}</button>`;
  return html`<${Menu} label="${t("agent")}: ${words}" icon="down" text=${html`<span>${words}</span>`}>
    ${agents.length > 1 && agents.map((each) => row(each.name, each === agent, () => store.chooseAgent(each.name), each.description || each.model))}
    ${agent.models.length > 1 && html`<hr /><p class="day">${t("model")}</p>${agent.models.map((name) => row(name, name === model, () => { store.model.value = name === agent.model ? "" : name; }))}`}<//>`;
}

export function Composer() {
  const place = `${store.me.value.name} ${store.current.value}`;
  const [text, show] = useState(""), [media, setMedia] = useState([]), [isBusy, setBusy] = useState(false);
  const files = useRef(null), field = useRef(null), keys = useRef(null); // key handler of the suggestions
  const hasServers = store.hasServers(), servers = useModule("servers", hasServers), Suggestions = hasServers && servers?.Suggestions;
  const run = store.view.value.run.value, isRunning = store.isRunning(run);
  const asked = store.questions.value.filter(store.mayAnswer), isDenying = asked.some((question) => !question.live);
  const mustWait = isRunning && !asked.length && store.me.value.engine;

  const latest = useRef(null); // behind an await, what the field holds by then
  latest.current = { place, text };
  const back = returned.value;
  useEffect(() => {
    show(draftOf(place));
    if (back?.session === store.current.value) { setMedia((before) => [...back.media, ...before]); returned.value = null; field.current.focus(); }
  }, [place, back]);
  const setText = (value) => { show(value); keep(place, value); };
  const add = async (list) => {
    for (const file of list) {
      const type = await typeOf(file), isMedia = KINDS.test(type);
      if (file.size > (isMedia ? MAX_BYTES : MAX_TEXT)) { store.problem.value = t("tooBig", { name: file.name, most: isMedia ? "5 MB" : "200 kB" }); continue; }
      if (!isMedia) {
        const content = type.startsWith("image/") ? null : await textOf(file);
        if (content === null) store.problem.value = t("wrongKind", { name: file.name });
        else setMedia((before) => [...before, { name: file.name, content }]);
        continue;
      }
      const url = await new Promise((done) => { const reader = new FileReader(); reader.onload = () => done(reader.result); reader.readAsDataURL(new Blob([file], { type })); });
      setMedia((before) => [...before, { name: file.name, url }]);
    }
  };
  const submit = async (event) => {
    event?.preventDefault();
    const message = text.trim();
    if (!message || isBusy) return;
    if (!asked.length) {
      setText("");
      setMedia([]);
      send(withFiles(message, media.filter((item) => item.content !== undefined)), media.filter((item) => item.url));
      return;
    }
    setBusy(true);
    if (await store.answerAll(message)) { // only now: what nobody has taken stays
      const rest = (value) => (value.startsWith(text) ? value.slice(text.length).trimStart() : value);
      keep(place, rest(draftOf(place)));
      if (latest.current.place === place) show(rest(latest.current.text));
    }
    setBusy(false);
  };
  const key = (event) => {
    if (keys.current?.(event)) return;
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) submit(event);
    if (event.key === "ArrowUp" && !text && !store.isOpen(run)) {
      const last = store.view.value.items.value.findLast((item) => item.kind === "user" && !item.isSteer);
      if (last && store.current.value) { event.preventDefault(); store.toEdit.value = last; }
    }
    if (event.key === "Escape" && isRunning && !asked.length) store.stop();
  };
  useEffect(() => { // files, wherever they are dropped
    document.ondragover = (event) => event.preventDefault();
    document.ondrop = (event) => { if (event.dataTransfer.files.length) { event.preventDefault(); add([...event.dataTransfer.files]); } };
    return () => { document.ondrop = document.ondragover; }; // a dropped file would replace the page
  }, []);
  const pasted = (event) => { const pastedFiles = [...(event.clipboardData?.files || [])]; if (pastedFiles.length) { event.preventDefault(); add(pastedFiles); } };
  const name = store.agent.value;
  return html`<form class="composer" onSubmit=${submit}>
    ${store.past.value && text.trim() && html`<${Lazy} file="time" part="Warning" at=${store.past.value} />`}
    ${media.length > 0 && html`<ul class="media">${media.map((item, index) => html`<li key=${index}>${isPicture(item) ? html`<img src=${item.url} alt=${item.name} />` : html`<span class="file">${item.name}</span>`}
      <button type="button" class="icon" aria-label="${t("remove")}: ${item.name}" onClick=${() => setMedia(media.filter((_, at) => at !== index))}><${Icon} name="close" /></button></li>`)}</ul>`}
    <label class="heard" for="message">${t("message")}</label>
    ${Suggestions && html`<${Suggestions} field=${field} text=${text} setText=${setText} keys=${keys} />`}
    <textarea id="message" ref=${field} rows=${Math.min(10, Math.max(1, text.split("\n").length))} value=${text} onInput=${(event) => setText(event.target.value)} onKeyDown=${key} onPaste=${pasted}
      placeholder=${t(isDenying ? "placeholderDeny" : mustWait ? "placeholderWait" : isRunning ? "placeholderSteer" : name === "default" ? "placeholderAny" : "placeholder", { agent: name })}></textarea>
    <div class="tools">
      <input class="heard" id="files" type="file" multiple ref=${files} tabindex="-1" aria-hidden="true"
        onChange=${(event) => { add([...event.target.files]); event.target.value = ""; }} />
      <button type="button" class="icon" aria-label=${t("attach")} title=${t("attach")} onClick=${() => files.current.click()}><${Icon} name="clip" /></button>
      ${!store.isOpen(run) && html`<${Picker} />`}
      <span class="grow"></span>
      ${store.isOpen(run) && html`<button type="button" class="round" title=${t("stop")} aria-label=${t("stop")} onClick=${store.stop}><${Icon} name="stop" /></button>`}
      ${(!isRunning || asked.length > 0 || text.trim()) && html`<button class="primary ${isDenying ? "" : "round"}" title=${t("keysHint")} aria-label=${t(isDenying ? "denySay" : "send")} disabled=${!text.trim() || isBusy}>${isDenying ? t("denySay") : html`<${Icon} name="send" />`}</button>`}
    </div></form>`;
}

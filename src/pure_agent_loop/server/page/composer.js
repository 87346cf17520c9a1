// The message field: starts a run, or steers the running one. Files come by button, paste or drop.
import { html, useEffect, useRef, useState } from "./html.js";
import * as store from "./store.js";
import { t } from "./words.js";

const KINDS = /^(image\/(png|jpeg|gif|webp)|application\/pdf|audio\/(wav|x-wav|mpeg|mp3))$/;
const MAX_BYTES = 5 * 1024 * 1024;

export function Composer() {
  const [text, setText] = useState(""), [media, setMedia] = useState([]), [isBusy, setBusy] = useState(false);
  const files = useRef(null), field = useRef(null), keys = useRef(null); // key handler of the suggestions
  const [servers, setServers] = useState(null), hasServers = store.hasServers();
  useEffect(() => { if (hasServers) import("./servers.js").then(setServers, store.showError); }, [hasServers]);
  const Suggestions = hasServers && servers?.Suggestions;
  const run = store.view.value.run.value, isRunning = store.isRunning(run);

  const add = async (list) => {
    for (const file of list) {
      if (!KINDS.test(file.type)) { store.problem.value = t("wrongKind", { name: file.name }); continue; }
      if (file.size > MAX_BYTES) { store.problem.value = t("tooBig", { name: file.name }); continue; }
      const url = await new Promise((done) => { const reader = new FileReader(); reader.onload = () => done(reader.result); reader.readAsDataURL(file); });
      setMedia((before) => [...before, { name: file.name, url }]);
    }
  };
  const submit = async (event) => {
    event?.preventDefault();
    const message = text.trim();
    if (!message || isBusy) return;
    setBusy(true);
    setText(""); // restored if sending fails
    const sent = isRunning ? await store.steer(message) : await store.send(message, media.map((item) => item.url));
    if (sent) setMedia(isRunning ? media : []);
    else setText((current) => current || message);
    setBusy(false);
  };
  const key = (event) => {
    if (keys.current?.(event)) return;
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) submit(event);
    if (event.key === "Escape" && isRunning) store.stop();
  };
  const pasted = (event) => { const pastedFiles = [...(event.clipboardData?.files || [])]; if (pastedFiles.length) { event.preventDefault(); add(pastedFiles); } };
  const name = store.agent.value;
  return html`<form class="composer" onSubmit=${submit} onDragOver=${(event) => event.preventDefault()} onDrop=${(event) => { event.preventDefault(); add(event.dataTransfer.files); }}>
    ${media.length > 0 && html`<ul class="media">${media.map((item, index) => html`<li key=${index}>${item.url.startsWith("data:image/") ? html`<img src=${item.url} alt=${item.name} />` : html`<span class="file">${item.name}</span>`}
      <button type="button" class="icon" aria-label="${t("remove")}: ${item.name}" onClick=${() => setMedia(media.filter((_, at) => at !== index))}>×</button></li>`)}</ul>`}
    <label class="heard" for="message">${t("message")}</label>
    ${Suggestions && html`<${Suggestions} field=${field} text=${text} setText=${setText} keys=${keys} />`}
    <textarea id="message" ref=${field} rows=${Math.min(10, Math.max(1, text.split("\n").length))} value=${text} onInput=${(event) => setText(event.target.value)} onKeyDown=${key} onPaste=${pasted}
      placeholder=${t(isRunning ? "placeholderSteer" : "placeholder", { agent: name })}></textarea>
    <div class="tools">
      <input class="heard" id="files" type="file" multiple accept="image/png,image/jpeg,image/gif,image/webp,application/pdf,audio/wav,audio/mpeg" ref=${files} tabindex="-1" aria-hidden="true"
        onChange=${(event) => { add(event.target.files); event.target.value = ""; }} />
      <button type="button" class="icon" aria-label=${t("attach")} title=${t("attach")} onClick=${() => files.current.click()}>+</button>
      ${store.agents.value.length > 1 && html`<select aria-label=${t("agent")} value=${name} onChange=${(event) => { store.agent.value = event.target.value; }}>
        ${store.agents.value.map((agent) => html`<option value=${agent.name}>${agent.name}</option>`)}</select>`}
      <span class="grow"></span>
      ${isRunning && html`<button type="button" class="danger" onClick=${store.stop}>${t("stop")}</button>`}
      <button class="primary" disabled=${!text.trim()}>${t(isRunning ? "steer" : "send")}</button>
    </div></form>`;
}

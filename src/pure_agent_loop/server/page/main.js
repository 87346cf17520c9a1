// Entry point of the page.
import { effect, html, render } from "./html.js";
import { App } from "./app.js";
import { start } from "./store.js";
import { language, theme } from "./words.js";

effect(() => { document.documentElement.lang = language.value === "zh" ? "zh-CN" : "en"; });
effect(() => { document.documentElement.dataset.theme = theme.value; });
render(html`<${App} />`, document.getElementById("app"));
start();

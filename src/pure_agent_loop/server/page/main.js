// Entry point of the page.
import { effect, html, render } from "./html.js";
import { App } from "./app.js";
import { start } from "./store.js";
import { language, size, theme, thinking } from "./words.js";

effect(() => { document.documentElement.lang = language.value === "zh" ? "zh-CN" : "en"; });
effect(() => { Object.assign(document.documentElement.dataset, { theme: theme.value, size: size.value, thinking: thinking.value }); });
render(html`<${App} />`, document.getElementById("app"));
start();

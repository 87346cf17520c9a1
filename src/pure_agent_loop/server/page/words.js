// Texts of the page in English and Chinese. `t` returns a text in the current language.
import { signal } from "./html.js";

const WORDS = {
  new: ["New conversation", "新对话"],
  connectionLost: ["The connection was lost.", "连接已断开。"],
  notConnected: ["Not connected.", "未连接。"],
  search: ["Search conversations", "搜索对话"],
  sessions: ["Conversations", "对话列表"],
  noSessions: ["No conversations yet", "还没有对话"],
  untitled: ["Untitled", "无标题"],
  message: ["Message", "消息"],
  placeholder: ["Ask {agent} anything", "向 {agent} 提问"],
  placeholderAny: ["Ask anything", "请提问"],
  placeholderWait: ["Your next message, after this run", "下一条消息，结束后发送"],
  placeholderSteer: ["Add a message while it works", "可在运行时补充消息"],
  send: ["Send", "发送"],
  stop: ["Stop", "停止"],
  attach: ["Attach files", "添加文件"],
  remove: ["Remove", "移除"],
  welcome: ["What can I help with?", "有什么可以帮忙？"],
  welcomeHint: ["You can close this page; work continues.", "可以关闭页面，任务会继续运行。"],
  agent: ["Agent", "智能体"],
  you: ["You", "你"],
  thinking: ["Thinking", "正在思考"],
  thought: ["Thought", "思考过程"],
  thoughtFor: ["Thought for {time}", "思考了 {time}"],
  readsMessage: ["Reading your message…", "正在阅读你的消息…"],
  readsResult: ["Reading the result…", "正在阅读结果…"],
  working: ["Working…", "正在工作…"],
  picture: ["picture", "图片"],
  rows: ["{n} row{s}", "{n} 行"],
  lines: ["{n} line{s}", "{n} 行"],
  running: ["running", "运行中"],
  done: ["done", "完成"],
  failed: ["failed", "失败"],
  denied: ["denied", "已拒绝"],
  notAsked: ["not asked", "未询问"],
  exitCode: ["exit {n}", "退出码 {n}"],
  waiting: ["waiting for you", "等待你"],
  copy: ["Copy", "复制"],
  copied: ["Copied", "已复制"],
  input: ["Input", "输入"],
  output: ["Output", "输出"],
  fileOf: ["image from {tool}", "{tool} 的图片"],
  toBeSent: ["waiting to be sent", "等待发送"],
  toBeRead: ["waiting to be read", "等待读取"],
  notRead: ["not read: the run has ended", "未读取：运行已结束"],
  takeBack: ["Take back", "撤回"],
  edit: ["Edit and resend", "编辑并重发"],
  versions: ["Versions of this message", "此消息的版本"],
  versionBefore: ["Previous version", "上一版本"],
  versionAfter: ["Next version", "下一版本"],
  cancel: ["Cancel", "取消"],
  fork: ["Fork", "分支"],
  forkHere: ["Fork from here", "从此处分支"],
  undo: ["Undo changes", "撤销更改"],
  undone: ["Reverted {files}", "已还原 {files}"],
  nItems: ["{n} item{s}", "{n} 项"],
  share: ["Share", "分享"],
  export: ["Export", "导出"],
  delete: ["Delete", "删除"],
  change: ["Rename, move or delete", "重命名、移动或删除"],
  folder: ["Folder", "文件夹"],
  save: ["Save", "保存"],
  calls: ["{n} call{s}", "{n} 次调用"],
  operator: ["Context", "上下文"],
  audit: ["Audit log", "审计日志"],
  mcp: ["MCP servers", "MCP 服务器"],
  host: ["Host", "主机"],
  name: ["Name", "名称"],
  runs: ["Runs", "运行"],
  timeline: ["Timeline", "时间线"],
  tasks: ["Tasks", "任务"],
  close: ["Close", "关闭"],
  menu: ["Conversations", "对话列表"],
  system: ["Auto", "自动"],
  language: ["Language", "语言"],
  askYou: ["{tool} asks you", "{tool} 向你提问"],
  deny: ["Deny", "拒绝"],
  answer: ["Your answer", "你的回答"],
  reply: ["Answer", "回答"],
  connecting: ["Connecting…", "正在连接…"],
  offline: ["Disconnected. Reconnecting…", "连接已断开，正在重试…"],
  earlier: ["Show earlier messages", "显示更早的消息"],
  latest: ["Jump to latest", "回到最新"],
  loginTitle: ["Sign in", "登录"],
  loginHint: ["Paste the token printed by pal serve, or open its link.", "粘贴 pal serve 输出的令牌，或打开它的链接。"],
  token: ["Token", "令牌"],
  login: ["Sign in", "登录"],
  tokens: ["{n} token{s}", "{n} 个 token"],
  steps: ["{n} step{s}", "{n} 步"],
  model: ["Model", "模型"],
  tool: ["Tool", "工具"],
  retry: ["{why} Trying again in {seconds} ({n} of {all}).", "{why}{seconds} 后重试（第 {n}/{all} 次）。"],
  deniedCall: ["Denied: {tool}", "已拒绝：{tool}"],
  wentOn: ["The server restarted. The task continues.", "服务器已重启，任务继续。"],
  imageHidden: ["image: {alt}", "图片：{alt}"],
  tooBig: ["{name} is too large (at most {most}).", "{name} 太大（最多 {most}）。"],
  wrongKind: ["Can’t attach {name}: only images, PDF, WAV, MP3 and text can be attached.", "无法添加 {name}：可添加图片、PDF、WAV、MP3 和文本。"],
  state: ["State", "状态"],
  skip: ["Skip to the message field", "跳到输入框"],
  keysHint: ["Enter sends, Shift+Enter makes a new line", "Enter 发送，Shift+Enter 换行"],
  placeholderDeny: ["Say what to do instead", "说明应改做什么"],
  denySay: ["Deny and say this", "拒绝并说明"],
  stopped: ["stopped", "已停止"],
  readOnly: ["read-only", "只读"],
  background_start: ["in the background", "在后台"], background_read: ["new output", "新的输出"], background_end: ["ended", "已结束"],
  plan: ["Plan", "计划"],
  nFailed: ["{n} failed", "{n} 个失败"],
  moreRows: ["Show {n} more line{s}", "再显示 {n} 行"],
  askEdit: ["{what}?", "{what}？"],
  allow: ["Allow", "允许"],
  allowEdits: ["Allow edits in {path}", "允许编辑 {path}"],
  allowEdit: ["Allow edits of {path}", "允许编辑 {path}"],
  allowPages: ["Allow pages from {host}", "允许访问 {host}"],
  allowSame: ["Always allow this command", "始终允许此命令"],
  allowAll_edit_file: ["Allow all edits", "允许所有编辑"],
  allowAll_write_file: ["Allow all writes", "允许所有写入"],
  allowAll: ["Allow all {tool} calls", "允许所有 {tool} 调用"],
  allowKnown: ["Allow, and {who} is known from now on", "允许，并从此认识 {who}"],
  origin_source: ["{argument} {value}: found for you in {source}", "{argument} {value}：为你在 {source} 中查到"],
  origin_source_strange: ["{argument} {value}: from {source}, not from you:", "{argument} {value}：来自 {source}，不是来自你："],
  origin_nowhere: ["{argument} {value}: the model chose it before it read anything", "{argument} {value}：模型在读取任何内容之前选定"],
  origin_nowhere_strange: ["{argument} {value}: in nothing that was read; the model chose it", "{argument} {value}：不在读到的任何内容中；由模型选定"],
  origin_you: ["{argument} {value}: from you", "{argument} {value}：来自你"],
  origin_free: ["{argument}: not checked", "{argument}：未检查"],
  allowAllHint: ["In this conversation, without asking again", "仅限本对话，不再询问"],
  instead: ["Tell it what to do instead (optional)", "告诉它应改做什么（可选）"],
  details: ["Details", "详情"],
  waitsFor: ["waiting {time}", "已等待 {time}"],
  quoted: ["“{text}”", "“{text}”"],
  asksBecause: ["Asks because of: {why}", "询问原因：{why}"],
  askTool: ["Call {tool}?", "调用 {tool}？"],
  notYours: ["Waiting for someone who may approve.", "等待有审批权限的人。"],
  answeredBy_allow: ["{by} allowed this at {at}", "{by} 于 {at} 允许"],
  answeredBy_deny: ["{by} denied this at {at}", "{by} 于 {at} 拒绝"],
  answeredYou_allow: ["You allowed this at {at}", "你于 {at} 允许"],
  answeredYou_deny: ["You denied this at {at}", "你于 {at} 拒绝"],
  notWaiting: ["This question is no longer open.", "该问题已不再等待回答。"],
  inbox: ["Approvals", "待审批"],
  nWaiting: ["{n} waiting", "{n} 项待审批"],
  openIt: ["Open conversation", "打开对话"],
  notify: ["Notify me when something is waiting", "有待审批时通知我"],
  retryIt: ["Retry", "重试"],
  tryAgain: ["Try again", "重试"],
  nFound: ["{n} found for “{query}”", "“{query}”：{n} 个结果"],
  pinned: ["Pinned", "已置顶"],
  pin: ["Pin", "置顶"],
  unpin: ["Unpin", "取消置顶"],
  moveTo: ["Move to folder", "移到文件夹"],
  deleteIt: ["Delete “{title}”?", "删除“{title}”？"],
  deleteHint: ["Its messages and files cannot be restored.", "其中的消息和文件无法恢复。"],
  showMore: ["Show more", "显示更多"],
  inspect: ["Inspect", "检查"],
  noMatch: ["No match for “{query}”", "没有与“{query}”匹配的对话"],
  notRestored: ["Not restored: {files}", "未还原：{files}"],
  nothingToUndo: ["Nothing to undo.", "没有可撤销的更改。"],
  end_cancelled: ["Stopped", "已停止"],
  end_failed: ["Failed", "失败"],
  end_killed: ["Given up", "已放弃"],
  rename: ["Rename", "重命名"],
  title: ["Title", "标题"],
  today: ["Today", "今天"],
  justNow: ["just now", "刚刚"],
  minutesAgo: ["{n} min ago", "{n} 分钟前"],
  hoursAgo: ["{n} h ago", "{n} 小时前"],
  isUndone: ["undone", "已撤销"],
  yesterday: ["Yesterday", "昨天"],
  before: ["Earlier", "更早"],
  more: ["More", "更多"],
  settings: ["Settings", "设置"],
  notSignedIn: ["You are signed out. The message was not sent; it is kept.", "您已退出登录。消息未发送，已保留。"],
  copyAnswer: ["Copy answer", "复制回答"],
  operate: ["Operator", "运维"],
  task: ["Task", "任务"],
  started: ["Started", "开始"],
  shown: ["Shown", "显示"],
  hidden: ["Hidden", "隐藏"],
  state_waiting_permission: ["waiting for approval", "等待审批"],
  state_waiting_tool: ["waiting for a result", "等待结果"],
  waited: ["waited {time}", "等待 {time}"],
  allowed: ["allowed", "已允许"],
  startNotes: ["Setup", "启动信息"],
  log: ["Conversation", "对话"],
};

const stored = (key) => { try { return localStorage.getItem(key); } catch { return null; } };
const store = (key, value) => { try { localStorage.setItem(key, value); } catch { /* a private window */ } };

export const language = signal(stored("pal-language") || (/^zh\b/i.test(navigator.language) ? "zh" : "en"));
export const theme = signal(stored("pal-theme") || "system");
export const size = signal(stored("pal-size") || "usual"); // size of the text
export const thinking = signal(stored("pal-thinking") || "on"); // whether reasoning is shown
const SETTINGS = { language, theme, size, thinking };

export function choose(name, value) { SETTINGS[name].value = value; store(`pal-${name}`, value); }

// `{s}` is the plural ending for the number `n`.
export function t(name, values = {}) {
  const text = WORDS[name][language.value === "zh" ? 1 : 0], filled = { s: String(values.n) === "1" ? "" : "s", ...values };
  return text.replace(/\{(\w+)\}/g, (_, key) => String(filled[key] ?? ""));
}

// A text that comes in each language; none if there is none.
export const inLanguage = (texts) => texts && (texts[language.value] ?? texts.en);
export const addWords = (words) => Object.assign(WORDS, words);
export const hasWord = (name) => name in WORDS;

// Verb of a tool: requested, running, done; in Chinese with a prefix.
const VERBS = {
  calculator: ["Calculate", "Calculating", "Calculated", "计算"], edit_file: ["Edit", "Editing", "Edited", "编辑"],
  fetch: ["Fetch", "Fetching", "Fetched", "抓取"], glob: ["Find", "Finding", "Found", "查找"],
  grep: ["Search", "Searching", "Searched", "搜索"], list_dir: ["List", "Listing", "Listed", "列出"],
  read_file: ["Read", "Reading", "Read", "读取"], read_image: ["View", "Viewing", "Viewed", "查看"],
  shell: ["Run", "Running", "Ran", "运行"], todo_write: ["Update plan", "Updating plan", "Updated plan", "更新计划"],
  tool_search: ["Search tools", "Searching tools", "Searched tools", "查找工具"], write_file: ["Write", "Writing", "Wrote", "写入"],
};

// The verb for a call in its state; the tool's name if it has none. A command that failed still ran.
export function verb(tool, { state, command } = {}) {
  const forms = Object.hasOwn(VERBS, tool) && VERBS[tool];
  if (!forms) return tool;
  const at = state === "running" ? 1 : state === "done" || command ? 2 : 0;
  return language.value === "zh" ? `${["", "正在", "已"][at]}${forms[3]}` : forms[at];
}

export const seconds = (number) => (number < 10 && !Number.isInteger(number) ? `${number.toFixed(1)} s` : number < 90 ? `${Math.round(number)} s` : `${Math.round(number / 60)} min`);

export const money = (cost) => (cost ? `$${cost.toFixed(4)}` : "");

// The arguments that identify a call best, in this order.
const MAIN = ["command", "pattern", "path", "file_path", "query", "url", "question", "prompt", "task", "name"];

// What a call is about, on one line.
export function subject(args) {
  if (!args) return "";
  if (typeof args === "string") return args.slice(0, 200);
  const named = MAIN.map((name) => args[name]).find((value) => typeof value === "string");
  const texts = named !== undefined ? [named] : Object.values(args).map((value) => (typeof value === "string" ? value : value?.[0] instanceof Object ? t("nItems", { n: value.length }) : JSON.stringify(value)));
  return texts.join(" · ").replace(/\s+/g, " ").slice(0, 200);
}

const said = (time, options) => new Date(time * 1000).toLocaleString(language.value === "zh" ? "zh-CN" : [], options);
// The hour of a time; of another day, with the date.
export const clock = (time) => said(time, { ...(new Date(time * 1000).toDateString() !== new Date().toDateString() && { month: "short", day: "numeric" }), hour: "numeric", minute: "2-digit" });

// How long ago a time was, in words; a day ago and more, the date.
export function ago(time) {
  const minutes = Math.floor((Date.now() / 1000 - time) / 60);
  if (minutes < 60) return minutes < 1 ? t("justNow") : t("minutesAgo", { n: minutes });
  return minutes < 1440 ? t("hoursAgo", { n: Math.floor(minutes / 60) }) : said(time, { month: "short", day: "numeric" });
}

// Tokens of a request and its response; a count of zero cached tokens is left out.
export const usedWords = (sent, got, cached) => t("inOut", { in: sent.toLocaleString(), out: got, cached: cached > 0 ? t("ofCache", { n: cached.toLocaleString() }) : "" });

// Tokens written to a prompt cache, and missed by it; zero counts are left out.
export const cacheWords = (written, missed) => [["written", written], ["missed", missed]].filter(([, n]) => n > 0).map(([name, n]) => t(name, { n: n.toLocaleString() }));

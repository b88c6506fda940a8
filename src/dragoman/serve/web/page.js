"use strict";
const TYPING_PAUSE = 250; // milliseconds after the last key
const LINE_BREAKS = /\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/g; // as the server splits lines
const source = byId("source"), target = byId("target");
const current = { models: null, choices: [], model: null, to: undefined, detect: false, sent: null, lines: [], line: null, word: null, attention: null, controller: null, timer: 0, retryTimer: 0, slowTimer: 0, retries: 0 };

class RequestError extends Error {
  constructor(status, message, after, code) { super(message); Object.assign(this, { status, after, code }); }
}

async function parseResponse(response) {
  const body = await response.json().catch(() => ({}));
  if (response.ok) return body;
  throw new RequestError(response.status, body.error && body.error.message || `HTTP ${response.status}`, Number(response.headers.get("Retry-After")) || 0, body.error && body.error.code);
}
async function post(path, data, signal) {
  return parseResponse(await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(data), signal }));
}

/* Set the status: idle, waiting, done or error. */
function setStatus(status, message = "") {
  document.body.dataset.state = status;
  clearTimeout(current.slowTimer);
  if (status === "waiting") current.slowTimer = setTimeout(() => { byId("status").textContent = strings.waiting; }, 1000);
  byId("target-pane").setAttribute("aria-busy", status === "waiting");
  byId("working").hidden = status !== "waiting";
  target.classList.toggle("stale", status === "waiting" || status === "error");
  byId("status").textContent = message;
  byId("status").classList.toggle("error", status === "error");
}

/* The offset of each line of a text. */
const lineStarts = text => [0, ...[...text.matchAll(LINE_BREAKS)].map(end => end.index + end[0].length)];

function scheduleTranslation(pause = TYPING_PAUSE) {
  clearTimeout(current.timer);
  clearTimeout(current.retryTimer);
  current.timer = setTimeout(translate, pause);
}

async function translate() {
  const text = source.value, most = current.models ? current.models.max_characters : Infinity;
  if (current.controller) current.controller.abort(); // the server drops aborted requests
  if (!text.trim()) { showTranslation("", []); return setStatus("idle"); }
  if ([...text].length > most) return setStatus("error", strings.long(figure.format([...text].length), figure.format(most)));
  const control = current.controller = new AbortController();
  setStatus("waiting");
  try {
    if (!current.models) await loadModels();
    if (current.detect) await detectModel(text, control.signal);
    if (control.signal.aborted) return;
    const answer = await post("v1/translate", { text, model: current.model, to: current.to, scores: true }, control.signal);
    if (control.signal.aborted) return;
    current.retries = 0;
    setStatus("done");
    const [one] = answer.translations;
    current.sent = text;
    showTranslation(one.text, one.flags, one.confidence);
  } catch (error) {
    if (control.signal.aborted) return;
    if (!(error instanceof RequestError)) { // no response
      setStatus("error", strings.away);
      current.retryTimer = setTimeout(translate, Math.min(15000, 1000 * 2 ** current.retries++));
    } else if (error.status === 429 || error.status === 503) {
      const wait = Math.max(1, error.after);
      setStatus("error", strings.busy(wait));
      current.retryTimer = setTimeout(translate, 1000 * wait);
    } else setStatus("error", strings.textErrors[error.code] || error.message);
  }
}

function showTranslation(text, flags, confidence = 0) {
  current.lines = text ? text.split(LINE_BREAKS) : [];
  selectWord(null);
  target.replaceChildren(...current.lines.map((line, i) => {
    const node = element("div", "line", line);
    node.dir = "auto";
    node.dataset.line = i;
    return node;
  }));
  if (!current.lines.length) target.append(element("div", "empty", strings.empty));
  byId("copy").hidden = byId("details").hidden = !current.lines.length;
  const warnings = flags.map(flag => strings.flags[flag]).filter(Boolean);
  const shown = text.trim() ? strings.confidence(Math.round(100 * confidence)) : "";
  byId("note").textContent = warnings.length ? `${strings.warning}${warnings.join(", ")} (${shown})` : shown;
  byId("note").classList.toggle("warning", warnings.length > 0);
  const typed = source.value.slice(0, source.selectionStart).split(LINE_BREAKS).length - 1; // line of the cursor
  const first = (current.lines[typed] || "").trim() ? typed : current.lines.findIndex(line => line.trim());
  current.line = current.attention = null;
  if (first >= 0) selectLine(first, byId("attention").open);
}

/* Select a line, by pointer or keyboard; its attention is fetched when it is shown. */
const sourceLine = number => (current.sent || "").split(LINE_BREAKS)[number] || "";
async function selectLine(number, see = true) {
  if (!sourceLine(number).trim()) return;
  if (current.line !== number) {
    current.line = number;
    current.attention = null;
    byId("map").replaceChildren(); // it shows another line
    selectWord(null);
    showAlternatives();
  }
  if (!see || current.attention || !hasAttention()) return;
  const line = sourceLine(number), unavailable = message => { if (byId("attention").open) byId("map").replaceChildren(element("caption", "", message)); };
  if ([...line].length > MAX_CHARACTERS || [...current.lines[number]].length > MAX_CHARACTERS || !current.lines[number].trim()) return unavailable(strings.noAttention);
  try {
    const found = await fetchAttention(current.model, current.to, line, current.lines[number].trim());
    if (current.line !== number || sourceLine(number) !== line || current.attention) return;
    if (found.target.text.replace(/\s+/g, " ").trim() !== current.lines[number].replace(/\s+/g, " ").trim()) return unavailable(strings.noAttention); // translated in parts
    current.attention = found;
    const shown = target.children[number], text = current.lines[number], shift = [...text].length - [...text.trimStart()].length;
    const words = found.target.words.map(word => word.start === null ? word : { ...word, start: word.start + shift, end: word.end + shift });
    shown.replaceChildren(...wrapWords(text, words, (label, index) => {
      const node = element("span", "", label);
      node.dataset.word = index;
      return node;
    }));
    if (byId("attention").open) drawMap(found);
  } catch (error) {
    unavailable(`${strings.failed}: ${error.message}`);
  }
}

const isCurrentLine = span => Number(span.parentElement.dataset.line) === current.line;

/* Select a word of the translation, and highlight what it attends to in the text. */
function selectWord(word) {
  current.word = word;
  for (const span of target.querySelectorAll("span")) {
    span.classList.toggle("chosen", word !== null && Number(span.dataset.word) === word && isCurrentLine(span));
    span.style.setProperty("--weight", 0);
  }
  byId("description").replaceChildren();
  for (const [i, row] of [...byId("map").querySelectorAll("tbody th")].entries()) row.classList.toggle("chosen", i === word);
  if (word === null || !current.attention) return drawHighlights();
  const weights = current.attention.weights[word];
  drawHighlights(weights);
  describe(current.attention.target.words[word].text, strings.attends, topWords(weights, current.attention.source.words));
}

/* Draw a copy of the text behind the input, whose words can be highlighted; it also sets the height. */
function drawHighlights(weights) {
  const text = source.value, behind = byId("highlights");
  if (!weights || text !== current.sent) return behind.replaceChildren(document.createTextNode(text + "\n"));
  const before = lineStarts(text)[current.line], line = sourceLine(current.line);
  const marks = wrapWords(line, current.attention.source.words, (label, index) => {
    const node = element("mark", "", label);
    node.style.setProperty("--weight", Math.min(1, weights[index]).toFixed(3));
    return node;
  });
  behind.replaceChildren(document.createTextNode(text.slice(0, before)), ...marks, document.createTextNode(text.slice(before + line.length) + "\n"));
}

/* Highlight the words of the translation that attend to the source word at the cursor. */
async function followCursor() {
  if (document.activeElement !== source || source.value !== current.sent || source.selectionStart !== source.selectionEnd) return;
  const cursor = source.selectionStart, startsBefore = lineStarts(source.value).filter(start => start <= cursor), number = startsBefore.length - 1;
  const column = [...source.value.slice(startsBefore[number], cursor)].length;
  await selectLine(number);
  if (!current.attention || current.line !== number) return;
  const index = current.attention.source.words.findIndex(word => word.start !== null && word.start <= column && column <= word.end);
  selectWord(null);
  if (index < 0) return;
  const weights = current.attention.weights.map(row => row[index]);
  for (const span of target.querySelectorAll("span")) if (isCurrentLine(span)) span.style.setProperty("--weight", Math.min(1, weights[span.dataset.word]).toFixed(3));
  drawHighlights(current.attention.source.words.map((_, i) => i === index ? .6 : 0));
  describe(current.attention.source.words[index].text, strings.attendedBy, topWords(weights, current.attention.target.words));
}

async function showAlternatives() {
  if (!byId("alternatives").open || current.line === null) return;
  const line = sourceLine(current.line), number = current.line;
  const most = Math.min(5, current.models.max_beam);
  try {
    const answer = await post("v1/translate", { text: line.trim(), model: current.model, to: current.to, n_best: most, scores: true });
    if (current.line !== number || sourceLine(number) !== line) return;
    const [one] = answer.translations, known = new Set([current.lines[number].trim()]); // already shown
    const others = [one, ...one.alternatives].sort((a, b) => b.log_probability - a.log_probability).filter(other => !known.has(other.text.trim()) && known.add(other.text.trim()));
    byId("alternative-list").replaceChildren(...others.map(other => {
      const node = element("li"), part = Math.exp(other.log_probability), bar = element("span", "bar"), inside = element("i");
      node.append(element("span", "", other.text));
      node.firstChild.dir = "auto";
      if (part < .001) return node; // a bar would be empty
      inside.style.setProperty("--part", part.toFixed(4));
      bar.append(inside);
      node.append(bar, element("span", "share", `${(100 * part).toFixed(1)} %`));
      return node;
    }));
    if (!others.length) byId("alternative-list").replaceChildren(element("li", "", strings.none));
  } catch (error) {
    byId("alternative-list").replaceChildren(element("li", "", `${strings.failed}: ${error.message}`));
  }
}

function showCount() {
  const n = [...source.value].length, most = current.models ? current.models.max_characters : 0;
  byId("count").textContent = !n || !most ? "" : n < most / 2 ? figure.format(n) : strings.count(figure.format(n), figure.format(most));
  byId("count").classList.toggle("error", Boolean(most) && n > most);
  byId("clear").hidden = !n;
}

source.addEventListener("input", () => { current.word = null; drawHighlights(); showCount(); scheduleTranslation(); });
source.addEventListener("keydown", event => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) scheduleTranslation(0); });
document.addEventListener("selectionchange", followCursor);
byId("clear").addEventListener("click", () => { source.value = ""; drawHighlights(); showCount(); translate(); source.focus(); });
byId("copy").addEventListener("click", async () => {
  try { await navigator.clipboard.writeText(current.lines.join("\n")); } catch { // the fallback without HTTPS
    const range = document.createRange();
    range.selectNodeContents(target);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    document.execCommand("copy");
  }
  byId("copy").textContent = strings.copied;
  setTimeout(() => { byId("copy").textContent = strings.copy; }, 1500);
});
/* The index of the word that an element shows, if it is in the selected line. */
function wordOf(node) {
  const line = node.closest(".line"), span = node.closest("span");
  return span && line && current.line === Number(line.dataset.line) ? Number(span.dataset.word) : null;
}
target.addEventListener("pointerover", event => {
  const line = event.target.closest(".line");
  if (line) selectLine(Number(line.dataset.line));
  selectWord(wordOf(event.target));
});
target.addEventListener("click", async event => { // also taps: words appear once their line is selected
  const line = event.target.closest(".line");
  if (!line) return;
  await selectLine(Number(line.dataset.line));
  selectWord(wordOf(document.elementFromPoint(event.clientX, event.clientY) || line));
});
target.addEventListener("pointerleave", event => { if (event.pointerType !== "touch") selectWord(null); }); // lifting a finger also fires it
target.addEventListener("blur", () => selectWord(null));
target.addEventListener("keydown", async event => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key], down = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (event.key === "Escape") return selectWord(null);
  if (!(step || down) || current.line === null) return;
  event.preventDefault();
  if (down) {
    let next = current.line + down;
    while (next >= 0 && next < current.lines.length && !sourceLine(next).trim()) next += down;
    if (next < 0 || next >= current.lines.length) return;
    await selectLine(next);
    if (current.line === next && current.attention) selectWord(0);
  } else {
    await selectLine(current.line);
    if (current.attention) selectWord(current.word === null ? 0 : Math.max(0, Math.min(current.attention.target.words.length - 1, current.word + step)));
  }
  const span = target.querySelector("span.chosen");
  if (span) span.scrollIntoView({ block: "nearest" });
});
byId("alternatives").addEventListener("toggle", showAlternatives);
byId("attention").addEventListener("toggle", () => {
  if (!byId("attention").open || current.line === null) return;
  if (current.attention) drawMap(current.attention);
  else selectLine(current.line);
});

setStatus("idle");
showTranslation("", []);
drawHighlights();
showCount();
function start() {
  loadModels().then(() => { current.retries = 0; setStatus("idle"); if (source.value.trim()) scheduleTranslation(0); }, () => {
    setStatus("error", strings.away);
    current.retryTimer = setTimeout(start, Math.min(15000, 1000 * 2 ** current.retries++));
  });
}
start();

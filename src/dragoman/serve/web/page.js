"use strict";
const PAUSE = 250; // milliseconds without a key before a text is sent
const ENDS = /\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/g; // of lines, as the server finds them
const source = at("source"), target = at("target");
const now = { models: null, choices: [], model: null, to: undefined, sent: null, lines: [], line: null, word: null, found: null, control: null, timer: 0, again: 0, slow: 0, tries: 0 };

class Refused extends Error {
  constructor(status, message, after) { super(message); this.status = status; this.after = after; }
}

async function answered(response) {
  const told = await response.json().catch(() => ({}));
  if (response.ok) return told;
  throw new Refused(response.status, told.error && told.error.message || `HTTP ${response.status}`, Number(response.headers.get("Retry-After")) || 0);
}
async function post(path, body, signal) {
  return answered(await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal }));
}

/* How things stand: idle, waiting, done, wrong. */
function stand(how, words = "") {
  document.body.dataset.state = how;
  clearTimeout(now.slow);
  if (how === "waiting") now.slow = setTimeout(() => { at("state").textContent = say.waiting; }, 1000);
  at("answer").setAttribute("aria-busy", how === "waiting");
  at("working").hidden = how !== "waiting";
  target.classList.toggle("old", how === "waiting" || how === "wrong");
  at("state").textContent = words;
  at("state").classList.toggle("wrong", how === "wrong");
}

/* Where each line of a text begins. */
const starts = text => [0, ...[...text.matchAll(ENDS)].map(end => end.index + end[0].length)];

function soon(pause = PAUSE) {
  clearTimeout(now.timer);
  clearTimeout(now.again);
  now.timer = setTimeout(translate, pause);
}

async function translate() {
  const text = source.value, most = now.models ? now.models.max_characters : Infinity;
  if (now.control) now.control.abort(); // the server drops what nobody waits for
  if (!text.trim()) { show("", []); return stand("idle"); }
  if ([...text].length > most) return stand("wrong", say.long(figure.format([...text].length), figure.format(most)));
  const control = now.control = new AbortController();
  stand("waiting");
  try {
    if (!now.models) await open();
    const answer = await post("v1/translate", { text, model: now.model, to: now.to }, control.signal);
    if (control.signal.aborted) return;
    now.tries = 0;
    stand("done");
    const [one] = answer.translations;
    now.sent = text;
    show(one.text, one.flags);
  } catch (error) {
    if (control.signal.aborted) return;
    if (!(error instanceof Refused)) { // nobody answered
      stand("wrong", say.away);
      now.again = setTimeout(translate, Math.min(15000, 1000 * 2 ** now.tries++));
    } else if (error.status === 429 || error.status === 503) {
      const wait = Math.max(1, error.after);
      stand("wrong", say.busy(wait));
      now.again = setTimeout(translate, 1000 * wait);
    } else stand("wrong", error.message);
  }
}

function show(text, flags) {
  now.lines = text ? text.split(ENDS) : [];
  choose(null);
  target.replaceChildren(...now.lines.map((line, i) => {
    const made = element("div", "line", line);
    made.dir = "auto";
    made.dataset.line = i;
    return made;
  }));
  if (!now.lines.length) target.append(element("div", "empty", say.empty));
  at("copy").hidden = at("more").hidden = !now.lines.length;
  const words = flags.map(flag => say[flag === "empty" ? "empty_flag" : flag]).filter(Boolean);
  at("note").textContent = words.length ? say.careful + words.join(", ") : "";
  const typed = source.value.slice(0, source.selectionStart).split(ENDS).length - 1; // where the cursor is
  const first = (now.lines[typed] || "").trim() ? typed : now.lines.findIndex(line => line.trim());
  now.line = now.found = null;
  if (first >= 0) enter(first, at("looked").open);
}

/* A line is entered when it is pointed at or walked to; what it looked at is asked for when somebody wants to see. */
const sourceLine = number => (now.sent || "").split(ENDS)[number] || "";
async function enter(number, see = true) {
  if (!sourceLine(number).trim()) return;
  if (now.line !== number) {
    now.line = number;
    now.found = null;
    at("map").replaceChildren(); // it was another line's
    choose(null);
    list();
  }
  if (!see || now.found || !looks()) return;
  const line = sourceLine(number), nothing = words => { if (at("looked").open) at("map").replaceChildren(element("caption", "", words)); };
  if ([...line].length > LONGEST) return nothing(say.unseen);
  try {
    const found = await look(now.model, now.to, line);
    if (now.line !== number || sourceLine(number) !== line || now.found) return;
    if (found.target.text.replace(/\s+/g, " ").trim() !== now.lines[number].replace(/\s+/g, " ").trim()) return nothing(say.unseen); // of another search
    now.found = found;
    const shown = target.children[number], text = now.lines[number], shift = [...text].length - [...text.trimStart()].length;
    const words = found.target.words.map(word => word.start === null ? word : { ...word, start: word.start + shift, end: word.end + shift });
    shown.replaceChildren(...between(text, words, (label, index) => {
      const made = element("span", "", label);
      made.dataset.word = index;
      return made;
    }));
    if (at("looked").open) drawMap(found);
  } catch (error) {
    nothing(`${say.failed}: ${error.message}`);
  }
}

const here = span => Number(span.parentElement.dataset.line) === now.line;

/* One word of the translation: what it looked at is marked in the text. */
function choose(word) {
  now.word = word;
  for (const span of target.querySelectorAll("span")) {
    span.classList.toggle("now", word !== null && Number(span.dataset.word) === word && here(span));
    span.style.setProperty("--weight", 0);
  }
  at("said").replaceChildren();
  for (const [i, row] of [...at("map").querySelectorAll("tbody th")].entries()) row.classList.toggle("now", i === word);
  if (word === null || !now.found) return mirror();
  const weights = now.found.weights[word];
  mirror(weights);
  tell(now.found.target.words[word].text, say.looks, best(weights, now.found.source.words));
}

/* The text once more behind itself, where its words can have a color; it also gives the sheet its height. */
function mirror(weights) {
  const text = source.value, behind = at("mirror");
  if (!weights || text !== now.sent) return behind.replaceChildren(document.createTextNode(text + "\n"));
  const before = starts(text)[now.line], line = sourceLine(now.line);
  const marks = between(line, now.found.source.words, (label, index) => {
    const made = element("mark", "", label);
    made.style.setProperty("--weight", Math.min(1, weights[index]).toFixed(3));
    return made;
  });
  behind.replaceChildren(document.createTextNode(text.slice(0, before)), ...marks, document.createTextNode(text.slice(before + line.length) + "\n"));
}

/* The cursor in a word of the text: who looked at it is marked in the translation. */
async function follow() {
  if (document.activeElement !== source || source.value !== now.sent || source.selectionStart !== source.selectionEnd) return;
  const cursor = source.selectionStart, begun = starts(source.value).filter(start => start <= cursor), number = begun.length - 1;
  const column = [...source.value.slice(begun[number], cursor)].length;
  await enter(number);
  if (!now.found || now.line !== number) return;
  const index = now.found.source.words.findIndex(word => word.start !== null && word.start <= column && column <= word.end);
  choose(null);
  if (index < 0) return;
  const weights = now.found.weights.map(row => row[index]);
  for (const span of target.querySelectorAll("span")) if (here(span)) span.style.setProperty("--weight", Math.min(1, weights[span.dataset.word]).toFixed(3));
  mirror(now.found.source.words.map((_, i) => i === index ? .6 : 0));
  tell(now.found.source.words[index].text, say.seen, best(weights, now.found.target.words));
}

async function list() {
  if (!at("others").open || now.line === null) return;
  const line = sourceLine(now.line), number = now.line;
  const most = Math.min(5, now.models.max_beam);
  try {
    const answer = await post("v1/translate", { text: line.trim(), model: now.model, to: now.to, n_best: most, scores: true });
    if (now.line !== number || sourceLine(number) !== line) return;
    const [one] = answer.translations, others = one.alternatives.sort((a, b) => b.log_probability - a.log_probability), all = [one, ...others], known = new Set();
    at("list").replaceChildren(...all.filter(other => !known.has(other.text) && known.add(other.text)).map(other => {
      const made = element("li"), part = Math.exp(other.log_probability), bar = element("span", "bar"), inside = element("i");
      inside.style.setProperty("--part", part.toFixed(4));
      bar.append(inside);
      made.append(element("span", "", other.text), bar, element("span", "share", part < .001 ? "< 0.1 %" : `${(100 * part).toFixed(1)} %`));
      made.firstChild.dir = "auto";
      return made;
    }));
    if (!all.length) at("list").replaceChildren(element("li", "", say.none));
  } catch (error) {
    at("list").replaceChildren(element("li", "", `${say.failed}: ${error.message}`));
  }
}

/* The models, asked for when the page opens, and again if nobody answered then; one of several languages is a choice for each. */
const keyOf = (name, to) => to ? `${name}\n${to}` : name;
const pair = (choice, other) => choice.source || choice.to ? `${choice.source || ""} → ${choice.target}`.trim() : other;
async function open() {
  now.models = await answered(await fetch("v1/models"));
  now.choices = now.models.models.flatMap(model => model.targets.length ? model.targets.map(to => ({ ...model, to, target: to })) : [model]);
  const before = kept.get("model");
  take(now.choices.find(one => keyOf(one.name, one.to) === before) || now.choices[0]);
  at("model").replaceChildren(...now.choices.map(choice => {
    const shown = pair(choice, ""), made = element("option", "", shown ? `${choice.name} (${shown})` : choice.name);
    made.value = keyOf(choice.name, choice.to);
    made.selected = choice === chosen();
    return made;
  }));
  at("choice").hidden = now.choices.length < 2;
  at("only").hidden = now.choices.length > 1;
  named();
}
const take = choice => { now.model = choice.name; now.to = choice.to; };
const chosen = () => now.choices.find(one => one.name === now.model && one.to === now.to);
const looks = () => chosen().attention;
function named() {
  const model = chosen();
  at("looked").hidden = !looks();
  at("only").textContent = pair(model, model.name);
  at("engine").textContent = model.engine;
  source.lang = model.source || "";
  target.lang = model.target || "";
  count();
}
function count() {
  const n = [...source.value].length, most = now.models ? now.models.max_characters : 0;
  at("count").textContent = !n || !most ? "" : n < most / 2 ? figure.format(n) : say.count(figure.format(n), figure.format(most));
  at("count").classList.toggle("wrong", Boolean(most) && n > most);
  at("clear").hidden = !n;
}

source.addEventListener("input", () => { now.word = null; mirror(); count(); soon(); });
source.addEventListener("keydown", event => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) soon(0); });
document.addEventListener("selectionchange", follow);
at("model").addEventListener("change", event => { take(now.choices.find(one => keyOf(one.name, one.to) === event.target.value)); kept.set("model", event.target.value); named(); now.line = null; soon(0); });
at("clear").addEventListener("click", () => { source.value = ""; mirror(); count(); translate(); source.focus(); });
at("copy").addEventListener("click", async () => {
  try { await navigator.clipboard.writeText(now.lines.join("\n")); } catch { // without https, the old way
    const range = document.createRange();
    range.selectNodeContents(target);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    document.execCommand("copy");
  }
  at("copy").textContent = say.copied;
  setTimeout(() => { at("copy").textContent = say.copy; }, 1500);
});
/* The word of the line entered that an element of the translation shows, if it shows one. */
function wordOf(node) {
  const line = node.closest(".line"), span = node.closest("span");
  return span && line && now.line === Number(line.dataset.line) ? Number(span.dataset.word) : null;
}
target.addEventListener("pointerover", event => {
  const line = event.target.closest(".line");
  if (line) enter(Number(line.dataset.line));
  choose(wordOf(event.target));
});
target.addEventListener("click", async event => { // also a tap, which has no words to point at before its line is entered
  const line = event.target.closest(".line");
  if (!line) return;
  await enter(Number(line.dataset.line));
  choose(wordOf(document.elementFromPoint(event.clientX, event.clientY) || line));
});
target.addEventListener("pointerleave", event => { if (event.pointerType !== "touch") choose(null); }); // a lifted finger leaves too
target.addEventListener("blur", () => choose(null));
target.addEventListener("keydown", async event => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key], down = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (event.key === "Escape") return choose(null);
  if (!(step || down) || now.line === null) return;
  event.preventDefault();
  if (down) {
    let next = now.line + down;
    while (next >= 0 && next < now.lines.length && !sourceLine(next).trim()) next += down;
    if (next < 0 || next >= now.lines.length) return;
    await enter(next);
    if (now.line === next && now.found) choose(0);
  } else {
    await enter(now.line);
    if (now.found) choose(now.word === null ? 0 : Math.max(0, Math.min(now.found.target.words.length - 1, now.word + step)));
  }
  const span = target.querySelector("span.now");
  if (span) span.scrollIntoView({ block: "nearest" });
});
at("others").addEventListener("toggle", list);
at("looked").addEventListener("toggle", () => {
  if (!at("looked").open || now.line === null) return;
  if (now.found) drawMap(now.found);
  else enter(now.line);
});

stand("idle");
show("", []);
mirror();
count();
function begin() {
  open().then(() => { now.tries = 0; stand("idle"); if (source.value.trim()) soon(0); }, () => {
    stand("wrong", say.away);
    now.again = setTimeout(begin, Math.min(15000, 1000 * 2 ** now.tries++));
  });
}
begin();

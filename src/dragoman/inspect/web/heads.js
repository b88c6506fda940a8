"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const at = id => document.getElementById(id);
const TITLES = { encoder: "source attends to source", decoder: "target attends to target", cross: "target attends to source" };
const state = { head: data.heads.reduce((a, b) => (b.importance > a.importance ? b : a)), example: 0, row: null };
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const most = Math.max(1e-9, ...data.heads.map(head => head.importance));
const shade = importance => Math.sqrt(Math.max(0, importance) / most);
const thousandths = importance => { const n = 1000 * importance; return Math.abs(n) >= 9.95 ? n.toFixed(0) : n.toFixed(1); };
const node = (kind, text, name) => { const made = document.createElement(kind); if (text !== undefined) made.textContent = text; if (name) made.className = name; return made; };

for (const example of data.examples) for (const map of Object.values(example.kinds)) {
  const raw = atob(map.weights), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  map.values = new Uint16Array(bytes.buffer);
}

/* A block for each kind of attention: a row per layer, a button per head. */
function drawBlocks() {
  at("blocks").replaceChildren(...Object.keys(TITLES).map(kind => {
    const heads = data.heads.filter(head => head.kind === kind), across = Math.max(...heads.map(head => head.head));
    const section = node("section"), scroll = node("div", undefined, "scroll"), block = node("div", undefined, "block");
    block.style.gridTemplateColumns = `auto repeat(${across}, minmax(5.6rem, 1fr))`;
    block.append(node("span", "", "name"), ...Array.from({ length: across }, (_, i) => node("span", `head ${i + 1}`, "name")));
    for (const head of heads) {
      if (head.head === 1) block.append(node("span", `layer ${head.layer}`, "name"));
      const button = node("button");
      button.type = "button";
      button.style.setProperty("--shade", shade(head.importance).toFixed(3));
      button.setAttribute("aria-pressed", head === state.head);
      button.setAttribute("aria-label", `${kind}, layer ${head.layer}, head ${head.head}: ${thousandths(head.importance)}, ${head.label}`);
      button.append(node("b", thousandths(head.importance)), node("span", head.label.replaceAll(" %", "\u00a0%")));
      button.addEventListener("click", () => choose(head));
      head.button = button;
      block.append(button);
    }
    scroll.append(block);
    const heading = node("h2", `${kind} `);
    heading.append(node("small", TITLES[kind]));
    section.append(heading, scroll);
    return section;
  }));
}
function choose(head) {
  state.head.button.setAttribute("aria-pressed", false);
  state.head = head; state.row = null;
  head.button.setAttribute("aria-pressed", true);
  draw();
}

/* The figures of the chosen head. */
const share = value => `${(100 * value).toFixed(0)} %`, signed = value => (value >= 0 ? "+" : "") + value.toFixed(4);
const FIGURES = [["entropy", "entropy, nats", v => v.toFixed(2)], ["uniformity", "uniformity", share], ["confidence", "maximum weight", share],
  ["offset", "mean offset, tokens", v => v.toFixed(1)], ["offset_deviation", "its deviation", v => v.toFixed(1)], ["first", "on the first", share], ["end", "on the EOS token", share],
  ["punctuation", "on punctuation", share], ["same_token", "same token elsewhere", share], ["rarest_token", "on the rarest token", share], ["diagonal", "near the diagonal", share],
  ["alignment_agreement", "aligns", share]];
function figures(head) {
  const rows = [["ablation", head.ablation === null ? "not measured" : signed(head.ablation)], ["sensitivity", head.sensitivity.toFixed(4)], ["gradient", signed(head.gradient)]];
  if (head.statistics) {
    for (const [name, words, form] of FIGURES) if (head.statistics[name] !== null) rows.push([words, form(head.statistics[name])]);
    const away = Object.entries(head.statistics.offsets).sort((a, b) => b[1] - a[1]).slice(0, 3).filter(([, value]) => value >= .05);
    for (const [offset, value] of away) rows.push([Number(offset) === 0 ? "at itself" : `at ${offset > 0 ? "+" : ""}${offset}`, share(value)]);
  }
  at("figures").replaceChildren(...rows.map(([words, value]) => { const row = node("div"); row.append(node("dt", words), node("dd", value)); return row; }));
}

/* Its attention in one sentence pair. */
const side = (example, which) => {
  const kind = state.head.kind;
  if (kind === "encoder" || (kind === "cross" && which === "column")) return example.source.tokens;
  return which === "column" || kind === "decoder" ? example.target_input.tokens : example.target_output.tokens;
};
let geometry = null;
function drawMatrix() {
  const example = data.examples[state.example], canvas = at("matrix");
  if (!example) return;
  const rows = side(example, "row"), columns = side(example, "column"), map = example.kinds[state.head.kind];
  const start = ((state.head.layer - 1) * map.heads + state.head.head - 1) * map.queries * map.keys;
  const pen = canvas.getContext("2d"), font = `12px ${getComputedStyle(document.body).fontFamily}`;
  pen.font = font;
  const wide = list => Math.min(120, Math.max(...list.map(text => pen.measureText(text).width)));
  const left = wide(rows) + 10, top = .87 * wide(columns) + 14, room = canvas.parentElement.clientWidth || 500;
  const cell = Math.max(13, Math.min(28, Math.floor((room - left - top * .5) / columns.length))), high = Math.max(15, Math.min(20, cell));
  const width = left + cell * columns.length + top * .6, height = top + high * rows.length + 2, scale = window.devicePixelRatio || 1;
  canvas.width = Math.ceil(width * scale); canvas.height = Math.ceil(height * scale);
  canvas.style.width = `${width}px`; canvas.style.height = `${height}px`;
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.font = font; pen.textBaseline = "middle"; pen.fillStyle = css("--accent");
  for (let r = 0; r < rows.length; r++) for (let c = 0; c < columns.length; c++) {
    pen.globalAlpha = map.values[start + r * map.keys + c] / 65535 * (state.row === null || state.row === r ? 1 : .35);
    pen.fillRect(left + c * cell, top + r * high, cell - 1, high - 1);
  }
  pen.globalAlpha = 1;
  pen.strokeStyle = css("--edge");
  pen.strokeRect(left - .5, top - .5, cell * columns.length, high * rows.length);
  pen.fillStyle = css("--ink"); pen.textAlign = "right";
  rows.forEach((text, r) => pen.fillText(text, left - 6, top + (r + .5) * high, left - 8));
  pen.textAlign = "left";
  columns.forEach((text, c) => { pen.save(); pen.translate(left + (c + .5) * cell, top - 6); pen.rotate(-Math.PI / 3); pen.fillText(text, 0, 0, 120); pen.restore(); });
  geometry = { top, high, rows, columns, row: r => Array.from(map.values.subarray(start + r * map.keys, start + r * map.keys + columns.length), v => v / 65535) };
}
function describe() {
  if (state.row === null || !geometry) { at("description").textContent = "Point at a row."; return; }
  const values = geometry.row(state.row), best = values.map((_, i) => i).sort((a, b) => values[b] - values[a]).slice(0, 4).filter(i => values[i] >= .005);
  at("description").textContent = `${geometry.rows[state.row]} attends to ${best.map(i => `${geometry.columns[i]} ${values[i].toFixed(2)}`).join(", ") || "nothing"}`;
}

/* Pruning curves. */
function drawCurves() {
  at("pruning").hidden = !data.curve.length;
  const make = (name, attributes, text) => { const made = document.createElementNS("http://www.w3.org/2000/svg", name); for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value); if (text !== undefined) made.textContent = text; return made; };
  at("curves").replaceChildren(...[["cross_entropy", "cross-entropy, nats per token"], ["bleu", "BLEU, greedy"]].filter(([name]) => data.curve.length && data.curve[0][name] !== null).map(([name, words]) => {
    const box = make("svg", { viewBox: "0 0 420 170", role: "img", "aria-label": words }), last = data.curve.at(-1).removed, top = Math.max(...data.curve.map(p => p[name])) || 1;
    const x = n => 40 + 365 * n / last, y = v => 135 - 110 * v / top;
    for (const part of [0, .5, 1]) box.append(make("line", { x1: 40, x2: 405, y1: y(part * top), y2: y(part * top) }), make("text", { x: 34, y: y(part * top) + 4, "text-anchor": "end" }, (part * top).toFixed(top >= 10 ? 0 : 1)));
    for (const n of [0, Math.round(last / 2), last]) box.append(make("text", { x: x(n), y: 150, "text-anchor": "middle" }, n));
    box.append(make("text", { x: 40, y: 13 }, words), make("text", { x: 222, y: 165, "text-anchor": "middle" }, "heads removed"));
    box.append(make("polyline", { points: data.curve.map(p => `${x(p.removed)},${y(p[name])}`).join(" ") }), ...data.curve.map(p => make("circle", { cx: x(p.removed), cy: y(p[name]), r: 2.4 })));
    return box;
  }));
}

function draw() {
  const head = state.head, example = data.examples[state.example];
  at("which").textContent = `${head.kind}, layer ${head.layer}, head ${head.head}`;
  at("label").textContent = head.label + (head.alignment_head ? ", the alignment head" : "");
  figures(head);
  at("examples").replaceChildren(...data.examples.map((_, i) => {
    const button = node("button", `pair ${i + 1}`);
    button.type = "button";
    button.setAttribute("aria-pressed", i === state.example);
    button.addEventListener("click", () => { state.example = i; state.row = null; draw(); at("examples").children[i].focus({ preventScroll: true }); });
    return button;
  }));
  if (example) { at("source").textContent = example.source.text; at("target").textContent = example.target; }
  drawMatrix(); describe();
}
at("matrix").addEventListener("pointermove", event => {
  const row = Math.floor((event.clientY - at("matrix").getBoundingClientRect().top - geometry.top) / geometry.high);
  state.row = row >= 0 && row < geometry.rows.length ? row : null;
  drawMatrix(); describe();
});
at("matrix").addEventListener("pointerleave", () => { state.row = null; drawMatrix(); describe(); });
const dark = window.matchMedia("(prefers-color-scheme: dark)");
function theme(name) {
  document.documentElement.dataset.theme = name;
  const deep = name === "dark" ? .57 : .78; // from here on the other text color has more contrast
  for (const head of data.heads) head.button.classList.toggle("deep", shade(head.importance) > deep);
  draw();
}
at("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
dark.addEventListener("change", () => theme(dark.matches ? "dark" : "light"));
window.addEventListener("resize", drawMatrix);
at("title").textContent = document.title = data.title;
at("measure").textContent = data.measure;
drawBlocks(); drawCurves();
theme(dark.matches ? "dark" : "light");

"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const at = id => document.getElementById(id);
const KINDS = ["cross", "encoder", "decoder"].filter(kind => data.kinds[kind]);
const NAMES = { cross: "target at source", encoder: "source at source", decoder: "target at target" };
const HUES = ["#3b6ea8", "#d9772b", "#3f8f5b", "#c9444d", "#8a5fa8", "#2d9c9c", "#b58b1b", "#c45b8e"];
const LIGHTER = ["#7db3f0", "#f7a862", "#7fd39c", "#f58b91", "#c79fe6", "#6fd6d6", "#e3c25c", "#f09cc4"];
const color = head => (document.documentElement.dataset.theme === "dark" ? LIGHTER : HUES)[(data.first.head - 1 + head) % HUES.length];
const now = { kind: KINDS[0], layer: 0, heads: new Set(), unit: "word", name: "written", word: null, kept: false };

for (const kind of KINDS) {
  const map = data.kinds[kind], raw = atob(map.weights), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  map.values = new Uint16Array(bytes.buffer); // the order of bytes is the one that every browser has
}
const number = (what, index) => data.first[what] + index;

/* Sides: the tokens of a row or a column, and the groups of them that are shown as one. */
function side(kind, which) {
  if (kind === "encoder" || (kind === "cross" && which === "column")) return data.source;
  return which === "column" || now.name === "read" ? data.read : data.written;
}
function groups(of) {
  return now.unit === "word" ? of.words : of.tokens.map((label, i) => ({ label, tokens: [i], special: of.special.includes(i) }));
}

/* What a group gives is the mean over its tokens, and what it gets is their sum, so that rows still sum to 1. */
const made = new Map();
function weights(kind, layer, head) {
  const key = [kind, layer, head, now.unit, now.name].join();
  if (made.has(key)) return made.get(key);
  const map = data.kinds[kind], rows = groups(side(kind, "row")), columns = groups(side(kind, "column"));
  const start = (layer * map.heads + head) * map.rows * map.columns, group = new Uint32Array(map.columns);
  columns.forEach((column, i) => column.tokens.forEach(c => { group[c] = i; }));
  const found = rows.map(row => {
    const sums = new Float32Array(columns.length), scale = 1 / (65535 * row.tokens.length);
    for (const r of row.tokens) for (let c = 0, i = start + r * map.columns; c < map.columns; c++, i++) sums[group[c]] += map.values[i] * scale;
    return sums;
  });
  made.set(key, found);
  return found;
}
function mean() {
  const chosen = [...now.heads].map(head => weights(now.kind, now.layer, head));
  return chosen[0].map((row, r) => row.map((_, c) => chosen.reduce((sum, one) => sum + one[r][c], 0) / chosen.length));
}

function choices(place, options, chosen, choose) {
  const box = at(place);
  box.replaceChildren(...options.map(([value, label, extra]) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = label;
    button.setAttribute("aria-pressed", chosen(value));
    button.dataset.value = value;
    if (extra) extra(button);
    button.addEventListener("click", event => { choose(value, event); draw(); });
    return button;
  }));
}
function numbers(count) { return Array.from({ length: count }, (_, i) => i); }
function setKind(kind) {
  now.kind = kind;
  const map = data.kinds[kind];
  now.layer = Math.min(now.layer, map.layers - 1);
  now.heads = new Set([...now.heads].filter(head => head < map.heads));
  if (!now.heads.size) now.heads = new Set(numbers(map.heads));
  now.word = null; now.kept = false;
}
function controls() {
  const map = data.kinds[now.kind], heads = numbers(map.heads);
  choices("kinds", KINDS.map(kind => [kind, kind, b => { b.title = NAMES[kind]; }]), kind => kind === now.kind, setKind);
  choices("layers", numbers(map.layers).map(i => [i, number("layer", i)]), i => i === now.layer, i => { now.layer = i; });
  choices("heads", [
    ...(map.heads > 1 ? [["all", "mean of all", b => b.classList.add("every")]] : []),
    ...heads.map(i => [i, number("head", i), b => { b.style.setProperty("--color", color(i)); b.setAttribute("aria-label", `head ${number("head", i)}`); }]),
  ], i => i === "all" ? now.heads.size === map.heads : now.heads.has(i) && (now.heads.size < map.heads || map.heads === 1), (i, event) => {
    if (i === "all") now.heads = new Set(heads);
    else if (event.shiftKey || event.ctrlKey || event.metaKey) {
      if (now.heads.size === map.heads) now.heads = new Set();
      if (now.heads.has(i) && now.heads.size > 1) now.heads.delete(i); else now.heads.add(i);
    } else now.heads = new Set([i]);
  });
  choices("units", [["word", "words"], ["token", "tokens"]], u => u === now.unit, u => { now.unit = u; now.word = null; });
  choices("names", [["written", "what is written"], ["read", "what was read"]], n => n === now.name, n => { now.name = n; now.word = null; });
  at("naming").hidden = data.joined || now.kind === "encoder";
  at("parting").hidden = data.joined;
}

function word(side, index) { now.word = side === null ? null : { side, index }; }
function hover(side, index) { if (!now.kept) { word(side, index); paint(); } }
function keep(side, index) {
  const same = now.kept && now.word && now.word.side === side && now.word.index === index;
  now.kept = !same;
  word(side, index);
  paint();
}

const svg = (name, attributes, text) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
};
const ruler = document.createElement("canvas").getContext("2d");
function fit(label, room) {
  ruler.font = `14px ${getComputedStyle(document.body).fontFamily}`;
  if (ruler.measureText(label).width <= room) return label;
  let cut = [...label];
  while (cut.length > 1 && ruler.measureText(cut.join("") + "…").width > room) cut.pop();
  return cut.join("") + "…";
}
function widest(list, most) {
  ruler.font = `14px ${getComputedStyle(document.body).fontFamily}`;
  return Math.min(most, Math.max(20, ...list.map(g => ruler.measureText(g.label).width)));
}

function drawLines() {
  const rows = groups(side(now.kind, "row")), columns = groups(side(now.kind, "column"));
  const box = at("lines"), width = box.clientWidth || 600, step = 25, count = Math.max(rows.length, columns.length), height = count * step + 8;
  const most = width * .36, left = widest(rows, most) + 14, right = width - widest(columns, most) - 14;
  const y = (i, list) => 4 + (i + .5 + (count - list.length) / 2) * step;
  const heads = [...now.heads].sort((a, b) => a - b), every = heads.length === data.kinds[now.kind].heads && heads.length > 1;
  const maps = every ? [mean()] : heads.map(head => weights(now.kind, now.layer, head));
  const paints = every ? ["var(--accent)"] : heads.map(color);
  const nodes = [], w = now.word;
  const shades = (list, x, room, values) => list.forEach((_, i) => maps.forEach((map, m) => {
    const value = values(map, i);
    if (value > .004) nodes.push(svg("rect", { x: x + m * room / maps.length, y: y(i, list) - step / 2 + 1, width: room / maps.length, height: step - 2, rx: 3, fill: paints[m], opacity: (.75 * value).toFixed(3) }));
  }));
  if (w && w.side === "row") shades(columns, right, width - right, (map, c) => map[w.index][c]);
  if (w && w.side === "column") shades(rows, 0, left, (map, r) => map[r][w.index]);
  maps.forEach((map, m) => map.forEach((row, r) => row.forEach((value, c) => {
    const shown = !w || (w.side === "row" ? r === w.index : c === w.index);
    if (!shown || value < (w ? .01 : .04)) return;
    const a = y(r, rows), b = y(c, columns), x1 = left + 4, x2 = right - 4, bend = (x2 - x1) * .4;
    nodes.push(svg("path", { d: `M${x1} ${a}C${x1 + bend} ${a} ${x2 - bend} ${b} ${x2} ${b}`, stroke: paints[m], "stroke-width": (w ? 1 + 3 * value : .6 + 2.4 * value).toFixed(2), opacity: Math.min(1, (w ? .15 : .04) + value).toFixed(3) }));
  })));
  const names = (list, x, anchor, which, room) => list.forEach((group, i) => {
    const chosen = w && w.side === which && w.index === i;
    const start = anchor === "end" ? 0 : right, size = anchor === "end" ? left : width - right;
    nodes.push(svg("text", { x, y: y(i, list), "text-anchor": anchor, class: group.special ? "mark" : "" }, fit(group.label, room)));
    const over = svg("rect", { x: start, y: y(i, list) - step / 2 + 1, width: size, height: step - 2, rx: 3, class: "over" + (chosen ? " now" : ""), "data-side": which, "data-index": i });
    over.append(svg("title", {}, group.label));
    nodes.push(over);
  });
  names(rows, left - 6, "end", "row", left - 12);
  names(columns, right + 6, "start", "column", width - right - 12);
  box.setAttribute("viewBox", `0 0 ${width} ${height}`);
  box.setAttribute("height", height);
  box.replaceChildren(...nodes);
}

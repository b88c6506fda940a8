"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const at = id => document.getElementById(id);
const KINDS = ["cross", "encoder", "decoder"].filter(kind => data.kinds[kind]);
const NAMES = { cross: "target attends to source", encoder: "source attends to source", decoder: "target attends to target" };
const HUES = ["#3b6ea8", "#d9772b", "#3f8f5b", "#c9444d", "#8a5fa8", "#2d9c9c", "#b58b1b", "#c45b8e"];
const LIGHTER = ["#7db3f0", "#f7a862", "#7fd39c", "#f58b91", "#c79fe6", "#6fd6d6", "#e3c25c", "#f09cc4"];
const color = head => (document.documentElement.dataset.theme === "dark" ? LIGHTER : HUES)[(data.first.head - 1 + head) % HUES.length];
const state = { kind: KINDS[0], layer: 0, heads: new Set(), unit: "word", name: "output", word: null, kept: false };

for (const kind of KINDS) {
  const map = data.kinds[kind], raw = atob(map.weights), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  map.values = new Uint16Array(bytes.buffer); // every browser is little-endian
}
const number = (what, index) => data.first[what] + index;

/* The tokens of the queries (rows) or keys (columns), and the groups of them that are shown as one. */
function side(kind, which) {
  if (kind === "encoder" || (kind === "cross" && which === "column")) return data.source;
  return which === "column" || state.name === "input" ? data.target_input : data.target_output;
}
function groups(of) {
  return state.unit === "word" ? of.words : of.tokens.map((label, i) => ({ label, tokens: [i], special: of.special.includes(i) }));
}

/* Weights between groups: the mean over the query tokens, the sum over the key tokens, so rows still sum to 1. */
const cache = new Map();
function weights(kind, layer, head) {
  const key = [kind, layer, head, state.unit, state.name].join();
  if (cache.has(key)) return cache.get(key);
  const map = data.kinds[kind], rows = groups(side(kind, "row")), columns = groups(side(kind, "column"));
  const start = (layer * map.heads + head) * map.queries * map.keys, group = new Uint32Array(map.keys);
  columns.forEach((column, i) => column.tokens.forEach(c => { group[c] = i; }));
  const found = rows.map(row => {
    const sums = new Float32Array(columns.length), scale = 1 / (65535 * row.tokens.length);
    for (const r of row.tokens) for (let c = 0, i = start + r * map.keys; c < map.keys; c++, i++) sums[group[c]] += map.values[i] * scale;
    return sums;
  });
  cache.set(key, found);
  return found;
}
function mean() {
  const chosen = [...state.heads].map(head => weights(state.kind, state.layer, head));
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
  state.kind = kind;
  const map = data.kinds[kind];
  state.layer = Math.min(state.layer, map.layers - 1);
  state.heads = new Set([...state.heads].filter(head => head < map.heads));
  if (!state.heads.size) state.heads = new Set(numbers(map.heads));
  state.word = null; state.kept = false;
}
function controls() {
  const map = data.kinds[state.kind], heads = numbers(map.heads);
  choices("kinds", KINDS.map(kind => [kind, kind, b => { b.title = NAMES[kind]; }]), kind => kind === state.kind, setKind);
  choices("layers", numbers(map.layers).map(i => [i, number("layer", i)]), i => i === state.layer, i => { state.layer = i; });
  choices("heads", [
    ...(map.heads > 1 ? [["all", "mean of all", b => b.classList.add("every")]] : []),
    ...heads.map(i => [i, number("head", i), b => { b.style.setProperty("--color", color(i)); b.setAttribute("aria-label", `head ${number("head", i)}`); }]),
  ], i => i === "all" ? state.heads.size === map.heads : state.heads.has(i) && (state.heads.size < map.heads || map.heads === 1), (i, event) => {
    if (i === "all") state.heads = new Set(heads);
    else if (event.shiftKey || event.ctrlKey || event.metaKey) {
      if (state.heads.size === map.heads) state.heads = new Set();
      if (state.heads.has(i) && state.heads.size > 1) state.heads.delete(i); else state.heads.add(i);
    } else state.heads = new Set([i]);
  });
  choices("units", [["word", "words"], ["token", "tokens"]], u => u === state.unit, u => { state.unit = u; state.word = null; });
  choices("names", [["output", "output token"], ["input", "input token"]], n => n === state.name, n => { state.name = n; state.word = null; });
  at("name-choice").hidden = data.words_only || state.kind === "encoder";
  at("unit-choice").hidden = data.words_only;
}

function word(side, index) { state.word = side === null ? null : { side, index }; }
function hover(side, index) { if (!state.kept) { word(side, index); paint(); } }
function keep(side, index) {
  const same = state.kept && state.word && state.word.side === side && state.word.index === index;
  state.kept = !same;
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
  const rows = groups(side(state.kind, "row")), columns = groups(side(state.kind, "column"));
  const box = at("lines"), width = box.clientWidth || 600, step = 25, count = Math.max(rows.length, columns.length), height = count * step + 8;
  const most = width * .36, left = widest(rows, most) + 14, right = width - widest(columns, most) - 14;
  const y = (i, list) => 4 + (i + .5 + (count - list.length) / 2) * step;
  const heads = [...state.heads].sort((a, b) => a - b), every = heads.length === data.kinds[state.kind].heads && heads.length > 1;
  const maps = every ? [mean()] : heads.map(head => weights(state.kind, state.layer, head));
  const paints = every ? ["var(--accent)"] : heads.map(color);
  const nodes = [], w = state.word;
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
    const over = svg("rect", { x: start, y: y(i, list) - step / 2 + 1, width: size, height: step - 2, rx: 3, class: "over" + (chosen ? " chosen" : ""), "data-side": which, "data-index": i });
    over.append(svg("title", {}, group.label));
    nodes.push(over);
  });
  names(rows, left - 6, "end", "row", left - 12);
  names(columns, right + 6, "start", "column", width - right - 12);
  box.setAttribute("viewBox", `0 0 ${width} ${height}`);
  box.setAttribute("height", height);
  box.replaceChildren(...nodes);
}

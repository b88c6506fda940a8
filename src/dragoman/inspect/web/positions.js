"use strict";
const data = JSON.parse(document.getElementById("data").textContent), views = data.views;
const at = id => document.getElementById(id), css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const node = (kind, text, name) => { const made = document.createElement(kind); if (text !== undefined) made.textContent = text; if (name) made.className = name; return made; };
const SVG = "http://www.w3.org/2000/svg";
const shape = (name, attributes, text) => { const made = document.createElementNS(SVG, name); for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value); if (text !== undefined) made.textContent = text; return made; };
const number = value => Math.abs(value) >= 100 ? value.toFixed(0) : Math.abs(value) >= 10 ? value.toFixed(1) : value.toFixed(2);
for (const view of views) for (const part of [view.values, view.pairs]) {
  const raw = atob(part.numbers), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  part.data = new Int16Array(bytes.buffer);
}
for (const view of views) { view.length = view.pairs.shape[2]; view.plane = Math.floor((view.planes.length - 1) / 2); }
const other = views.findIndex(view => view.code === "index" && view !== views[0]), second = other > 0 ? other : views.findIndex(view => view.code !== views[0].code);
const state = { shown: [0, second < 0 ? views.length - 1 : second], pair: null };
const value = (view, row, column) => view.values.data[row * view.values.shape[1] + column] / 32767 * view.values.scale;
const pair = (view, query, key, plane = view.plane) => view.pairs.data[(plane * view.length + query) * view.length + key] / 32767 * view.pairs.scale;

/* Numbers as colors: nothing at 0, one color for each sign. */
function paintNumbers(part, plane) {
  const [height, width] = part.shape.slice(-2), from = plane * height * width, canvas = document.createElement("canvas");
  canvas.width = width; canvas.height = height;
  const pen = canvas.getContext("2d"), image = pen.createImageData(width, height);
  const { positive, negative } = data.colors[document.documentElement.dataset.theme];
  const parse = color => [1, 3, 5].map(i => parseInt(color.slice(i, i + 2), 16)), plus = parse(positive), minus = parse(negative);
  let most = 1;
  for (let i = 0; i < height * width; i++) most = Math.max(most, Math.abs(part.data[from + i]));
  for (let i = 0; i < height * width; i++) {
    const share = part.data[from + i] / most, color = share < 0 ? minus : plus;
    image.data.set([...color, Math.round(255 * Math.abs(share))], 4 * i);
  }
  pen.putImageData(image, 0, 0);
  return canvas;
}

/* A canvas with ticks on both axes. */
const LEFT = 38, BOTTOM = 34;
function drawGrid(canvas, part, plane, height, first, rowName, columnName, mark) {
  const width = Math.max(120, canvas.parentElement.clientWidth - 30), scale = window.devicePixelRatio || 1, [rows, columns] = part.shape.slice(-2);
  canvas.width = Math.ceil(width * scale); canvas.height = Math.ceil(height * scale); canvas.style.height = `${height}px`; canvas.style.width = `${width}px`;
  const pen = canvas.getContext("2d"), wide = width - LEFT - 8, high = height - BOTTOM - 6;
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(paintNumbers(part, plane), LEFT, 6, wide, high);
  pen.strokeStyle = css("--edge"); pen.strokeRect(LEFT - .5, 5.5, wide + 1, high + 1);
  pen.fillStyle = css("--faint"); pen.font = `11px ${getComputedStyle(document.body).fontFamily}`; pen.textBaseline = "middle";
  const ticks = count => [0, .25, .5, .75, 1].map(share => Math.round(share * (count - 1))).filter((n, i, all) => all.indexOf(n) === i);
  pen.textAlign = "right";
  for (const r of ticks(rows)) pen.fillText(r + first[0], LEFT - 5, 6 + (r + .5) / rows * high);
  pen.textAlign = "center";
  for (const c of ticks(columns)) pen.fillText(c + first[1], Math.min(width - 12, LEFT + (c + .5) / columns * wide), 6 + high + 9);
  pen.fillText(columnName, LEFT + wide / 2, height - 8);
  pen.save(); pen.translate(8, 6 + high / 2); pen.rotate(-Math.PI / 2); pen.fillText(rowName, 0, 0); pen.restore();
  if (mark) {
    pen.strokeStyle = css("--ink"); pen.lineWidth = 1;
    for (const r of mark.rows) if (r >= 0 && r < rows) pen.strokeRect(LEFT, 6 + r / rows * high, wide, Math.max(2, high / rows));
    if (mark.column !== undefined && mark.column < columns) pen.strokeRect(LEFT + mark.column / columns * wide, 6, Math.max(2, wide / columns), high);
  }
  canvas.geometry = { wide, high, rows, columns };
}
function cellAt(canvas, event) {
  const box = canvas.getBoundingClientRect(), g = canvas.geometry;
  const column = Math.floor((event.clientX - box.left - LEFT) / g.wide * g.columns), row = Math.floor((event.clientY - box.top - 6) / g.high * g.rows);
  return row >= 0 && row < g.rows && column >= 0 && column < g.columns ? [row, column] : null;
}

/* The two codes that are shown in full. */
const slots = [...document.querySelectorAll(".slot")].map((section, slot) => {
  const select = node("select"), parts = { select, about: node("p", "", "about"), facts: node("dl"), planes: node("div", undefined, "planes choice") };
  select.setAttribute("aria-label", slot ? "code on the right" : "code on the left");
  views.forEach((view, i) => select.append(new Option(view.name, i)));
  select.addEventListener("change", () => show(slot, Number(select.value)));
  for (const name of ["values", "pairs"]) {
    parts[name] = node("canvas");
    parts[name].tabIndex = 0;
    parts[`${name}Title`] = node("h3");
  }
  parts.values.addEventListener("pointermove", event => { const cell = cellAt(parts.values, event), view = views[state.shown[slot]]; if (cell && view.row_name !== "distance") point(cell[0], state.pair ? state.pair[1] : cell[0]); });
  parts.pairs.addEventListener("pointermove", event => { const cell = cellAt(parts.pairs, event); if (cell) point(...cell); });
  section.append(select, parts.about, parts.facts, parts.valuesTitle, parts.values, parts.pairsTitle, parts.planes, parts.pairs);
  return parts;
});
function drawSlot(slot) {
  const view = views[state.shown[slot]], parts = slots[slot];
  parts.select.value = state.shown[slot];
  parts.about.textContent = view.about;
  const facts = [["weights", view.parameters.toLocaleString("en")], ["values", `${number(view.range[0])} to ${number(view.range[1])}`], ["by distance alone", view.distance_only ? "yes" : "no"]];
  parts.facts.replaceChildren(...facts.map(([name, text]) => { const row = node("div"); row.append(node("dt", name), node("dd", text)); return row; }));
  parts.valuesTitle.textContent = "values"; parts.pairsTitle.textContent = "pairs of positions ";
  parts.pairsTitle.append(node("small", view.pairs_label));
  parts.planes.hidden = view.planes.length === 1 && views[state.shown[1 - slot]].planes.length === 1;
  parts.planes.replaceChildren(...(view.planes.length > 1 ? view.planes : []).map((name, i) => {
    const button = node("button", name);
    button.type = "button";
    button.setAttribute("aria-pressed", i === view.plane);
    button.addEventListener("click", () => { view.plane = i; draw(); slots[slot].planes.children[i]?.focus({ preventScroll: true }); });
    return button;
  }));
  paintSlot(slot);
}
function paintSlot(slot) {
  const view = views[state.shown[slot]], parts = slots[slot], p = state.pair, farthest = -view.first_row;
  const rows = !p ? [] : view.row_name === "distance" ? [Math.max(-farthest, Math.min(farthest, p[1] - p[0])) + farthest] : p;
  drawGrid(parts.values, view.values, 0, 230, [view.first_row, view.column_name.startsWith("head") ? 1 : 0], view.row_name, view.column_name, p && { rows });
  const square = Math.min(420, Math.max(200, parts.pairs.parentElement.clientWidth * .8));
  drawGrid(parts.pairs, view.pairs, view.plane, square, [0, 0], view.row_name === "depth" ? "depth" : "position of the query", view.row_name === "depth" ? "depth" : "position of the key", p && { rows: [p[0]], column: p[1] });
  parts.values.setAttribute("aria-label", `values of ${view.name}`); parts.pairs.setAttribute("aria-label", `pairs of positions, ${view.name}`);
}
function show(slot, index) { state.shown[slot] = index; draw(); }
function point(query, key) { state.pair = [query, key]; paint(); }

/* The effect of a pair by distance, for both codes. */
function curve(view) {
  const n = view.length, factor = view.measure === "bias" ? Math.exp : v => v;
  return Array.from({ length: 2 * n - 1 }, (_, i) => {
    const d = i - n + 1;
    let low = Infinity, high = -Infinity, sum = 0, count = 0;
    for (let query = Math.max(0, -d); query < n && query + d < n; query++) { const v = factor(pair(view, query, query + d)); low = Math.min(low, v); high = Math.max(high, v); sum += v; count++; }
    return { d, low, high, mean: sum / count };
  });
}
function drawChart() {
  const width = Math.max(280, at("chart").clientWidth), height = 240, shown = [...new Set(state.shown)].map(i => views[i]), curves = shown.map(curve);
  const far = Math.max(...shown.map(view => view.length - 1)), least = Math.min(0, ...curves.flat().map(p => p.low)), most = Math.max(1, ...curves.flat().map(p => p.high));
  const step = [.1, .2, .25, .5, 1, 2, 5, 10].find(size => (most - least) / size <= 6) || (most - least) / 5, low = step * Math.floor(least / step + 1e-3), high = step * Math.ceil(most / step - 1e-3);
  const x = d => 44 + (width - 60) * (d + far) / (2 * far || 1), y = v => 12 + (height - 50) * (high - v) / (high - low);
  const box = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "similarity by distance" });
  for (let v = low; v <= high + step / 2; v += step) { box.append(shape("line", { class: "axis", x1: 44, x2: width - 16, y1: y(v), y2: y(v) }), shape("text", { x: 38, y: y(v) + 4, "text-anchor": "end" }, number(v))); }
  for (const d of [-far, -Math.round(far / 2), 0, Math.round(far / 2), far]) box.append(shape("text", { x: x(d), y: height - 20, "text-anchor": "middle" }, d));
  box.append(shape("text", { x: width / 2, y: height - 4, "text-anchor": "middle" }, "positions from query to key"));
  curves.forEach((points, i) => {
    const color = css(i ? "--second" : "--accent"), line = key => points.map(p => `${x(p.d)},${y(p[key])}`);
    box.append(shape("polygon", { class: "band", fill: color, points: [...line("high"), ...line("low").reverse()].join(" ") }), shape("polyline", { class: "mean", stroke: color, points: line("mean").join(" ") }));
  });
  if (state.pair) { const d = state.pair[1] - state.pair[0]; if (Math.abs(d) <= far) box.append(shape("line", { class: "point", x1: x(d), x2: x(d), y1: 8, y2: height - 36 })); }
  at("chart").replaceChildren(box);
}

function drawCards() {
  at("cards").replaceChildren(...views.map((view, i) => {
    const button = node("button"), pictures = node("span");
    button.type = "button";
    button.setAttribute("aria-pressed", i === state.shown[0]);
    button.classList.toggle("second", i === state.shown[1] && i !== state.shown[0]);
    pictures.append(paintNumbers(view.values, 0), paintNumbers(view.pairs, view.plane));
    button.append(node("b", view.name), pictures);
    button.addEventListener("click", event => { show(event.shiftKey ? 1 : 0, i); at("cards").children[i].focus({ preventScroll: true }); });
    return button;
  }));
}
function describe() {
  const box = at("description"), p = state.pair;
  if (!p) { box.textContent = "Point at two positions, or press → and ↓."; return; }
  const parts = state.shown.flatMap((index, slot) => {
    const view = views[index], name = node("b", view.name, slot ? "second" : "");
    if (Math.max(...p) >= view.length) return [name, " is shorter   "];
    const v = pair(view, ...p), plane = view.planes[view.plane];
    return [name, `${plane ? ` ${plane}` : ""}: ${number(v)}${view.measure === "bias" ? ` added to the score, a factor of ${number(Math.exp(v))}` : ""}   `];
  });
  box.replaceChildren(`query at ${p[0]}, key at ${p[1]}:  `, ...(state.shown[0] === state.shown[1] ? parts.slice(0, 2) : parts));
}
function paint() { paintSlot(0); paintSlot(1); drawChart(); describe(); }
function draw() { drawSlot(0); drawSlot(1); drawCards(); drawChart(); describe(); }
function move(query, key) {
  const most = Math.max(...state.shown.map(i => views[i].length)) - 1, [q, k] = state.pair || [-query, -key], inside = n => Math.max(0, Math.min(most, n));
  state.pair = [inside(q + query), inside(k + key)];
}
const KEYS = {
  ArrowDown: () => move(1, 0), ArrowUp: () => move(-1, 0), ArrowRight: () => move(0, 1), ArrowLeft: () => move(0, -1), Escape: () => { state.pair = null; },
  "[": () => { state.shown[0] = (state.shown[0] + views.length - 1) % views.length; }, "]": () => { state.shown[0] = (state.shown[0] + 1) % views.length; },
};
document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT" || !KEYS[event.key]) return;
  event.preventDefault();
  KEYS[event.key]();
  if (event.key === "[" || event.key === "]") draw(); else paint();
});
const dark = window.matchMedia("(prefers-color-scheme: dark)");
function theme(name) { document.documentElement.dataset.theme = name; draw(); }
at("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
dark.addEventListener("change", () => theme(dark.matches ? "dark" : "light"));
window.addEventListener("resize", paint);
at("title").textContent = document.title = data.title;
theme(dark.matches ? "dark" : "light");

/* The matrix, the overview of all heads, the description of a word, and the keyboard. */
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const MIN_VISIBLE = 1 / 512; // smaller weights do not change a pixel
const MAX_PIXELS = 16384; // of a canvas side
function resize(canvas, width, height) {
  const scale = Math.min(window.devicePixelRatio || 1, MAX_PIXELS / Math.max(width, height));
  canvas.width = Math.ceil(width * scale); canvas.height = Math.ceil(height * scale);
  canvas.style.width = width + "px"; canvas.style.height = height + "px";
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  return pen;
}
let geometry = null;
function drawMatrix() {
  const rows = groups(side(state.kind, "row")), columns = groups(side(state.kind, "column")), map = mean(), canvas = at("matrix");
  const room = canvas.parentElement.clientWidth || 600, font = `13px ${getComputedStyle(document.body).fontFamily}`;
  const left = Math.min(room * .34, 1.08 * widest(rows, 180)) + 10, top = Math.min(150, .87 * widest(columns, 150)) + 12;
  const cell = Math.max(11, Math.min(34, Math.floor((room - left - top * .5) / columns.length))), high = Math.max(17, Math.min(cell, 26));
  const width = left + cell * columns.length + top * .55, height = top + high * rows.length + 2;
  const pen = resize(canvas, width, height), w = state.word, one = state.heads.size === 1 ? color([...state.heads][0]) : css("--accent");
  pen.font = font; pen.textBaseline = "middle";
  for (const [r, row] of map.entries()) for (const [c, value] of row.entries()) {
    if (value < MIN_VISIBLE) continue;
    const dim = w && !(w.side === "row" ? w.index === r : w.index === c);
    pen.globalAlpha = Math.min(1, value) * (dim ? .35 : 1);
    pen.fillStyle = one;
    pen.fillRect(left + c * cell, top + r * high, cell - 1, high - 1);
  }
  pen.globalAlpha = 1;
  pen.strokeStyle = css("--edge");
  pen.strokeRect(left - .5, top - .5, cell * columns.length, high * rows.length);
  const ink = css("--ink"), faint = css("--faint");
  const name = (group, which, i) => { const on = w && w.side === which && w.index === i; pen.fillStyle = group.special || (w && !on && w.side === which) ? faint : ink; pen.font = (on ? "600 " : "") + font; };
  pen.textAlign = "right";
  rows.forEach((group, i) => { name(group, "row", i); pen.fillText(fit(group.label, left - 8), left - 6, top + (i + .5) * high); });
  pen.textAlign = "left";
  columns.forEach((group, i) => {
    pen.save(); pen.translate(left + (i + .5) * cell, top - 6); pen.rotate(-Math.PI / 3);
    name(group, "column", i); pen.fillText(fit(group.label, 150), 0, 0); pen.restore();
  });
  geometry = { left, top, cell, high, rows: rows.length, columns: columns.length };
}
function matrixAt(event) {
  const box = at("matrix").getBoundingClientRect(), g = geometry;
  const c = Math.floor((event.clientX - box.left - g.left) / g.cell), r = Math.floor((event.clientY - box.top - g.top) / g.high);
  if (r < 0 && c >= 0 && c < g.columns) return ["column", c];
  return r >= 0 && r < g.rows && c < g.columns ? ["row", r] : [null, 0];
}

function drawOverview() {
  const map = data.kinds[state.kind], box = at("overview"), small = Math.max(26, Math.min(130, (box.parentElement.clientWidth - 90) / map.heads - 13));
  box.style.gridTemplateColumns = `auto repeat(${map.heads}, auto)`;
  const label = text => { const node = document.createElement("span"); node.className = "name"; node.textContent = text; return node; };
  const nodes = [label(""), ...numbers(map.heads).map(head => label(`head ${number("head", head)}`))];
  for (const layer of numbers(map.layers)) {
    nodes.push(label(`layer ${number("layer", layer)}`));
    for (const head of numbers(map.heads)) {
      const button = document.createElement("button"), canvas = document.createElement("canvas"), values = weights(state.kind, layer, head);
      const pen = resize(canvas, small, small * Math.min(1.4, Math.max(.6, values.length / values[0].length)));
      const wide = small / values[0].length, high = parseFloat(canvas.style.height) / values.length;
      pen.fillStyle = color(head);
      values.forEach((row, r) => row.forEach((value, c) => { if (value > MIN_VISIBLE) { pen.globalAlpha = Math.min(1, value); pen.fillRect(c * wide, r * high, wide, high); } }));
      button.type = "button";
      button.setAttribute("aria-label", `layer ${number("layer", layer)}, head ${number("head", head)}`);
      button.setAttribute("aria-pressed", layer === state.layer && state.heads.has(head) && state.heads.size < map.heads);
      button.append(canvas);
      button.addEventListener("click", () => { state.layer = layer; state.heads = new Set([head]); draw(); });
      nodes.push(button);
    }
  }
  box.replaceChildren(...nodes);
}

function describe() {
  const rows = groups(side(state.kind, "row")), columns = groups(side(state.kind, "column")), map = mean(), w = state.word, box = at("description");
  const heads = [...state.heads].sort((a, b) => a - b).map(h => number("head", h));
  const which = heads.length === 1 ? `head ${heads[0]}` : `mean of heads ${heads.length === data.kinds[state.kind].heads ? `${heads[0]}–${heads.at(-1)}` : heads.join(", ")}`;
  const where = `${state.kind}, layer ${number("layer", state.layer)}, ${which}`;
  if (!w) { box.textContent = `${where}. Point at a word, or press ↓.`; return; }
  const values = w.side === "row" ? map[w.index] : map.map(row => row[w.index]);
  const others = w.side === "row" ? columns : rows, me = (w.side === "row" ? rows : columns)[w.index];
  const best = numbers(values.length).sort((a, b) => values[b] - values[a]).slice(0, 5).filter(i => values[i] >= .005);
  const name = (kind, label) => Object.assign(document.createElement(kind), { textContent: label, dir: "auto" }); // numbers next to Arabic keep their place
  const list = best.flatMap((i, place) => [place ? ",  " : "", name("bdi", others[i].label), ` ${values[i].toFixed(2)}`]);
  box.replaceChildren(name("b", me.label), w.side === "row" ? " attends to  " : " is attended by  ", ...(list.length ? list : ["nothing"]), `   (${where})`);
}

function paint() { drawLines(); drawMatrix(); describe(); }
const REDRAWN = ["kinds", "layers", "heads", "units", "names", "overview"];
function draw() {
  const held = document.activeElement, place = held && held.parentElement, index = place && REDRAWN.includes(place.id) ? [...place.children].indexOf(held) : -1;
  at("from").textContent = state.kind === "encoder" ? "source" : state.name === "input" ? "target input" : "target output";
  at("to").textContent = state.kind === "decoder" ? "target input" : "source";
  controls(); drawOverview(); paint();
  if (index >= 0) place.children[index]?.focus({ preventScroll: true }); // the focused button was replaced
}
function moveHead(by) {
  const heads = data.kinds[state.kind].heads, chosen = [...state.heads];
  state.heads = new Set([chosen.length === 1 ? (chosen[0] + by + heads) % heads : by > 0 ? 0 : heads - 1]);
}
function moveWord(by) {
  const rows = groups(side(state.kind, "row")).length, index = state.word && state.word.side === "row" ? state.word.index + by : by > 0 ? 0 : rows - 1;
  word("row", (index + rows) % rows);
  state.kept = true;
}
const KEYS = {
  ArrowDown: () => moveWord(1), ArrowUp: () => moveWord(-1), ArrowRight: () => moveHead(1), ArrowLeft: () => moveHead(-1),
  "[": () => { state.layer = Math.max(0, state.layer - 1); }, "]": () => { state.layer = Math.min(data.kinds[state.kind].layers - 1, state.layer + 1); },
  k: () => setKind(KINDS[(KINDS.indexOf(state.kind) + 1) % KINDS.length]), u: () => { if (!data.words_only) state.unit = state.unit === "word" ? "token" : "word"; state.word = null; },
  a: () => { state.heads = new Set(numbers(data.kinds[state.kind].heads)); }, Escape: () => { state.word = null; state.kept = false; },
};
document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || !KEYS[event.key]) return;
  event.preventDefault();
  KEYS[event.key]();
  draw();
});
at("lines").addEventListener("pointerover", event => { const d = event.target.dataset; if (d && d.side) hover(d.side, Number(d.index)); });
at("lines").addEventListener("pointerleave", () => hover(null, 0));
at("lines").addEventListener("click", event => { const d = event.target.dataset; if (d && d.side) keep(d.side, Number(d.index)); });
at("matrix").addEventListener("pointermove", event => hover(...matrixAt(event)));
at("matrix").addEventListener("pointerleave", () => hover(null, 0));
at("matrix").addEventListener("click", event => { const [which, index] = matrixAt(event); if (which) keep(which, index); });
const dark = window.matchMedia("(prefers-color-scheme: dark)");
function theme(name) { document.documentElement.dataset.theme = name; draw(); }
at("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
dark.addEventListener("change", () => theme(dark.matches ? "dark" : "light"));
window.addEventListener("resize", paint);
at("source").textContent = data.source.text;
at("target").textContent = data.target;
document.title = `Attention: ${data.source.text}`;
setKind(state.kind);
state.layer = data.kinds[state.kind].layers - 1;
theme(dark.matches ? "dark" : "light");

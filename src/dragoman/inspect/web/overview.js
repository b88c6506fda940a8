/* The matrix, all heads at a glance, what is said of a word, and the keys. */
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const FAINT = 1 / 512; // weights below it would not change a pixel
const LARGEST = 16384; // pixels a side that browsers draw
function sized(canvas, width, height) {
  const scale = Math.min(window.devicePixelRatio || 1, LARGEST / Math.max(width, height));
  canvas.width = Math.ceil(width * scale); canvas.height = Math.ceil(height * scale);
  canvas.style.width = width + "px"; canvas.style.height = height + "px";
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  return pen;
}
let geometry = null;
function drawMatrix() {
  const rows = groups(side(now.kind, "row")), columns = groups(side(now.kind, "column")), map = mean(), canvas = at("matrix");
  const room = canvas.parentElement.clientWidth || 600, font = `13px ${getComputedStyle(document.body).fontFamily}`;
  const left = Math.min(room * .34, 1.08 * widest(rows, 180)) + 10, top = Math.min(150, .87 * widest(columns, 150)) + 12;
  const cell = Math.max(11, Math.min(34, Math.floor((room - left - top * .5) / columns.length))), high = Math.max(17, Math.min(cell, 26));
  const width = left + cell * columns.length + top * .55, height = top + high * rows.length + 2;
  const pen = sized(canvas, width, height), w = now.word, one = now.heads.size === 1 ? color([...now.heads][0]) : css("--accent");
  pen.font = font; pen.textBaseline = "middle";
  for (const [r, row] of map.entries()) for (const [c, value] of row.entries()) {
    if (value < FAINT) continue;
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
  const map = data.kinds[now.kind], box = at("overview"), small = Math.max(26, Math.min(130, (box.parentElement.clientWidth - 90) / map.heads - 13));
  box.style.gridTemplateColumns = `auto repeat(${map.heads}, auto)`;
  const label = text => { const node = document.createElement("span"); node.className = "name"; node.textContent = text; return node; };
  const nodes = [label(""), ...numbers(map.heads).map(head => label(`head ${number("head", head)}`))];
  for (const layer of numbers(map.layers)) {
    nodes.push(label(`layer ${number("layer", layer)}`));
    for (const head of numbers(map.heads)) {
      const button = document.createElement("button"), canvas = document.createElement("canvas"), values = weights(now.kind, layer, head);
      const pen = sized(canvas, small, small * Math.min(1.4, Math.max(.6, values.length / values[0].length)));
      const wide = small / values[0].length, high = parseFloat(canvas.style.height) / values.length;
      pen.fillStyle = color(head);
      values.forEach((row, r) => row.forEach((value, c) => { if (value > FAINT) { pen.globalAlpha = Math.min(1, value); pen.fillRect(c * wide, r * high, wide, high); } }));
      button.type = "button";
      button.setAttribute("aria-label", `layer ${number("layer", layer)}, head ${number("head", head)}`);
      button.setAttribute("aria-pressed", layer === now.layer && now.heads.has(head) && now.heads.size < map.heads);
      button.append(canvas);
      button.addEventListener("click", () => { now.layer = layer; now.heads = new Set([head]); draw(); });
      nodes.push(button);
    }
  }
  box.replaceChildren(...nodes);
}

function say() {
  const rows = groups(side(now.kind, "row")), columns = groups(side(now.kind, "column")), map = mean(), w = now.word, box = at("said");
  const heads = [...now.heads].sort((a, b) => a - b).map(h => number("head", h));
  const which = heads.length === 1 ? `head ${heads[0]}` : `mean of heads ${heads.length === data.kinds[now.kind].heads ? `${heads[0]}–${heads.at(-1)}` : heads.join(", ")}`;
  const where = `${now.kind}, layer ${number("layer", now.layer)}, ${which}`;
  if (!w) { box.textContent = `${where}. Point at a word, or press ↓.`; return; }
  const values = w.side === "row" ? map[w.index] : map.map(row => row[w.index]);
  const others = w.side === "row" ? columns : rows, me = (w.side === "row" ? rows : columns)[w.index];
  const best = numbers(values.length).sort((a, b) => values[b] - values[a]).slice(0, 5).filter(i => values[i] >= .005);
  const name = (kind, label) => Object.assign(document.createElement(kind), { textContent: label, dir: "auto" }); // figures beside Arabic stay where they are
  const list = best.flatMap((i, place) => [place ? ",  " : "", name("bdi", others[i].label), ` ${values[i].toFixed(2)}`]);
  box.replaceChildren(name("b", me.label), w.side === "row" ? " looks at  " : " is looked at by  ", ...(list.length ? list : ["nothing"]), `   (${where})`);
}

function paint() { drawLines(); drawMatrix(); say(); }
const MADE = ["kinds", "layers", "heads", "units", "names", "overview"];
function draw() {
  const held = document.activeElement, place = held && held.parentElement, index = place && MADE.includes(place.id) ? [...place.children].indexOf(held) : -1;
  at("from").textContent = now.kind === "encoder" ? "source" : now.name === "read" ? "target read" : "target written";
  at("to").textContent = now.kind === "decoder" ? "target read" : "source";
  controls(); drawOverview(); paint();
  if (index >= 0) place.children[index]?.focus({ preventScroll: true }); // the button that had it is made anew
}
function turn(by) {
  const heads = data.kinds[now.kind].heads, chosen = [...now.heads];
  now.heads = new Set([chosen.length === 1 ? (chosen[0] + by + heads) % heads : by > 0 ? 0 : heads - 1]);
}
function walk(by) {
  const rows = groups(side(now.kind, "row")).length, index = now.word && now.word.side === "row" ? now.word.index + by : by > 0 ? 0 : rows - 1;
  word("row", (index + rows) % rows);
  now.kept = true;
}
const KEYS = {
  ArrowDown: () => walk(1), ArrowUp: () => walk(-1), ArrowRight: () => turn(1), ArrowLeft: () => turn(-1),
  "[": () => { now.layer = Math.max(0, now.layer - 1); }, "]": () => { now.layer = Math.min(data.kinds[now.kind].layers - 1, now.layer + 1); },
  k: () => setKind(KINDS[(KINDS.indexOf(now.kind) + 1) % KINDS.length]), u: () => { if (!data.joined) now.unit = now.unit === "word" ? "token" : "word"; now.word = null; },
  a: () => { now.heads = new Set(numbers(data.kinds[now.kind].heads)); }, Escape: () => { now.word = null; now.kept = false; },
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
setKind(now.kind);
now.layer = data.kinds[now.kind].layers - 1;
theme(dark.matches ? "dark" : "light");

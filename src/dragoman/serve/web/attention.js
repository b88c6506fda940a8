"use strict";
/* Attention between the words of a line: fetched once per line, shown in both texts and as a map. */
const MAX_CHARACTERS = 1000;
const cache = new Map();

function fetchAttention(model, to, line, translation) {
  const key = JSON.stringify([model, to, line, translation]);
  if (!cache.has(key)) {
    const found = post("v1/attention", { model, to, text: line, translation }).then(poolWords);
    found.catch(() => cache.delete(key));
    if (cache.size > 300) cache.delete(cache.keys().next().value);
    cache.set(key, found);
  }
  return cache.get(key);
}

/* Scripts without spaces are shown by tokens: a whole line would be one word. */
const SPACELESS = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}\p{sc=Lao}\p{sc=Khmer}\p{sc=Myanmar}\p{sc=Tibetan}]/u;
function splitSpaceless(side) {
  const words = side.words.flatMap(word => SPACELESS.test(word.text) && word.start !== null ? splitTokens(word, side.tokens) : [word]);
  return { ...side, words };
}
function splitTokens(word, tokens) {
  const found = [];
  let bytes = [];
  for (const place of word.tokens) {
    const byte = /^<0x(..)>$/.exec(tokens[place]), last = found.at(-1);
    bytes = byte ? [...bytes, parseInt(byte[1], 16)] : [];
    const text = byte ? new TextDecoder().decode(new Uint8Array(bytes)) : tokens[place].replace("▁", "");
    if (bytes.length > 1) last.text = last.before + text; // a character of several byte tokens
    else if (last && (!last.text || !SPACELESS.test(last.text + text))) Object.assign(last, { before: last.text, text: last.text + text });
    else found.push({ before: "", text, tokens: [] });
    found.at(-1).tokens.push(place);
  }
  if (found.map(part => part.text).join("") !== word.text) return [word];
  let end = word.start;
  return found.map(part => ({ text: part.text, tokens: part.tokens, start: end, end: end += [...part.text].length }));
}

/* Weights between words: the mean over the target tokens, the sum over the source tokens. */
function poolWords(answer) {
  const from = splitSpaceless(answer.source), to = splitSpaceless(answer.target);
  const words = to.words.map(target => from.words.map(source =>
    target.tokens.reduce((sum, t) => sum + source.tokens.reduce((part, s) => part + answer.weights[t][s], 0), 0) / target.tokens.length));
  return { source: from, target: to, weights: words };
}

/* Wrap the words of a text that have offsets in elements; the rest stays plain text. */
function wrapWords(text, words, make) {
  const nodes = [];
  let end = 0;
  words.forEach((word, index) => {
    if (word.start === null) return;
    const from = utf16Offset(text, word.start), to = utf16Offset(text, word.end);
    if (from > end) nodes.push(document.createTextNode(text.slice(end, from)));
    nodes.push(make(text.slice(from, to), index));
    end = to;
  });
  nodes.push(document.createTextNode(text.slice(end)));
  return nodes;
}

/* The server counts characters, a browser UTF-16 code units. */
function utf16Offset(text, characters) {
  if (!/[\ud800-\udbff]/.test(text)) return characters;
  let place = 0;
  for (const character of text) {
    if (!characters--) break;
    place += character.length;
  }
  return place;
}

function element(name, className, text) {
  const node = document.createElement(name);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

function topWords(weights, names, minimum = .05) {
  return weights.map((weight, i) => [weight, names[i].text]).filter(([weight]) => weight >= minimum).sort((a, b) => b[0] - a[0]).slice(0, 4);
}

function describe(word, verb, found) {
  const isolated = (name, text) => Object.assign(element(name, "", text), { dir: "auto" }); // numbers next to Arabic keep their place
  const parts = [isolated("b", word), document.createTextNode(` ${verb} `)];
  if (!found.length) parts.push(document.createTextNode(strings.nothing));
  found.forEach(([weight, text], i) => parts.push(document.createTextNode(i ? ", " : ""), isolated("em", text), document.createTextNode(` ${Math.round(100 * weight)} %`)));
  byId("description").replaceChildren(...parts);
}

function drawMap(found) {
  const head = element("thead"), row = head.appendChild(element("tr")), body = element("tbody");
  row.append(element("td", "corner"));
  for (const word of found.source.words) {
    const cell = row.appendChild(element("th"));
    cell.scope = "col";
    cell.append(element("span", "", word.text));
  }
  found.weights.forEach((weights, t) => {
    const line = body.appendChild(element("tr")), name = line.appendChild(element("th", "", found.target.words[t].text));
    name.scope = "row";
    weights.forEach((weight, s) => {
      const cell = line.appendChild(element("td", weight > .75 ? "high higher" : weight > .55 ? "high" : "", weight >= .1 ? weight.toFixed(2).slice(1) : ""));
      if (weight >= .995) cell.textContent = "1";
      cell.style.setProperty("--weight", Math.min(1, weight).toFixed(3));
      cell.title = `${found.target.words[t].text} ← ${found.source.words[s].text} ${weight.toFixed(2)}`;
    });
  });
  byId("map").replaceChildren(head, body);
}

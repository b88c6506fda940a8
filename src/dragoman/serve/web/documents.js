"use strict";
/* Documents: drop or choose a file, follow the progress, download the translation, and review it. */
const ROWS = 100; // segments that are added to the table at a time
const RETRIES = 5;
const opened = { file: null, controller: null, timer: 0, retries: 0, url: null, blob: null, segments: [], links: [] };

/* Set the state of the document: none, waiting, done, empty or error. */
function setDocumentState(state, message = "") {
  const before = document.body.dataset.document;
  document.body.dataset.document = state;
  byId("document").hidden = state === "none";
  if (before === "none" && state !== "none") byId("document-close").focus(); // what had the focus is hidden
  byId("document").setAttribute("aria-busy", state === "waiting");
  byId("progress").hidden = state !== "waiting";
  byId("document-result").hidden = state !== "done";
  byId("document-status").textContent = message;
  byId("document-status").classList.toggle("error", state === "error");
}

/* The objects in a response that has one per line. */
async function* readLines(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let parts = [];
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    const [first, ...lines] = next.value.split("\n");
    parts.push(first);
    for (const line of lines) {
      yield JSON.parse(parts.join(""));
      parts = [line];
    }
  }
}

async function translateDocument() {
  const { file } = opened, control = opened.controller = new AbortController();
  byId("progress").removeAttribute("value"); // no figure yet
  setDocumentState("waiting", strings.waiting);
  try {
    if (!current.models) await loadModels();
    const most = current.models.max_bytes;
    if (file.size > most) return setDocumentState("error", strings.largeFile(figure.format(file.size), figure.format(most), figure.format(Math.round(most / 1e5) / 10)));
    const query = new URLSearchParams({ name: file.name, model: current.model, report: "review", progress: true });
    if (current.to) query.set("to", current.to);
    if (current.detect) query.set("detect", true);
    const response = await fetch(`v1/documents?${query}`, { method: "POST", headers: { "Content-Type": "application/octet-stream" }, body: file, signal: control.signal });
    if (!response.ok) await parseResponse(response);
    for await (const line of readLines(response)) {
      if (control.signal.aborted) return;
      if (line.error) throw new RequestError(0, line.error.message, 0, line.error.code);
      if (line.progress) showProgress(line.progress);
      else return showDocument(line);
    }
    throw new TypeError("the response is not complete");
  } catch (error) {
    if (control.signal.aborted) return;
    const busy = error.status === 429 || error.status === 503, wait = Math.max(1, error.after || 0);
    if (busy && opened.retries++ < RETRIES) {
      setDocumentState("waiting", strings.busy(wait));
      opened.timer = setTimeout(translateDocument, 1000 * wait);
    } else setDocumentState("error", error instanceof RequestError ? strings.fileErrors[error.code] || error.message : strings.lost);
  }
}

function showProgress({ sentences, total }) {
  if (sentences) byId("progress").value = sentences / total;
  byId("document-status").textContent = strings.sentences(figure.format(sentences), figure.format(total));
}

function showDocument(answer) {
  if (!answer.report.segments) return setDocumentState("empty", strings.nothingInside);
  const bytes = Uint8Array.from(atob(answer.document), character => character.charCodeAt(0));
  opened.blob = new Blob([bytes], { type: "application/octet-stream" });
  opened.url = URL.createObjectURL(opened.blob);
  opened.segments = answer.segments;
  byId("download").href = opened.url;
  byId("download").download = answer.name;
  byId("download").textContent = strings.download(answer.name);
  const { segments, translated, review } = answer.report, summary = strings.summary(figure.format(translated), figure.format(segments), figure.format(review.length));
  const used = current.choices.find(one => one.name === answer.model && (one.to || null) === answer.to);
  byId("only-review").checked = false;
  byId("only-review-choice").hidden = !review.length;
  setDocumentState("done", current.detect && used ? `${modelLabel(used)} · ${summary}` : summary);
  showSegments();
}

/* Show the first segments, or those to review; others are added on request. */
function showSegments() {
  byId("review").tBodies[0].replaceChildren();
  addSegments();
}
function addSegments() {
  const body = byId("review").tBodies[0];
  const chosen = byId("only-review").checked ? opened.segments.filter(one => one.review) : opened.segments;
  body.append(...chosen.slice(body.rows.length, body.rows.length + ROWS).map(segmentRow));
  byId("more").hidden = body.rows.length >= chosen.length;
}

/* A note in the language of the page; those without a string are in English. */
function noteText({ code, values, text }) {
  const own = strings.notes[code];
  return own ? own(...values) : strings.flags[code] || text;
}

function segmentRow(segment) {
  const row = element("tr", segment.review ? "review" : ""), about = element("td", "about", strings.place(segment.key)), source = element("td"), target = element("td");
  if (segment.confidence !== undefined) {
    const bar = element("span", "bar"), inside = element("i");
    inside.style.setProperty("--part", segment.confidence);
    bar.title = strings.confidence(Math.round(100 * segment.confidence));
    bar.append(inside);
    about.append(bar);
  }
  source.dir = target.dir = "auto";
  const [from, to, links] = segment.words || [[], [], []], spans = [];
  const fill = (cell, text, places, side) => cell.append(...wrapWords(text, places.map(([start, end]) => ({ start, end })), (label, index) => {
    const node = element("span", "word", label);
    (spans[side] ||= [])[index] = node;
    return node;
  }));
  fill(source, segment.source, from, 0);
  if (segment.target === undefined) target.append(element("span", "kept", segment.source));
  else fill(target, segment.target, to, 1);
  const link = (word, other) => { if (word && other) word.linked = [...(word.linked || []), other]; };
  for (const [s, t] of links) {
    link((spans[0] || [])[s], (spans[1] || [])[t]);
    link((spans[1] || [])[t], (spans[0] || [])[s]);
  }
  if (segment.notes.length) target.append(element("div", "notes", segment.notes.map(noteText).join(strings.semicolon)));
  row.append(about, source, target);
  return row;
}

/* Highlight a word and the words that are aligned with it. */
function highlightWord(word) {
  for (const node of opened.links) node.classList.remove("on");
  opened.links = word ? [word, ...(word.linked || [])] : [];
  for (const node of opened.links) node.classList.add("on");
}

function openDocument(file) {
  closeDocument();
  opened.file = file;
  byId("document-name").textContent = file.name;
  translateDocument();
}
function closeDocument() {
  if (opened.controller) opened.controller.abort(); // the server drops aborted requests
  clearTimeout(opened.timer);
  if (opened.url) URL.revokeObjectURL(opened.url);
  Object.assign(opened, { file: null, controller: null, retries: 0, url: null, blob: null, segments: [], links: [] });
  byId("review").tBodies[0].replaceChildren();
  setDocumentState("none");
}

byId("open").addEventListener("click", () => byId("file").click());
byId("file").addEventListener("change", event => {
  if (event.target.files.length) openDocument(event.target.files[0]);
  event.target.value = ""; // so that the same file can be chosen again
});
byId("document-close").addEventListener("click", () => { closeDocument(); byId("open").focus(); });
const translateAgain = () => { if (opened.file) openDocument(opened.file); };
byId("model").addEventListener("change", translateAgain);
byId("swap").addEventListener("click", translateAgain);
byId("more").addEventListener("click", addSegments);
byId("only-review").addEventListener("change", showSegments);
for (const event of ["pointerover", "click"]) byId("review").addEventListener(event, ({ target: node }) => highlightWord(node.closest(".word")));
byId("review").addEventListener("pointerleave", event => { if (event.pointerType !== "touch") highlightWord(null); });

const hasFiles = event => event.dataTransfer && [...event.dataTransfer.types].includes("Files");
document.addEventListener("dragover", event => {
  if (!hasFiles(event)) return;
  event.preventDefault();
  document.body.classList.add("dropping");
});
document.addEventListener("dragleave", event => { if (!event.relatedTarget) document.body.classList.remove("dropping"); });
document.addEventListener("drop", event => {
  document.body.classList.remove("dropping");
  if (!hasFiles(event)) return;
  event.preventDefault();
  if (event.dataTransfer.files.length) openDocument(event.dataTransfer.files[0]);
});
closeDocument();

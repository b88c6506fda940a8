"use strict";
/* Choose a model by its languages; a model with several target languages is listed once for each. */
const DETECT = ""; // the value of the option "Detect language"
const MIN_CONFIDENCE = 60; // percent; below this, the model does not change
const DETECTION_CHARACTERS = 1000;
const displayNames = new Intl.DisplayNames([document.documentElement.lang], { type: "language" });

function languageName(code) {
  try { return displayNames.of(code.replaceAll("_", "-")); } catch { return code; } // not a BCP 47 code
}
const modelKey = (name, to) => to ? `${name}\n${to}` : name;
function languagePair(choice) {
  const into = choice.target && languageName(choice.target);
  return into ? choice.source ? strings.pair(languageName(choice.source), into) : strings.into(into) : "";
}
function modelLabel(choice) {
  const pair = languagePair(choice), same = current.choices.filter(other => languagePair(other) === pair);
  return !pair ? choice.name : same.length > 1 ? `${pair} (${choice.name})` : pair;
}

/* Load the models when the page opens, and again after a failure. */
async function loadModels() {
  current.models = await parseResponse(await fetch("v1/models"));
  byId("file").accept = current.models.suffixes.join(",");
  current.choices = current.models.models.flatMap(model => model.targets.length ? model.targets.map(to => ({ ...model, to, target: to })) : [model]);
  const before = storage.get("model"), chosen = current.choices.find(one => modelKey(one.name, one.to) === before);
  const detects = current.models.detection && new Set(current.choices.map(one => one.source).filter(Boolean)).size > 1;
  current.detect = detects && !chosen;
  setModel(chosen || current.choices[0]);
  const options = current.choices.map(choice => new Option(modelLabel(choice), modelKey(choice.name, choice.to)));
  if (detects) options.unshift(new Option(strings.detect, DETECT));
  byId("model").replaceChildren(...options);
  byId("model").value = current.detect ? DETECT : modelKey(current.model, current.to);
  byId("model-choice").hidden = current.choices.length < 2;
  byId("model-name").hidden = current.choices.length > 1;
  showModel();
}
const setModel = choice => { current.model = choice.name; current.to = choice.to; };
const currentModel = () => current.choices.find(one => one.name === current.model && one.to === current.to);
/* The choice that translates in the other direction, if there is one. */
function reverseChoice() {
  const { source, target } = currentModel();
  return source && target && current.choices.find(one => one.source === target && one.target === source);
}
const hasAttention = () => currentModel().attention;

/* Show the chosen model, and the detected languages if there are any. */
function showModel(detected = false) {
  const model = currentModel(), label = modelLabel(model);
  byId("attention").hidden = !hasAttention();
  byId("model-name").textContent = label;
  byId("engine").textContent = model.engine;
  byId("source-name").textContent = detected ? `${strings.source} · ${strings.detected(languageName(model.source))}` : strings.source;
  byId("target-name").textContent = detected && model.target ? `${strings.target} · ${languageName(model.target)}` : strings.target;
  byId("swap").hidden = !reverseChoice();
  source.lang = model.source || "";
  target.lang = model.target || "";
  showCount();
}

/* Choose a model for the detected language of a text; keep the target language if possible. */
async function detectModel(text, signal) {
  let found;
  try { found = await post("detect", { q: text.slice(0, DETECTION_CHARACTERS) }, signal); } catch { return; } // keep the model
  if (!current.detect || signal.aborted) return;
  const best = found.find(one => current.choices.some(choice => choice.source === one.language));
  if (!best || best.confidence < MIN_CONFIDENCE) return;
  const fitting = current.choices.filter(choice => choice.source === best.language), before = currentModel();
  setModel(fitting.find(choice => choice === before) || fitting.find(choice => choice.target === before.target) || fitting[0]);
  showModel(true);
}

byId("model").addEventListener("change", event => {
  current.detect = event.target.value === DETECT;
  if (!current.detect) setModel(current.choices.find(one => modelKey(one.name, one.to) === event.target.value));
  storage.set("model", event.target.value);
  showModel();
  current.line = null;
  scheduleTranslation(0);
});

/* Swap the languages, and continue with the translation as the text. */
byId("swap").addEventListener("click", () => {
  setModel(reverseChoice());
  current.detect = false;
  byId("model").value = modelKey(current.model, current.to);
  storage.set("model", byId("model").value);
  if (current.lines.length) source.value = current.lines.join("\n");
  current.line = null;
  drawHighlights();
  showModel();
  scheduleTranslation(0);
});

"use strict";
/* The API as /openapi.json tells it: nothing here is written twice. */
const at = id => document.getElementById(id);
function made(name, text, words) {
  const node = document.createElement(name);
  if (text !== undefined) node.textContent = text;
  if (words) node.className = words;
  return node;
}

function kindOf(schema, all) {
  if (!schema) return "";
  if (schema.$ref) return schema.$ref.split("/").at(-1);
  if (schema.anyOf) return schema.anyOf.map(one => kindOf(one, all)).filter(Boolean).join(" or ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.type === "array") return schema.prefixItems ? `[${schema.prefixItems.map(one => kindOf(one, all)).join(", ")}]` : `list of ${kindOf(schema.items, all) || "anything"}`;
  return { integer: "whole number", number: "number", string: "text", boolean: "true or false", object: "object" }[schema.type] || "";
}

function bounds(schema) {
  const inner = (schema.anyOf || []).find(one => one.type !== "null" && (one.minimum !== undefined || one.maximum !== undefined)) || schema;
  const { minimum: least, maximum: most, exclusiveMinimum: over } = inner;
  const low = least !== undefined ? `from ${least}` : over !== undefined ? `over ${over}` : "";
  return [low, most !== undefined ? `to ${most}` : ""].filter(Boolean).join(" ");
}

function fields(schema, all) {
  const table = made("table");
  const must = name => (schema.required || []).includes(name);
  for (const [name, field] of Object.entries(schema.properties || {}).sort(([a], [b]) => must(b) - must(a))) {
    const row = table.insertRow();
    row.append(made("td", name));
    const given = field.default === undefined || field.default === null ? "" : `default ${JSON.stringify(field.default)}`;
    row.append(made("td", [kindOf(field, all), bounds(field), must(name) ? "required" : given].filter(Boolean).join(", "), "faint"), made("td", field.description || ""));
  }
  return table;
}

const resolved = (schema, all) => schema && schema.$ref ? all[schema.$ref.split("/").at(-1)] : schema;

function nested(schema, all, known = new Set()) {
  for (const name of JSON.stringify(schema || {}).matchAll(/#\/components\/schemas\/(\w+)/g)) {
    if (known.has(name[1])) continue;
    known.add(name[1]);
    nested(all[name[1]], all, known);
  }
  return known;
}

function part(method, path, told, all) {
  const section = made("section"), head = made("h2");
  head.append(made("b", method.toUpperCase()), path);
  section.append(head, made("p", told.description || told.summary || ""));
  const content = told.requestBody && told.requestBody.content, body = content && resolved(Object.values(content)[0].schema, all);
  if (body) {
    section.append(made("h3", `the body: ${Object.keys(content).join(" or ")}`), fields(body, all));
    for (const name of nested(body, all)) section.append(made("h3", name), fields(all[name], all));
    const example = (body.examples || [])[0];
    if (example) {
      const here = location.href.replace(/docs$/, ""), shown = made("pre", `curl ${here}${path.slice(1)} -H 'Content-Type: application/json' -d '${JSON.stringify(example)}'`);
      shown.tabIndex = 0;
      section.append(shown);
    }
  }
  for (const [status, answer] of Object.entries(told.responses)) {
    const kinds = answer.content && answer.content["application/json"], schema = kinds && kinds.schema;
    if (status !== "200" || !schema) continue;
    section.append(made("h3", `the answer: ${kindOf(schema, all)}`));
    for (const name of nested(schema, all)) if (all[name].properties) section.append(made("h3", name), fields(all[name], all));
  }
  const refusals = Object.entries(told.responses).filter(([status]) => Number(status) >= 400);
  if (refusals.length) section.append(made("h3", "refusals"), made("p", refusals.map(([status, answer]) => `${status}: ${answer.description}`).join("  "), "faint"));
  return section;
}

async function draw() {
  const told = await (await fetch("openapi.json")).json(), all = told.components.schemas;
  at("version").textContent = told.info.version;
  at("about").textContent = told.info.description;
  for (const [path, methods] of Object.entries(told.paths))
    for (const [method, one] of Object.entries(methods)) at("paths").append(part(method, path, one, all));
  document.body.dataset.state = "done";
}
draw().catch(error => { at("about").textContent = `openapi.json cannot be shown: ${error.message}`; });

"use strict";
/* The API reference, rendered from /openapi.json. */
const byId = id => document.getElementById(id);
function element(name, text, className) {
  const node = document.createElement(name);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  return node;
}

function kindOf(schema, all) {
  if (!schema) return "";
  if (schema.$ref) return schema.$ref.split("/").at(-1);
  if (schema.anyOf) return schema.anyOf.map(one => kindOf(one, all)).filter(Boolean).join(" or ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.type === "array") return schema.prefixItems ? `[${schema.prefixItems.map(one => kindOf(one, all)).join(", ")}]` : `list of ${kindOf(schema.items, all) || "anything"}`;
  return { integer: "integer", number: "number", string: "string", boolean: "boolean", object: "object" }[schema.type] || "";
}

function bounds(schema) {
  const inner = (schema.anyOf || []).find(one => one.type !== "null" && (one.minimum !== undefined || one.maximum !== undefined)) || schema;
  const { minimum: least, maximum: most, exclusiveMinimum: over } = inner;
  const low = least !== undefined ? `from ${least}` : over !== undefined ? `over ${over}` : "";
  return [low, most !== undefined ? `to ${most}` : ""].filter(Boolean).join(" ");
}

function fields(schema, all) {
  const table = element("table");
  const must = name => (schema.required || []).includes(name);
  for (const [name, field] of Object.entries(schema.properties || {}).sort(([a], [b]) => must(b) - must(a))) {
    const row = table.insertRow();
    row.append(element("td", name));
    const given = field.default === undefined || field.default === null ? "" : `default ${JSON.stringify(field.default)}`;
    row.append(element("td", [kindOf(field, all), bounds(field), must(name) ? "required" : given].filter(Boolean).join(", "), "faint"), element("td", field.description || ""));
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

function section(method, path, operation, all) {
  const node = element("section"), head = element("h2");
  head.append(element("b", method.toUpperCase()), path);
  node.append(head, element("p", operation.description || operation.summary || ""));
  for (const [place, title] of [["path", "Path parameters"], ["query", "Query parameters"]]) {
    const parameters = (operation.parameters || []).filter(one => one.in === place);
    if (parameters.length) node.append(element("h3", title), fields({
      properties: Object.fromEntries(parameters.map(one => [one.name, { ...one.schema, description: one.description }])),
      required: parameters.filter(one => one.required).map(one => one.name),
    }, all));
  }
  const content = operation.requestBody && operation.requestBody.content, body = content && resolved(Object.values(content)[0].schema, all);
  if (body) {
    node.append(element("h3", `Request body: ${Object.keys(content).join(" or ")}`), fields(body, all));
    for (const name of nested(body, all)) node.append(element("h3", name), fields(all[name], all));
    const example = (body.examples || [])[0];
    if (example) {
      const here = location.href.replace(/docs$/, ""), shown = element("pre", `curl ${here}${path.slice(1)} -H 'Content-Type: application/json' -d '${JSON.stringify(example)}'`);
      shown.tabIndex = 0;
      node.append(shown);
    }
  }
  for (const [status, answer] of Object.entries(operation.responses)) {
    const kinds = answer.content && answer.content["application/json"], schema = kinds && kinds.schema;
    if (status !== "200" || !schema) continue;
    node.append(element("h3", `Response: ${kindOf(schema, all)}`));
    for (const name of nested(schema, all)) if (all[name].properties) node.append(element("h3", name), fields(all[name], all));
  }
  const errors = Object.entries(operation.responses).filter(([status]) => Number(status) >= 400);
  if (errors.length) node.append(element("h3", "Errors"), element("p", errors.map(([status, answer]) => `${status}: ${answer.description}`).join("  "), "faint"));
  return node;
}

async function draw() {
  const description = await (await fetch("openapi.json")).json(), all = description.components.schemas;
  byId("version").textContent = description.info.version;
  byId("about").textContent = description.info.description;
  for (const [path, methods] of Object.entries(description.paths))
    for (const [method, one] of Object.entries(methods)) byId("paths").append(section(method, path, one, all));
  document.body.dataset.state = "done";
}
draw().catch(error => { byId("about").textContent = `Cannot show openapi.json: ${error.message}`; });

"""reference/http-api.md: every path with its fields, from the server's OpenAPI document."""

from __future__ import annotations

import json
from typing import Any, cast

from dragoman.serve.app import create_app
from dragoman.serve.http.middleware import Middleware
from dragoman.serve.limits import Limits
from dragoman.serve.models.served_model import StreamTranslator
from dragoman.serve.service import ServedModel, Service
from dragoman.translation.segmentation import Segmenter
from reference_pages.markdown import paragraphs, table, wrap


def openapi() -> dict[str, Any]:
    """The OpenAPI document of a server; it does not depend on the models."""
    model = ServedModel("model", cast(StreamTranslator, None), cast(Segmenter, None))
    app = create_app(Service({"model": model}, Limits()))
    assert isinstance(app, Middleware)
    document: dict[str, Any] = cast(Any, app.app).openapi()
    return document


def page() -> list[str]:
    """The title and the blocks of the page."""
    document = openapi()
    blocks = [
        "HTTP API",
        wrap(
            "Every path of `dragoman serve`, from the OpenAPI document that a server has at `/openapi.json` and shows "
            "at `/docs`. [Serving](../howto/serving.md) has examples and what the server guarantees; "
            "[errors](errors.md) has the codes."
        ),
    ]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            blocks += _operation(f"{method.upper()} {path}", operation)
    blocks += ["## Schemas", wrap("The objects that requests and responses consist of.")]
    for name, schema in sorted(document["components"]["schemas"].items()):
        blocks += [f"### {name}", *paragraphs(schema.get("description")), _fields(schema)]
    return blocks


def _operation(title: str, operation: dict[str, Any]) -> list[str]:
    blocks = [f"## {title}", *paragraphs(operation.get("description"))]
    if parameters := operation.get("parameters"):
        blocks += ["Query parameters:", _fields(_as_schema(parameters))]
    bodies: dict[str, tuple[dict[str, Any], list[str]]] = {}
    for media, body in operation.get("requestBody", {}).get("content", {}).items():
        bodies.setdefault(repr(body["schema"]), (body["schema"], []))[1].append(f"`{media}`")
    for schema, media_types in bodies.values():
        described = _fields(schema) if "properties" in schema else type_name(schema)
        blocks += [wrap(f"Request body ({', '.join(media_types)}):"), described]
    rows = [
        [status, response["description"].replace("Successful Response", "Success."), _content(response)]
        for status, response in operation["responses"].items()
    ]
    return [*blocks, table(["status", "meaning", "body"], rows)]


def _as_schema(parameters: list[dict[str, Any]]) -> dict[str, Any]:
    fields = {one["name"]: one["schema"] | {"description": one.get("description", "")} for one in parameters}
    return {"properties": fields, "required": [one["name"] for one in parameters if one.get("required")]}


def _content(response: dict[str, Any]) -> str:
    return ", ".join(type_name(body.get("schema", {})) for body in response.get("content", {}).values())


def _fields(schema: dict[str, Any]) -> str:
    needed = schema.get("required", [])
    rows = [
        [
            f"`{name}`",
            " ".join(filter(None, [field.get("description", ""), _limits(field)])),
            type_name(field),
            "required" if name in needed else _default(field),
        ]
        for name, field in schema.get("properties", {}).items()
    ]
    return table(["field", "meaning", "type", "default"], rows)


def _default(field: dict[str, Any]) -> str:
    default = field.get("default")
    return "" if default is None else f"`{json.dumps(default)}`"


def _limits(field: dict[str, Any]) -> str:
    names = {"minimum": "At least", "exclusiveMinimum": "Above", "maximum": "At most"}
    names |= {"maxItems": "At most", "maxProperties": "At most"}
    found = {key: value for part in (field, *field.get("anyOf", [])) for key, value in part.items() if key in names}
    ends = {"maxItems": " entries", "maxProperties": " entries"}
    return " ".join(f"{names[key]} {value:,g}{ends.get(key, '')}." for key, value in found.items())


def type_name(schema: dict[str, Any]) -> str:
    """A JSON schema as text, with links to named objects."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(type_name(part) for part in schema["anyOf"] if part.get("type") != "null")
    if "allOf" in schema:
        return " and ".join(type_name(part) for part in schema["allOf"])
    match schema.get("type"):
        case "array":
            if parts := schema.get("prefixItems"):
                return f"[{', '.join(type_name(part) for part in parts)}]"
            inner = type_name(schema.get("items", {}))
            return f"list of ({inner})" if " or " in inner else f"list of {inner}"
        case "object":
            values = schema.get("additionalProperties")
            return f"object with values of {type_name(values)}" if isinstance(values, dict) else "object"
        case str(name):
            return name
    return "any"

"""The web page when the server rejects, is busy, or cannot be reached."""

from __future__ import annotations

from pathlib import Path

import pytest

from browser import CHROMIUM
from dragoman.serve.limits import Limits
from dragoman.serve.service import Service
from serve_page import MODEL, drive, expected

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium")


def test_errors_a_busy_server_and_one_that_is_away(tmp_path: Path) -> None:
    script = """(async () => {
    await until(() => current.models);
    const answers = [];
    const straight = window.fetch;
    window.fetch = (path, ...rest) => {
      return answers.length && path === "v1/translate" ? answers.shift()() : straight(path, ...rest);
    };
    const refuse = (status, code, message, headers) => () => {
      return Promise.resolve(new Response(JSON.stringify({ error: { code, message } }), { status, headers }));
    };
    const nobody = () => Promise.reject(new TypeError("Failed to fetch"));
    answers.push(refuse(504, "deadline", "it took too long"));
    write("the hall"); await until(() => state() === "error");
    told.refused = text("status");
    answers.push(refuse(413, "over_budget", "send the text in several requests"));
    write("the long hall"); await until(() => state() === "error" && text("status") !== told.refused);
    told.costly = text("status");
    answers.push(refuse(429, "too_many", "full", { "Retry-After": "2" }));
    write("the old hall"); await until(() => text("status").includes("busy"));
    told.busy = text("status");
    await until(() => state() === "done");
    told.after = text("target");
    answers.push(nobody, nobody);
    write("the new hall"); await until(() => state() === "error");
    told.away = text("status");
    await until(() => state() === "done");
    told.back = text("target");
    told.left = answers.length;
    write("x".repeat(201)); await until(() => state() === "error");
    told.long = [text("status"), byId("count").classList.contains("error")];
    done(); })();"""
    found = drive(Service({"en-de": MODEL}, Limits(max_characters=200)), script, tmp_path)
    assert found["refused"] == "it took too long"
    assert found["costly"] == "The text is too long to translate at once. Translate it in parts."
    assert found["busy"] == "The server is busy; retrying in 2 s."
    assert found["after"] == expected("the old hall").text
    assert found["away"].startswith("The server cannot be reached.")
    assert found["back"] == expected("the new hall").text
    assert found["left"] == 0
    assert found["long"] == ["The text has 201 characters; the limit is 200. Shorten it.", True]


def test_a_server_that_is_away_when_the_page_opens_is_asked_until_it_is_there(tmp_path: Path) -> None:
    script = """(async () => {
    const straight = window.fetch;
    let refused = 0;
    window.fetch = (path, ...rest) => {
      return path === "v1/models" && refused++ < 2 ? Promise.reject(new TypeError("away")) : straight(path, ...rest);
    };
    await until(() => current.models);
    current.models = null; refused = 0; source.value = "the hall"; // as a browser that brings a text back
    start();
    await until(() => state() === "error"); told.away = text("status");
    await until(() => state() === "done"); told.there = text("target");
    done(); })();"""
    found = drive(Service({"en-de": MODEL}, Limits()), script, tmp_path)
    assert found["away"].startswith("The server cannot be reached.")
    assert found["there"] == "HALL THE"

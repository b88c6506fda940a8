"""The page of `dragoman serve` in headless Chromium: a translator with known answers, and scripts that use the page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from browser import chromium, found
from dragoman.search.types import Search
from dragoman.serve.models.served_model import ServedModel
from dragoman.serve.service import Service
from dragoman.translation.result import Translation
from serving import WHOLE_LINES, served

HELP = """
// Chromium prints the document when it has loaded: an image that the server holds back keeps it loading until the end.
const asking = [], real = window.fetch;
document.body.append(Object.assign(new Image(), { src: "web/held", hidden: true }));
const end = () => real("web/done");
const fail = reason => { document.documentElement.dataset.error = String(reason); end(); };
window.addEventListener("error", e => fail(e.message));
window.addEventListener("unhandledrejection", e => fail(e.reason));
document.addEventListener("securitypolicyviolation", e => fail(e.violatedDirective));
window.fetch = (path, ...rest) => { asking.push(path); return real(path, ...rest); };
const until = async truth => {
  for (let i = 0; !truth(); i++) {
    if (i === 2000) throw new Error(`it never came true: ${truth}; ${document.body.textContent}`);
    await new Promise(next => setTimeout(next, 20));
  }
};
const write = text => { byId("source").value = text; byId("source").dispatchEvent(new Event("input")); };
const state = () => document.body.dataset.state;
let answers = 0;
const answer = new MutationObserver(() => { if (state() === "done") answers++; });
answer.observe(document.body, { attributeFilter: ["data-state"] });
const press = key => byId("target").dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
const over = node => node.dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
const weight = mark => Number(mark.style.getPropertyValue("--weight"));
const marks = () => [...document.querySelectorAll("mark")].map(mark => [mark.textContent, weight(mark)]);
const text = id => byId(id).textContent;
const told = {};
const done = () => { document.body.dataset.found = JSON.stringify(told); end(); };
"""


class Backwards:
    """A translator whose answers a test can foretell: it shouts the words from the last to the first."""

    def stream(self, texts: Iterable[str], **settings: Any) -> Iterator[Translation]:
        for text in texts:
            words = text.split()
            written = [word.upper() for word in reversed(words)]
            others = [Translation(f"{rank} {text}", 0.0, -rank) for rank in range(1, settings["search"].n_best)]
            tokens = [token for word in written for token in (f"▁{word[:2]}", *([word[2:]] if word[2:] else []))]
            yield Translation(
                " ".join(written),
                -0.5,
                -0.25,
                tuple(tokens),
                tuple(f"▁{word}" for word in words),
                alignment=(),
                alignment_weights=self.weights(len(tokens), len(words)),
                alternatives=tuple(others),
            )

    def weights(self, rows: int, columns: int) -> np.ndarray:
        weights = np.random.default_rng(rows).random((rows, columns)) ** 4
        return np.asarray(weights / weights.sum(1, keepdims=True))


MODEL = ServedModel("en-de", Backwards(), WHOLE_LINES, "a fake", ("en", "de"))


def drive(service: Service, script: str, profile: Path, *options: str, query: str = "?lang=en") -> Any:
    """What a script found on the page."""
    with served(service, {"drive.js": HELP + script}) as address:
        return found(chromium(f"{address}/{query}", profile, "--dump-dom", *options))


def expected(line: str, **settings: Any) -> Translation:
    (found,) = Backwards().stream([line], search=Search(**settings))
    return found

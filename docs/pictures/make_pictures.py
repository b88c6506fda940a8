"""Draw the pictures of the docs from the model of `dragoman demo`; pages are opened in headless Chromium.

    make pictures                                           # trains the demo first, if need be
    python docs/pictures/make_pictures.py runs/demo --costs --data DATA

--costs also measures layers (costs.png), which needs an idle machine. --data also draws the pictures of tokenizers,
from corpora that are not part of the repository. multi30k-cpu.png is the learning curve of benchmarks/multi30k.py.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tests")]

from architecture import draw_walks  # noqa: E402
from PIL import Image  # noqa: E402

from browser import chromium  # noqa: E402
from dragoman.cli import main as dragoman  # noqa: E402
from dragoman.demo.tour import DRAWN, draw_last_layer  # noqa: E402
from dragoman.serve.limits import Limits  # noqa: E402
from dragoman.serve.models.loading import load_served_model  # noqa: E402
from dragoman.serve.service import Service  # noqa: E402
from dragoman.translation.translator import Translator  # noqa: E402
from serving import served  # noqa: E402

TRANSLATION = "Ich habe um halb acht fünfundzwanzig Äpfel gekauft."
SERVED = "I bought twenty-five apples.\n\nClara can invite twelve children every Monday at half past seven."
PRESS = "const press = key => document.dispatchEvent(new KeyboardEvent('keydown', { key }));"
PAGES = {  # what is done on the page of attention: the row of "fünfundzwanzig" in head 1; an encoder head by tokens
    "inspect-page": ("1200,980", f"{PRESS} press('ArrowRight'); for (let i = 0; i < 6; i++) press('ArrowDown');"),
    "inspect-page-dark": (
        "1200,1080",
        f"{PRESS} theme('dark'); for (const key of ['k', 'u', 'ArrowRight', 'ArrowRight', 'ArrowRight']) press(key);",
    ),
}
TRANSLATE = """
const until = async truth => { while (!truth()) await new Promise(next => setTimeout(next, 20)); };
(async () => {
  await until(() => current.models);
  byId("source").value = TEXT;
  byId("source").dispatchEvent(new Event("input"));
  await until(() => document.body.dataset.state === "done");
  byId("attention").open = true;
  document.querySelector(".line").dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
  await until(() => current.attention);
  const word = [...document.querySelectorAll(".line span")].find(span => span.textContent === "fünfundzwanzig");
  word.dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
})();
"""


def main() -> None:
    """Draw what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("demo", type=Path, nargs="?", default=Path("runs/demo"), help="The --out of `dragoman demo`.")
    parser.add_argument("--out", type=Path, default=HERE, help="The folder for the pictures.")
    parser.add_argument("--costs", action="store_true", help="Also measure layers.")
    parser.add_argument("--data", type=Path, help="Corpora for the pictures of tokenizers.")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    draw_walks(options.out)
    with TemporaryDirectory() as folder:
        model = Path(folder) / "en-de"  # the name that pictures show
        shutil.copytree(options.demo / "model", model, ignore=shutil.ignore_patterns("training"))
        draw_model(model, options.demo / "valid.en", options.demo / "valid.de", options.out)
        photograph_attention(model, options.out, Path(folder))
        photograph_positions(options.out, Path(folder))
        photograph_server(model, options.out, Path(folder))
    if options.costs:
        dragoman(["inspect", "costs", "--out", str(options.out / "costs.png")])
    if options.data is not None:
        from tokenizer_pictures import draw_tokenizers

        draw_tokenizers(options.data, options.out)


def draw_model(model: Path, source: Path, target: Path, out: Path) -> None:
    """The pictures that commands write."""
    draw_last_layer(Translator.load(model, device="cpu"), out / "attention.png")
    pair = ["--text", DRAWN, "--translation", TRANSLATION]
    corpus = ["--source", str(source), "--target", str(target), "--curve", "--bleu"]
    for name, command, options in (
        ("inspect-heads", "attention", [*pair, "--words"]),
        ("inspect-alignment", "alignment", pair),
        ("inspect-positions", "positions", []),
        ("inspect-survey", "heads", corpus),
    ):
        dragoman(["inspect", command, str(model), *options, "--out", str(out / f"{name}.png")])
    for name in ("attention", "inspect-heads", "inspect-alignment", "inspect-positions", "inspect-survey"):
        compress(out / f"{name}.png")


def photograph_attention(model: Path, out: Path, folder: Path) -> None:
    """The page of `dragoman inspect attention`, in a light and a dark theme."""
    page = folder / "page.html"
    dragoman(["inspect", "attention", str(model), "--text", DRAWN, "--translation", TRANSLATION, "--out", str(page)])
    text = page.read_text(encoding="utf-8")
    for name, (size, script) in PAGES.items():
        page.write_text(text.replace("</body>", f"<script>{script}</script></body>"), encoding="utf-8")
        photograph(page.as_uri(), out / f"{name}.png", size, folder)


def photograph_positions(out: Path, folder: Path) -> None:
    """The page of `dragoman inspect positions` with all codes: sinusoids beside ALiBi, and a pair of positions."""
    page = folder / "positions.html"
    dragoman(["inspect", "positions", "--out", str(page)])
    script = f"{PRESS} show(1, views.findIndex(view => view.code === 'alibi')); point(60, 40);"
    text = page.read_text(encoding="utf-8").replace("</body>", f"<script>{script}</script></body>")
    page.write_text(text, encoding="utf-8")
    photograph(page.as_uri(), out / "inspect-positions-page.png", "1200,1750", folder)


def photograph_server(model: Path, out: Path, folder: Path) -> None:
    """The page of `dragoman serve`, with a word of the translation under the pointer."""
    service = Service({"en-de": load_served_model("en-de", model, 4, device="cpu")}, Limits())
    with served(service, {"drive.js": TRANSLATE.replace("TEXT", json.dumps(SERVED))}) as address:
        photograph(f"{address}/?lang=en", out / "serve-page.png", "1200,925", folder, "--virtual-time-budget=30000")


def photograph(address: str, path: Path, size: str, folder: Path, *options: str) -> None:
    """A screenshot of a page in a window of this size."""
    chromium(address, folder / "profile", f"--screenshot={path.resolve()}", f"--window-size={size}", *options)
    compress(path)


def compress(path: Path) -> None:
    """Reduce a picture to 256 colors: no visible change, and a fraction of the bytes."""
    with Image.open(path) as picture:
        colors = picture.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE)
    colors.save(path, optimize=True)


if __name__ == "__main__":
    main()

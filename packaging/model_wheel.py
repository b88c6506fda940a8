"""Build a wheel with one model: `dragoman-en-de` installs `dragoman_models/en-de`.

    python packaging/model_wheel.py models/en-de --out dist

Everything that the manifest lists goes into the wheel, and the card; `training/` does not.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import zipfile
from pathlib import Path

from dragoman import __version__
from dragoman.files import MANIFEST, manifest_entries
from dragoman.modeldir.info import read_info
from dragoman.modeldir.layout import CARD, verify_model
from dragoman.modeldir.locate import DATA_PACKAGE

TIME = (1980, 1, 1, 0, 0, 0)  # the same wheel from the same model


def build_wheel(model: Path, version: str, out: Path) -> Path:
    """Write the wheel of a model directory; its name is that of the directory."""
    verify_model(model)
    info, name = read_info(model), model.resolve().name
    distribution = f"dragoman_{name.replace('-', '_')}"
    card = model / CARD
    metadata = (
        f"Metadata-Version: 2.1\nName: dragoman-{name}\nVersion: {version}\nSummary: A translation model of Dragoman: "
        f"{', '.join(info.source_languages)} to {', '.join(info.target_languages)}\nLicense: {info.license}\n"
        f"Requires-Dist: dragoman\nDescription-Content-Type: text/markdown\n\n"
    )
    files = {
        f"{DATA_PACKAGE}/{name}/{file}": (model / file).read_bytes() for file in [*manifest_entries(model), MANIFEST]
    }
    if card.is_file():
        files[f"{DATA_PACKAGE}/{name}/{CARD}"] = card.read_bytes()
        metadata += card.read_text(encoding="utf-8")
    folder = f"{distribution}-{version}.dist-info"
    files[f"{folder}/METADATA"] = metadata.encode()
    files[f"{folder}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: dragoman\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    rows = [f"{path},sha256={_digest(content)},{len(content)}" for path, content in files.items()]
    files[f"{folder}/RECORD"] = "\n".join([*rows, f"{folder}/RECORD,,", ""]).encode()
    out.mkdir(parents=True, exist_ok=True)
    wheel = out / f"{distribution}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            archive.writestr(zipfile.ZipInfo(path, TIME), content, zipfile.ZIP_DEFLATED)
    return wheel


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def main() -> None:
    """Build a wheel for each of the given models."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--version", default=__version__)
    parser.add_argument("--out", type=Path, default=Path("dist"))
    given = parser.parse_args()
    for model in given.models:
        print(build_wheel(model, given.version, given.out))


if __name__ == "__main__":
    main()

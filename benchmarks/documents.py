"""Speed of translating a Word document beside the speed of translating its text alone, in turns, and peak memory.

    python benchmarks/documents.py MODEL TEXT [--pages 200] [--threads 2] [--beam 1] [--profile]

TEXT has sentences of the source language, one per line, also compressed (.xz, .gz). The document has paragraphs of
about five sentences, 350 words a page. One word in 22 is bold, italic, red or a link, and words are split into runs as
Word does it. The text alone is the same paragraphs in the same order, which `Translator.stream` splits into the same
sentences, without markup and without alignments. On a machine that is busy with other things, compare the time of the
processors. Times are medians.

benchmarks/cipher_model.py makes models of any size that translate word by word, with alignments that are right.
"""

from __future__ import annotations

import argparse
import gzip
import io
import lzma
import random
import resource
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any
from xml.sax.saxutils import escape

from dragoman.documents.detect import read_document
from dragoman.documents.files import translate_bytes
from dragoman.documents.jobs import make_job
from dragoman.documents.sentences import ModelTranslator
from dragoman.translation.translator import Translator

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"
MAIN = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
FORMATS = ("<w:b/>", "<w:i/>", '<w:color w:val="FF0000"/>', "")  # the last one is a link
WORDS_PER_PAGE = 350


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a text, also compressed."""
    opened: Any = {".xz": lzma.open, ".gz": gzip.open}.get(path.suffix, open)
    with opened(path, "rt", encoding="utf-8") as file:
        yield from (line.strip() for line in file)


def make_document(sentences: Iterator[str], pages: int) -> bytes:
    """A document of that many pages."""
    generator = random.Random(1)
    paragraphs, words = [], 0
    while words < pages * WORDS_PER_PAGE:
        text = " ".join(next(sentences) for _ in range(generator.randint(3, 7)))
        paragraphs.append(f"<w:p><w:pPr><w:jc w:val='both'/></w:pPr>{''.join(make_runs(text, generator))}</w:p>")
        words += len(text.split())
    document = f'<w:document xmlns:w="{WORD}"><w:body>{"".join(paragraphs)}</w:body></w:document>'
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        override = f'<Override PartName="/word/document.xml" ContentType="{MAIN}"/>'
        archive.writestr("[Content_Types].xml", f'<Types xmlns="{TYPES}">{override}</Types>')
        archive.writestr("word/document.xml", document)
    return written.getvalue()


def make_runs(text: str, generator: random.Random) -> Iterator[str]:
    """Runs as Word writes them: some with formatting, and some only because somebody edited the text."""
    words = text.split(" ")
    place = 0
    while place < len(words):
        count = 1 if generator.random() < 0.25 else generator.randint(2, 12)
        run = " ".join(words[place : place + count]) + " "
        look = generator.choice(FORMATS) if count == 1 else '<w:lang w:val="en-US"/>'
        properties = f"<w:rPr>{look}</w:rPr>" if look else ""
        content = f'<w:r w:rsidR="00{place:06}">{properties}<w:t xml:space="preserve">{escape(run)}</w:t></w:r>'
        yield content if look else f'<w:hyperlink w:anchor="a{place}">{content}</w:hyperlink>'
        place += count


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--pages", type=int, default=200)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--profile", action="store_true", help="print where the document's time goes, and stop")
    options = parser.parse_args()
    data = make_document(read_lines(options.text), options.pages)
    translator = Translator.load(options.model, threads=options.threads)
    segments = read_document(data, "pages.docx").segments
    core = ModelTranslator(translator)
    n_sentences = sum(
        len(make_job(segment, core.split, unknown=core.vocabulary.unknown(segment.text)).units) for segment in segments
    )
    texts = [segment.text for segment in segments]
    spans = sum(len(segment.spans) for segment in segments)
    print(f"{len(data):,} bytes, {len(segments):,} paragraphs, {n_sentences:,} sentences, {spans:,} spans")
    list(translator.stream(texts[:40], beam=options.beam, alignment=True))

    def alone() -> None:
        list(translator.stream(texts, beam=options.beam))

    def aligned() -> None:
        for one in translator.stream(texts, beam=options.beam, alignment=True):
            assert one.alignment is not None  # it is computed when it is read

    def document() -> None:
        translate_bytes(translator, data, "pages.docx", beam=options.beam)

    if options.profile:
        import cProfile

        cProfile.runctx("document()", {}, {"document": document}, sort="tottime")
        return
    times: dict[str, list[tuple[float, float]]] = {"text alone": [], "text with alignments": [], "document": []}
    for _ in range(options.rounds):
        for name, action in zip(times, (alone, aligned, document), strict=True):
            started = time.perf_counter(), time.process_time()
            action()
            times[name].append((time.perf_counter() - started[0], time.process_time() - started[1]))
    print(f"{'':22} {'wall':>8} {'of text alone':>15} {'processors':>12} {'of text alone':>15}")
    alone_seconds = [median(seconds) for seconds in zip(*times["text alone"], strict=True)]
    for name, measured in times.items():
        wall, processors = (median(seconds) for seconds in zip(*measured, strict=True))
        share, processor_share = alone_seconds[0] / wall, alone_seconds[1] / processors
        ratios = f"{wall:6.2f} s {share:15.1%} {processors:10.2f} s {processor_share:15.1%}"
        print(f"{name:22} {ratios} {n_sentences / wall:9.0f} sentences/s")
    print(f"peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB")


if __name__ == "__main__":
    main()

"""How well markup is moved from a source to its translation, on word alignments made by hand.

    python benchmarks/markup_transfer.py GOLD_DIR MODEL [--model MODEL] [--from en --to de]

GOLD_DIR holds test.de, test.en and de-en.wa, as for benchmarks/alignment.py. A tag is put around one to four words of a
source sentence, each such span in turn (--spans 8: eight of each sentence, drawn at random); the reference translation
is aligned by the model (forced decoding, one attention head, the same for all methods), and the tag is moved to it. It
should enclose the words that the gold alignment links to those of the source. Compared are:

- ours: `dragoman.documents.transfer.projection`, the contiguous words with the best balance of attention;
- cover: from the first linked word to the last;
- Bergamot: each token takes the tags of the source token with the most attention, subwords follow the strongest of
  their word (browsermt/bergamot-translator, src/translator/html.cpp); a tag may be in several pieces;
- ours with gold links: the bound for any alignment.

The threshold of ours was chosen on the first half of the sentences; the second half says what to expect. --choose
tries others on the first half. --model adds models to compare.

Precision and recall are of words; "exact" is the share of spans that are right to the word, of all spans and of those
whose gold words are contiguous; words without gold links do not count. The last tables have only the spans that begin
and end with a content word, as links, terms and emphasis do (English sources). Then tags as tokens: the model
translates sentences that have the tags in their text, and how many tags survive is counted.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
import sacrebleu
from alignment import CLOSING, OPENING, word_of_tokens
from corpus_arguments import corpus_parser, find_file

from dragoman.documents.segment import Segment, Span
from dragoman.documents.transfer import pair_ranges
from dragoman.documents.transfer.aligned_text import AlignedText, AlignedUnit
from dragoman.documents.transfer.assembly import Job, Unit, align_units
from dragoman.documents.transfer.masks import MaskedText
from dragoman.documents.transfer.projection import project
from dragoman.documents.transfer.words import WordParts, link_parts
from dragoman.evaluation.alignment_error import read_gold
from dragoman.evaluation.test_sets import read_lines
from dragoman.translation.alignment import align
from dragoman.translation.alignment_head import alignment_attention
from dragoman.translation.result import Translation
from dragoman.translation.translator import Translator

Range = tuple[int, int]
# English articles, pronouns, prepositions, conjunctions, auxiliaries and particles
FUNCTION_WORDS = frozenset(
    re.findall(
        r"\w+",
        """a an the this that these those i me my we us our you your he him his she her it its they them their who whom
        whose which what there here one some any no all both each every another such of to in on at by for from with
        without about into over under between through during before after above below against among as than and or but
        nor so yet if because while when where why how whether though although since until unless is are was were be
        been being am do does did done have has had having will would shall should can could may might must ought not
        also only just very too more most less much many then now again mr mrs""",
    )
)


@dataclass(frozen=True)
class Pair:
    """A sentence pair: texts, the place of each gold word, tokens, weights `[T, S + 1]`, alignment, gold links."""

    texts: tuple[str, str]
    places: tuple[list[Range], list[Range]]
    words_of_tokens: tuple[list[int], list[int]]
    continues: list[bool]  # whether a target token continues a word
    weights: np.ndarray
    translation: Translation
    gold: frozenset[tuple[int, int]]


def written(words: Sequence[str]) -> tuple[str, list[Range]]:
    """A sentence as people write it, and the place of each word."""
    text, places = "", list[Range]()
    for i, word in enumerate(words):
        glued = not text or CLOSING.fullmatch(word) or OPENING.fullmatch(words[i - 1])
        text += "" if glued else " "
        places.append((len(text), len(text) + len(word)))
        text += word if i else word[:1].upper() + word[1:]
    return text, places


def read_pairs(directory: Path, translator: Translator, languages: tuple[str, str]) -> list[Pair]:
    lines = [[line.split() for line in read_lines(find_file(directory, f"test.{language}"))] for language in languages]
    gold = [one.sure for one in read_gold(find_file(directory, "de-en.wa"))]
    if languages == ("en", "de"):
        gold = [frozenset((b, a) for a, b in links) for links in gold]
    sides = [[written(words) for words in side] for side in lines]
    read = translator.encoded([source for source, _ in sides[0]])
    ids = list(zip(read, translator.target.encode_many([target for target, _ in sides[1]]), strict=True))
    maps = alignment_attention(translator.engines.forced(), ids, translator.alignment_attention)
    pairs = []
    for i, ((source_ids, target_ids), weights) in enumerate(zip(ids, maps, strict=True)):
        tokens = tuple(translator.source.tokens(source_ids)), tuple(translator.target.tokens(target_ids))
        (source, source_places), (target, target_places) = sides[0][i], sides[1][i]
        owners = word_of_tokens(tokens[0], lines[0][i]), word_of_tokens(tokens[1], lines[1][i])
        delimiters = "\n ,.(){}[]▁"
        neighbors = zip(tokens[1], tokens[1][1:], strict=False)
        continues = [False, *(b[0] not in delimiters and a[-1] not in delimiters for a, b in neighbors)]
        n = len(source_places), len(target_places)
        inside = frozenset((s, t) for s, t in gold[i] if s < n[0] and t < n[1])  # one gold link is out of range
        links = tuple(align(weights, *tokens))
        made = Translation(target, 0.0, 0.0, tokens[1], tokens[0], alignment=links, alignment_weights=weights[:, :-1])
        pairs.append(Pair((source, target), (source_places, target_places), owners, continues, weights, made, inside))
    return pairs


def projected(pair: Pair, first: int, last: int, gold: bool = False) -> set[int]:
    """The target words of the span of source words `first` to `last`, by the projection of documents."""
    if gold:
        source, target = map(WordParts, pair.texts)
        for side, words in zip((source, target), pair.places, strict=True):
            side.add_words(words)
        link = partial(link_parts, source, target, pair.gold)
        whole = AlignedUnit((0, len(source.parts)), (0, len(target.parts)), link=link)
        aligned = AlignedText(source, target, [whole])
    else:
        unit = Unit(MaskedText(pair.texts[0]), "", translation=pair.translation)
        aligned = align_units(Job(Segment(pair.texts[0]), [unit], ""), *pair.texts)
    span = Span(pair.places[0][first][0], pair.places[0][last][1], "pair", "<b>", "</b>", name="b")
    found = project(Segment(pair.texts[0], (span,)), aligned, {})
    assert found is not None
    placed = found[0].spans[0]
    return {t for t, (low, high) in enumerate(pair.places[1]) if low < placed.end and high > placed.start}


def cover(pair: Pair, first: int, last: int) -> set[int]:
    """All words from the first to the last token that attends most to the span."""
    best = pair.weights[:, :-1].argmax(1)
    linked = [pair.words_of_tokens[1][t] for t in range(len(best)) if first <= pair.words_of_tokens[0][best[t]] <= last]
    return set(range(min(linked), max(linked) + 1)) if linked else set()


def bergamot(pair: Pair, first: int, last: int) -> set[int]:
    """The words with a token whose source token is in the span, by Bergamot's heuristic."""
    weights = pair.weights[:, :-1]
    chosen = [int(s) for s in weights.argmax(1)]
    for t in range(1, len(chosen)):
        if not pair.continues[t]:
            continue
        if weights[t][chosen[t]] >= weights[t - 1][chosen[t - 1]]:
            i = t
            while True:
                chosen[i] = chosen[t]
                if i == 0 or not pair.continues[i]:
                    break
                i -= 1
        else:
            chosen[t] = chosen[t - 1]
    tagged = [t for t, s in enumerate(chosen) if first <= pair.words_of_tokens[0][s] <= last]
    return {pair.words_of_tokens[1][t] for t in tagged}


Drawn = tuple[Pair, int, int, set[int]]  # a pair, the first and last word of a span, its gold words
METHODS: dict[str, Callable[[Pair, int, int], set[int]]] = {
    "ours": projected,
    "cover": cover,
    "Bergamot": bergamot,
    "ours with gold links": lambda pair, first, last: projected(pair, first, last, gold=True),
}


def draw_spans(pairs: Sequence[Pair], most: int | None) -> list[Drawn]:
    """Spans of one to four words with letters, each with the target words that gold links to them."""
    generator, spans = random.Random(1), []
    for pair in pairs:
        places, text = pair.places[0], pair.texts[0]
        possible = [(i, i + n) for n in range(4) for i in range(len(places) - n)]
        generator.shuffle(possible)
        taken = 0
        for first, last in possible:
            goal = {t for s, t in pair.gold if first <= s <= last}
            if goal and all(text[slice(*places[i])][0].isalnum() for i in range(first, last + 1)) and taken != most:
                spans.append((pair, first, last, goal))
                taken += 1
    return spans


def between_content_words(span: Drawn) -> bool:
    """Whether a span begins and ends with a content word, as markup by people mostly does."""
    pair, first, last, _ = span
    return not {pair.texts[0][slice(*pair.places[0][i])].lower() for i in (first, last)} & FUNCTION_WORDS


def contiguous(pair: Pair, words: set[int]) -> bool:
    linked = {t for _, t in pair.gold}
    return all(t in words or t not in linked for t in range(min(words), max(words) + 1))


def main() -> None:
    parser = corpus_parser(__doc__, languages=["de", "en"])
    parser.add_argument("--model", dest="others", type=Path, action="append", default=[], help="another; repeatable")
    parser.add_argument("--spans", type=int, help="of each sentence, drawn at random; by default, all")
    parser.add_argument("--choose", action="store_true", help="compare thresholds on the first half, and stop")
    options = parser.parse_args()
    for model in (options.model, *options.others):
        translator = Translator.load(model, device="cpu")
        pairs = read_pairs(options.data, translator, (options.source, options.target))
        spans = draw_spans(pairs, options.spans)
        first = {pair.texts for pair in pairs[: len(pairs) // 2]}
        halves = [[one for one in spans if (one[0].texts in first) is chosen] for chosen in (True, False)]
        print(f"\n{date.today()}, {options.source} to {options.target}, {translator.running}")
        print(translator.alignment_attention)
        if options.choose:
            choose_threshold(*halves)
            continue
        print_table("all sentences", spans)
        print_table("first half, on which ours was tuned", halves[0])
        print_table("second half", halves[1])
        if options.source == "en":
            for title, some in (("all sentences", spans), ("second half", halves[1])):
                print_table(f"{title}, spans between content words", [*filter(between_content_words, some)])
        tags_as_tokens(translator, spans)


def choose_threshold(first: Sequence[Drawn], second: Sequence[Drawn]) -> None:
    """The share of exact spans with contiguous gold, by the threshold of the projection."""
    print("\n| threshold | first half | second half |\n|---|---|---|")
    for threshold in (0.25, 0.3, 0.35, 0.4, 0.45, 0.5):
        with patch.object(pair_ranges, "THRESHOLD", threshold):
            shares = []
            for spans in (first, second):
                own = [one for one in spans if contiguous(one[0], one[3])]
                exact = sum(projected(p, a, b) & {t for _, t in p.gold} == goal for p, a, b, goal in own)
                shares.append(f"{100 * exact / len(own):.1f}")
        print(f"| {threshold} | {' | '.join(shares)} |")


def print_table(title: str, spans: Sequence[Drawn]) -> None:
    print(f"\n{title}: {len(spans)} spans of 1 to 4 words\n")
    print("| method | precision | recall | F1 | exact | exact, contiguous gold | in one piece |")
    print("|---|---|---|---|---|---|---|")
    for name, method in METHODS.items():
        right = found_words = gold_words = exact = exact_contiguous = pieces = n_contiguous = 0
        for pair, first, last, goal in spans:
            linked = {t for _, t in pair.gold}
            found = method(pair, first, last)
            pieces += bool(found) and found == set(range(min(found), max(found) + 1))
            found &= linked
            right, found_words = right + len(found & goal), found_words + len(found)
            gold_words, exact = gold_words + len(goal), exact + (found == goal)
            if contiguous(pair, goal):
                n_contiguous += 1
                exact_contiguous += found == goal
        precision, recall = right / max(1, found_words), right / gold_words
        shares = [precision, recall, 2 * precision * recall / (precision + recall), exact / len(spans)]
        shares += [exact_contiguous / n_contiguous, pieces / len(spans)]
        print(f"| {name} | {' | '.join(f'{100 * share:.1f}' for share in shares)} |")


def tags_as_tokens(translator: Translator, spans: Sequence[Drawn]) -> None:
    """Translate sentences with tags in their text, and count the tags that survive."""
    chosen = spans[:: max(1, len(spans) // 200)]
    tagged, plain = [], []
    for pair, first, last, _ in chosen:
        text, low, high = pair.texts[0], pair.places[0][first][0], pair.places[0][last][1]
        tagged.append(f"{text[:low]}<b>{text[low:high]}</b>{text[high:]}")
        plain.append(text)
    with_tags = [one.text for one in translator.translate(tagged)]
    without = [one.text for one in translator.translate(plain)]
    kept = [
        text.count("<b>") == text.count("</b>") == 1 and text.index("<b>") < text.index("</b>") for text in with_tags
    ]
    stripped = [re.sub(r"\s*</?b>\s*", " ", text).strip() for text in with_tags]
    chrf = sacrebleu.corpus_chrf(stripped, [without]).score
    share = 100 * sum(kept) / len(chosen)
    print(f"\ntags as tokens: {sum(kept)} of {len(chosen)} sentences ({share:.1f} %) have both tags in order;")
    print(f"chrF of their text against the translation without tags: {chrf:.1f}")


if __name__ == "__main__":
    main()

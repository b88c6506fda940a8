"""JoeyNMT's Transformers: a directory with config.yaml, a checkpoint, vocabularies and the text's tokenizers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from torch import Tensor

from dragoman.conversion.checkpoint_files import read_pickle
from dragoman.conversion.imported_model import Foreign, model_recipe
from dragoman.conversion.layer_names import ACTIVATIONS, LayerNames, Layers, Stream, Tables
from dragoman.conversion.options import Asked
from dragoman.conversion.sentencepiece_model import restricted
from dragoman.conversion.source_checkpoint import Settings, Theirs, read_bytes
from dragoman.conversion.subword_model import Cut, notes_of, read_cut
from dragoman.conversion.vocabulary import Arranged, Marks, arranged
from dragoman.errors import ConversionError, MissingExtraError
from dragoman.text.imported.segmentation import SUBWORD_NMT_RESTRICTED, encode_model
from dragoman.text.imported.tokenizer import ImportedTokenizer

TOOLKIT: Final = "JoeyNMT"
CONFIG: Final = "config.yaml"
CHECKPOINTS: Final = ("best.ckpt", "avg.ckpt", "latest.ckpt")
ORDERS: Final = {"pre": "pre", "post": "post"}
EPSILON: Final = 1e-6  # of its layer norms
POSITIONS: Final = 5000
ENCODER: Final = LayerNames(
    qkv=("src_src_att.q_layer", "src_src_att.k_layer", "src_src_att.v_layer"),
    output="src_src_att.output_layer",
    attention_norm="layer_norm",
    inner="feed_forward.pwff_layer.0",
    outer="feed_forward.pwff_layer.3",
    feed_forward_norm="feed_forward.layer_norm",
)
DECODER: Final = LayerNames(
    qkv=("trg_trg_att.q_layer", "trg_trg_att.k_layer", "trg_trg_att.v_layer"),
    output="trg_trg_att.output_layer",
    attention_norm="x_layer_norm",
    inner=ENCODER.inner,
    outer=ENCODER.outer,
    feed_forward_norm=ENCODER.feed_forward_norm,
    cross_query="src_trg_att.q_layer",
    cross_key_value=("src_trg_att.k_layer", "src_trg_att.v_layer"),
    cross_output="src_trg_att.output_layer",
    cross_norm="dec_layer_norm",
)


def is_joeynmt(path: Path) -> bool:
    """Whether a directory is one of JoeyNMT's."""
    return path.is_dir() and (path / CONFIG).is_file()


def read_joeynmt(path: Path, asked: Asked) -> Foreign:
    """The model of such a directory."""
    config = read_yaml(path / CONFIG)
    model, data = (part(config, name, path / CONFIG) for name in ("model", "data"))
    encoder, decoder = (part(model, name, path / CONFIG) for name in ("encoder", "decoder"))
    whole = Settings(model, path / CONFIG)
    sides = {
        name: Settings(own, f"{path / CONFIG}, {name}:") for name, own in (("encoder", encoder), ("decoder", decoder))
    }
    for settings, usual in zip(sides.values(), ("recurrent", "transformer"), strict=True):
        kind = settings.values.get("type", usual)
        if kind != "transformer":
            raise ConversionError(
                f"{settings.where} type is {kind!r}; of JoeyNMT's models, Transformers can be imported",
                code="unsupported_model",
            )
        settings.refuse("alpha", 1.0, "residual connections that are weighed")
    text = Text(path, data, asked)
    checkpoint = next((path / name for name in CHECKPOINTS if (path / name).is_file()), None) or only_checkpoint(path)
    found = read_pickle(checkpoint)
    tensors = found.get("model_state") if isinstance(found, Mapping) else None
    if not isinstance(tensors, Mapping) or not all(isinstance(tensor, Tensor) for tensor in tensors.values()):
        raise ConversionError(
            f"{checkpoint} holds no tensors by name in its part 'model_state'; expected JoeyNMT's own file",
            code="file_damaged",
        )
    theirs = Theirs(tensors, checkpoint)
    theirs.ignore("encoder.pe.pe", "decoder.pe.pe")
    d = both(sides, "hidden_size")
    order = both_words(sides, "layer_norm", ORDERS, ("pre", "post"))
    scaled = [Settings(embedded(side, path), side.where).flag("scale") for side in sides.values()]
    taken, told = embeddings(theirs, whole, scaled, text, d)
    sizes = [settings.whole("ff_size", 2048) for settings in sides.values()]
    recipe = model_recipe(
        path / CONFIG,
        d_model=d,
        n_heads=both(sides, "num_heads"),
        d_ff=max(sizes),
        encoder_layers=sides["encoder"].whole("num_layers", 8),
        decoder_layers=sides["decoder"].whole("num_layers", 4),
        dropout=sides["encoder"].share("dropout", 0.1),
        activation=both_words(sides, "activation", ACTIVATIONS, ("relu", "relu")),
        attention_bias=True,
        norm_order=order,
        norm_epsilon=EPSILON,
        **told,
    )
    layers = Layers(theirs, recipe, Stream())
    for name, names, d_ff in (("encoder", ENCODER, sizes[0]), ("decoder", DECODER, sizes[1])):
        for i in range(recipe.encoder_layers if name == "encoder" else recipe.decoder_layers):
            layers.take(f"{name}.{i}", f"{name}.layers.{i}", names, d_ff)
        if order == "pre":
            layers.norm(f"{name}_norm", f"{name}.layer_norm")
    theirs.refuse_rest()
    return Foreign(
        TOOLKIT,
        recipe,
        text.tokenizers[0],
        text.tokenizers[1],
        {**taken, **layers.weights},
        [checkpoint, path / CONFIG, *text.files],
        longest=POSITIONS - 1,
        languages=text.languages,
        notes=notes_of(*text.cuts) if text.level == "bpe" else (),
    )


def read_yaml(path: Path) -> dict[str, Any]:
    """The content of a YAML file."""
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError:
        raise MissingExtraError("PyYAML", "joeynmt", "reading a model of JoeyNMT") from None
    try:
        found = yaml.safe_load(read_bytes(path))
    except (yaml.YAMLError, ValueError) as error:
        raise ConversionError(
            f"{path} is no YAML ({str(error).splitlines()[0]}); copy it again", code="file_damaged"
        ) from None
    if not isinstance(found, dict):
        raise ConversionError(
            f"{path} holds {found!r:.40}; expected JoeyNMT's settings; copy it again", code="file_damaged"
        )
    return found


def part(config: Mapping[str, Any], name: str, path: Path) -> dict[str, Any]:
    """A part of the settings that must be there."""
    found = config.get(name)
    if not isinstance(found, dict):
        raise ConversionError(
            f"{path} has no part {name!r}; expected the settings of a model of JoeyNMT, version 2", code="file_damaged"
        )
    return found


def embedded(side: Settings, path: Path) -> dict[str, Any]:
    """The settings of a side's embeddings."""
    return part(side.values, "embeddings", path / CONFIG)


def both(sides: Mapping[str, Settings], name: str) -> int:
    """A number that encoder and decoder must share."""
    pair = {f"{side} {name}": settings.values.get(name) for side, settings in sides.items()}
    first, second = pair
    return Settings(pair, str(sides["encoder"].where).removesuffix(", encoder:")).same(first, second)


def both_words(sides: Mapping[str, Settings], name: str, among: Mapping[str, str], usual: Sequence[str]) -> str:
    """A word that encoder and decoder must share; each has its own default."""
    found = [settings.word(name, among, default) for settings, default in zip(sides.values(), usual, strict=True)]
    if found[0] != found[1]:
        raise ConversionError(
            f"{sides['encoder'].where} {name} is {found[0]!r}, and the decoder's {found[1]!r}; models here have the "
            "same in both, so it cannot be imported",
            code="unsupported_setting",
        )
    return found[0]


def only_checkpoint(path: Path) -> Path:
    """The one checkpoint that is there under another name."""
    there = sorted(path.glob("*.ckpt"))
    if len(there) == 1:
        return there[0]
    what = f"several checkpoints ({', '.join(file.name for file in there[:4])}, ...)" if there else "no *.ckpt"
    raise ConversionError(
        f"{path} has {what}; expected one of {', '.join(CHECKPOINTS)}, or a single one", code="several_checkpoints"
    )


def embeddings(
    theirs: Theirs, model: Settings, scaled: Sequence[bool], text: Text, d: int
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tables and what the recipe says of them."""
    sizes = [len(side.rows) for side in text.sides]
    source = theirs.take("src_embed.lut.weight", (sizes[0], d))
    target = theirs.first(("trg_embed.lut.weight", "src_embed.lut.weight"), (sizes[1], d))
    output = theirs.first(("decoder.output_layer.weight", "trg_embed.lut.weight"), (sizes[1], d))
    if scaled[0] != scaled[1] and not model.flag("tied_embeddings"):  # tied, both are the source's
        raise ConversionError(
            f"{model.where} scales the embeddings of one side alone; models here scale both or none",
            code="unsupported_setting",
        )
    return Tables(source, target, output, scaled[0]).ours(text.sides[0], text.sides[1], Stream())


class Text:
    """The text side: vocabularies, marks and tokenizers."""

    def __init__(self, path: Path, data: Mapping[str, Any], asked: Asked) -> None:
        where = path / CONFIG
        told = [part(data, side, where) for side in ("src", "trg")]
        marks = data.get("special_symbols") or {}
        if not isinstance(marks, dict):
            raise ConversionError(
                f"{where} has special_symbols={marks!r:.40}; expected a table", code="invalid_setting"
            )
        symbols = Settings(marks, f"{where}, special_symbols:")
        for name, usual, what in (("sep_token", None, "prompts before the text"), ("lang_tags", [], "language tags")):
            symbols.refuse(name, usual, what)
        self.level = " and ".join(dict.fromkeys(str(side.get("level")) for side in told))
        self.files: list[Path] = []
        self.sides: list[Arranged] = []
        self.cuts: list[Cut] = []
        for side, own in zip(("src", "trg"), told, strict=True):
            settings = Settings(own, f"{where}, {side}:")
            refuse_text(settings)
            vocabulary = path / f"{side}_vocab.txt"
            if not vocabulary.is_file() and isinstance(own.get("voc_file"), str):
                vocabulary = path / Path(own["voc_file"]).name
            self.files.append(vocabulary)
            self.sides.append(self.side(vocabulary, symbols))
            given = asked.target_tokenizer if side == "trg" and asked.target_tokenizer else asked.tokenizer
            self.cuts.append(self.cut(path, settings, given))
        self.files += dict.fromkeys(cut.file for cut in self.cuts if cut.file is not None)
        self.tokenizers = [known_alone(side, cut) for side, cut in zip(self.sides, self.cuts, strict=True)]
        pair = [side.get("lang") for side in told]
        self.languages = (str(pair[0]), str(pair[1])) if all(isinstance(code, str) for code in pair) else None

    def side(self, file: Path, symbols: Settings) -> Arranged:
        """A vocabulary in our order."""
        try:
            names = read_bytes(file).decode("utf-8").rstrip("\n").split("\n")
        except UnicodeDecodeError as error:
            raise ConversionError(f"{file} is no UTF-8 ({error}); copy it again", code="not_utf8") from None
        if len({*names}) != len(names):
            raise ConversionError(f"{file} has a token twice; each has one id", code="duplicate_token")
        ids = [
            symbols.whole(f"{mark}_id", usual, 0) for mark, usual in (("pad", 1), ("bos", 2), ("eos", 3), ("unk", 0))
        ]
        words = [symbols.values.get(f"{mark}_token", usual) for mark, usual in
                 (("pad", "<pad>"), ("bos", "<s>"), ("eos", "</s>"), ("unk", "<unk>"))]  # fmt: skip
        for number, word in zip(ids, words, strict=True):
            if number >= len(names) or names[number] != word:
                raise ConversionError(
                    f"{file} does not have {word!r} as its token {number}, as {symbols.where} say",
                    code="vocabulary_mismatch",
                )
        return arranged(names, Marks(*ids))

    def cut(self, path: Path, settings: Settings, given: Path | None) -> Cut:
        """How a side is cut: by the file that a person names, or by the one that the settings name and is there."""
        if settings.values.get("level") == "word":
            return Cut()
        own = settings.values.get("tokenizer_cfg") or {}
        kind = settings.values.get("tokenizer_type", settings.values.get("bpe_type", "sentencepiece"))
        named = own.get("model_file" if kind == "sentencepiece" else "codes") if isinstance(own, dict) else None
        if given is None and isinstance(named, str):
            beside = path / Path(named).name
            if not beside.is_file():
                raise ConversionError(
                    f"{beside} is missing, by which {settings.where} cuts text; copy it there, or give it with "
                    "--tokenizer",
                    code="file_missing",
                )
            given = beside
        return read_cut(given)


def known_alone(side: Arranged, cut: Cut) -> ImportedTokenizer:
    """A side's tokenizer; JoeyNMT has text cut into no other tokens than those of the vocabulary."""
    way, model = cut.cut, cut.model
    if way == "subword-nmt":
        way = SUBWORD_NMT_RESTRICTED
    elif way == "sentencepiece" and cut.file is not None:
        model = encode_model(restricted(read_bytes(cut.file), {*side.tokens}))
    return side.tokenizer(TOOLKIT, way, model, "<unk>")


def refuse_text(settings: Settings) -> None:
    """Refuse what is done to text there before it is cut, and is not done here."""
    level = settings.values.get("level")
    if level not in ("bpe", "word"):
        raise ConversionError(
            f"{settings.where} level is {level!r}; models that cut text into 'bpe' or 'word' can be imported",
            code="unsupported_setting",
        )
    settings.refuse("lowercase", False, "text in lower case")
    settings.refuse("normalize", False, "text that is normalized before it is cut")
    settings.refuse("has_prompt", False, "prompts before the text")
    own = settings.values.get("tokenizer_cfg")
    for name, usual, what in (("pretokenizer", "none", "words that are set apart by Moses' rules first"),
                              ("separator", "@@", "another mark for words that go on")):  # fmt: skip
        Settings(own if isinstance(own, dict) else {}, settings.where).refuse(name, usual, what)

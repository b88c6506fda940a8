import tomllib
from pathlib import Path
from typing import get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import PRESETS, DataRecipe, ModelRecipe, Recipe
from dragoman.config.sectioned import RENAMED_KEYS
from dragoman.errors import RecipeError
from dragoman.values import coerce
from raising import raises


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_presets_are_the_papers() -> None:
    base, big = Recipe.load("base").model, Recipe.load("big").model
    assert (base.encoder_layers, base.d_model, base.d_ff, base.n_heads, base.dropout) == (6, 512, 2048, 8, 0.1)
    assert (big.encoder_layers, big.d_model, big.d_ff, big.n_heads, big.dropout) == (6, 1024, 4096, 16, 0.3)
    assert (base.key_size, base.value_size, big.key_size) == (64, 64, 64)
    assert (base.cross_attention_shape, big.cross_attention_shape) == ((6, 8), (6, 16))


def test_a_file_starts_from_a_preset_and_changes_what_it_names(tmp_path: Path) -> None:
    path = write(tmp_path, '[model]\npreset = "big"\ndropout = 0.2\nd_k = 32\n')
    model = Recipe.load(path, ["model.dropout=0", "model.norm_order=pre"]).model
    assert (model.d_model, model.dropout, model.key_size, model.value_size, model.norm_order) == (
        1024,
        0.0,
        32,
        64,
        "pre",
    )


def test_old_keys_are_read_under_their_present_names() -> None:
    sections = {name: get_type_hints(kind) for name, kind in get_type_hints(Recipe).items()}
    for old, new in RENAMED_KEYS.items():
        assert old.partition(".")[2] not in sections[old.partition(".")[0]]
        assert new.partition(".")[2] in sections[new.partition(".")[0]]
    assert Recipe.load("base", ["train.optimiser=adamw"]) == Recipe.load("base", ["train.optimizer=adamw"])


def test_the_last_change_wins() -> None:
    assert Recipe.load("base", ["model.d_ff=1", "model.d_ff=2"]).model.d_ff == 2


@pytest.mark.parametrize("name", PRESETS)
def test_what_is_written_out_reads_back_the_same(name: str, tmp_path: Path) -> None:
    recipe = Recipe.load(name, ["model.d_k=24"])
    assert Recipe.load(write(tmp_path, recipe.to_toml())) == recipe


@given(st.text(st.characters(codec="utf-8")))
def test_any_text_survives_toml(text: str) -> None:
    import tomllib

    from dragoman.config import toml_value

    assert tomllib.loads(f"value = {toml_value(text)}")["value"] == text


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (["model.window=3"], ("unused_setting", "model.window=3", "model.pattern='full'", "'local'")),
        (["model.pattern=local", "model.rank=3"], ("unused_setting", "rank=3", "model.pattern='local'", "'low_rank'")),
        (["model.max_distance=3"], ("unused_setting", "max_distance=3", "model.positions='sinusoidal'")),
        (["model.pattern=local", "model.window=-1"], ("out_of_range", "model.window", "0", "-1")),
        (["model.positions=rotary", "model.d_k=5"], ("not_divisible", "d_k=5")),
        (["model.positions=alibi", "model.attention=additive"], ("conflicting_settings", "positions='alibi'")),
        (["model.pattern=low_rank", "model.positions=rotary"], ("conflicting_settings", "model.positions='rotary'")),
        (["model.d_modle=3"], ("unknown_key", "model.d_modle", "'d_model'")),
        (["modle.d_model=3"], ("unknown_key", "'model'")),
        (["model.zzz=3"], ("unknown_key", "model.zzz", "d_model")),
        (["train.batch_tokens=3"], ("unknown_key", "train.batch_tokens", "'data.batch_tokens'")),
        (["model.n_heads=7"], ("not_divisible", "d_model=512", "model.n_heads=7", "[1")),
        (
            ["model.positions=sinusodial"],
            ("unknown_choice", "positions='sinusodial'", "'sinusoidal'"),
        ),
        (["model.d_model=0.5"], ("wrong_type", "model.d_model", "0.5")),
        (["model.d_model=true"], ("wrong_type", "model.d_model")),
        (["model.d_model=many"], ("wrong_type", "model.d_model", "'many'")),
        (["model.attention_bias=1"], ("wrong_type", "model.attention_bias", "1")),
        (["model.dropout=1"], ("out_of_range", "model.dropout", "1.0")),
        (["model.dropout=nan"], ("out_of_range", "model.dropout", "0", "1")),
        (["model.encoder_layers=0"], ("out_of_range", "model.encoder_layers", "1", "0")),
        (["model.d_k=0"], ("out_of_range", "model.d_k", "1", "0")),
        (
            ["model.d_model=9", "model.n_heads=3"],
            ("not_divisible", "d_model=9", "d_model=10", "model.positions='learned'"),
        ),
        (["model.preset=bsae"], ("unknown_preset", "model.preset='bsae'", "'base'")),
        (["d_model=3"], ("invalid_change", "'d_model=3'", "section.key=value")),
        (["model.d_model"], ("invalid_change", "'model.d_model'", "model.dropout=0.3")),
    ],
)
def test_an_impossible_recipe_says_what_would_be_possible(changes: list[str], expected: tuple[str, ...]) -> None:
    with raises(RecipeError, *expected):
        Recipe.load("base", changes)


def test_files_that_are_no_recipes(tmp_path: Path) -> None:
    with raises(RecipeError, "unknown_preset", "'base'"):
        Recipe.load("bse")
    with raises(RecipeError, "not_a_recipe"):
        Recipe.load(tmp_path)
    with raises(RecipeError, "not_a_recipe"):
        Recipe.load(write(tmp_path, "[model\n"))
    (tmp_path / "latin").write_bytes(b"# \xe4")
    with raises(RecipeError, "not_a_recipe"):
        Recipe.load(tmp_path / "latin")
    with raises(RecipeError, "wrong_type"):
        Recipe.load(write(tmp_path, "model = 3\n"))


def test_an_error_in_a_file_names_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, "[trian]\nsteps = 3\n")
    for changes in ([], ["train.steps=5"]):
        with raises(RecipeError, "unknown_key", str(path), "[trian]", "train"):
            Recipe.load(path, changes)
    path = write(tmp_path, "[model]\nd_model = 500\nn_heads = 8\n")
    with pytest.raises(RecipeError, match=path.name):
        Recipe.load(path)
    assert Recipe.load(path, ["model.n_heads=5"]).model.n_heads == 5


def test_lists_are_checked_one_by_one() -> None:
    assert coerce([1, 2], tuple[int, ...], "a.b") == (1, 2)
    with raises(RecipeError, "wrong_type", "'x'"):
        coerce([1, "x"], tuple[int, ...], "a.b")
    with raises(RecipeError, "wrong_type", "a.b"):
        coerce(3, tuple[int, ...], "a.b")


def test_every_choice_of_the_model_can_be_built() -> None:
    """No word that a recipe accepts is without an object behind it."""
    from dataclasses import replace
    from typing import Literal, get_args, get_origin, get_type_hints

    from dragoman.config import IN_ATTENTION, unused_keys
    from dragoman.models.loading import build_model

    sizes = {"d_model": 8, "encoder_layers": 1, "decoder_layers": 1}
    small = [
        ModelRecipe(**sizes, n_heads=2, d_ff=8),
        ModelRecipe(architecture="recurrent", **sizes),
        ModelRecipe(architecture="convolutional", **sizes),
    ]
    built = set()
    for name, kind in get_type_hints(ModelRecipe).items():
        for choice in get_args(kind) if get_origin(kind) is Literal else ():
            for recipe in small:
                if name == "architecture" or name in unused_keys(recipe.architecture):
                    continue
                no_attention = name == "attention" and choice == "none"
                if (choice in IN_ATTENTION and recipe.architecture == "convolutional") or (
                    no_attention and recipe.architecture != "recurrent"
                ):
                    with raises(RecipeError, "conflicting_settings"):
                        replace(recipe, **{name: choice})
                    continue
                recipe = replace(recipe, **{name: choice})
                model = build_model(recipe, 9 if recipe.tie == "all" else (9, 9), pad=0)
                assert model.architecture == recipe.architecture
                built |= {(name, choice), ("architecture", recipe.architecture)}
    hints = get_type_hints(ModelRecipe).items()
    assert built == {(n, c) for n, kind in hints if get_origin(kind) is Literal for c in get_args(kind)}


@pytest.mark.parametrize("architecture", ["recurrent", "convolutional"])
def test_a_preset_gives_a_rival_the_sizes_that_it_has(architecture: str) -> None:
    recipe = Recipe.load("small", [f"model.architecture={architecture}", "model.d_model=96"])
    assert (recipe.model.d_model, recipe.model.encoder_layers, recipe.model.dropout) == (96, 3, 0.2)
    assert (recipe.model.n_heads, recipe.model.d_ff, recipe.model.norm_order) == (8, 2048, "post")
    assert not {"n_heads", "pattern", "window", "rank"} & set(tomllib.loads(recipe.to_toml())["model"])
    assert ("kernel_width" in recipe.to_toml()) == (architecture == "convolutional")
    assert Recipe.from_table(tomllib.loads(recipe.to_toml())) == recipe


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            ["architecture=recurrent", "n_heads=4"],
            ("unused_setting", "model.n_heads=4", "model.architecture='recurrent'"),
        ),
        (
            ["architecture=recurrent", "positions=learned"],
            ("unused_setting", "model.architecture='transformer'", "'convolutional'"),
        ),
        (["architecture=convolutional", "cell=gru"], ("unused_setting", "model.cell='gru'", "'convolutional'")),
        (["architecture=convolutional", "attention=additive"], ("unused_setting", "model.attention='additive'")),
        (["architecture=convolutional", "kernel_width=4"], ("out_of_range", "kernel_width=4")),
        (["architecture=convolutional", "kernel_width=0"], ("out_of_range", "kernel_width=0")),
        (["architecture=convolutional", "d_model=7"], ("not_divisible", "model.d_model=7")),
        (["kernel_width=5"], ("unused_setting", "model.kernel_width=5", "model.architecture='transformer'")),
        (["cell=gru"], ("unused_setting", "model.cell='gru'", "model.architecture='transformer'")),
        (["architecture=recurent"], ("unknown_choice", "'recurrent'")),
    ],
)
def test_keys_that_mean_nothing_to_an_architecture_are_refused(changes: list[str], expected: tuple[str, ...]) -> None:
    with raises(RecipeError, *expected):
        Recipe.load("tiny", [f"model.{change}" for change in changes])


def test_a_recurrent_model_may_have_any_width() -> None:
    assert ModelRecipe(architecture="recurrent", d_model=7).d_model == 7


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: Recipe.load(None), ("wrong_type",)),
        (lambda: Recipe.load("base", "model.dropout=0.3"), ("wrong_type",)),
        (lambda: Recipe.load("base", [3]), ("wrong_type", "3")),
        (lambda: Recipe.from_table([]), ("wrong_type",)),
        (lambda: ModelRecipe(d_model="512"), ("wrong_type", "model.d_model", "'512'")),
        (lambda: ModelRecipe(positions="rotatory"), ("unknown_choice", "positions='rotatory'")),
        (lambda: Recipe(model={"d_model": 8}), ("wrong_type",)),
    ],
)
def test_what_python_hands_over_is_checked_too(make, expected) -> None:
    with raises(RecipeError, *expected):
        make()


def test_whole_numbers_become_numbers_and_lists_become_tuples() -> None:
    assert repr(ModelRecipe(dropout=0).dropout) == "0.0"
    assert DataRecipe(weights=[1, 2]).weights == (1.0, 2.0)


@pytest.mark.parametrize(
    ("change", "most"),
    [
        ("model.d_model", 10**6),
        ("model.d_k", 10**6),
        ("model.max_positions", 10**6),
        ("model.encoder_layers", 1000),
        ("model.window", 2**31 - 1),
        ("text.vocabulary_size", 2**31 - 1),
        ("data.workers", 1024),
        ("data.ahead", 1024),
        ("train.steps", 2**31 - 1),
        ("train.patience", 2**31 - 1),
    ],
)
def test_numbers_that_no_machine_could_work_with_are_refused(change: str, most: int) -> None:
    section, _, key = change.partition(".")
    more = {"model.window": ["model.pattern=local"]}.get(change, [])
    allowed = Recipe.load("base", [f"{change}={most}", *more])
    assert getattr(getattr(allowed, section), key) == most
    with raises(RecipeError, "out_of_range", change, f"{most:,}", f"{most + 1:,}"):
        Recipe.load("base", [f"{change}={most + 1}", *more])


def test_a_width_of_a_convolution_has_an_end_too() -> None:
    with raises(RecipeError, "out_of_range", "kernel_width", "1,000,000", "1,000,001"):
        Recipe.load("base", ["model.architecture=convolutional", "model.kernel_width=1000001"])


def test_numbers_of_thousands_of_digits_are_refused_in_words(tmp_path: Path) -> None:
    with raises(RecipeError, "out_of_range", "train.steps", "5,000"):
        Recipe.load("base", [f"train.steps={'9' * 5000}"])
    with raises(RecipeError, "not_a_recipe", "recipe.toml"):
        Recipe.load(write(tmp_path, f"[train]\nsteps = {'9' * 5000}\n"))


def test_heads_for_the_widest_model_are_found_at_once() -> None:
    with raises(RecipeError, "not_divisible", "model.n_heads=7", "[1", "2"):
        Recipe.load("base", ["model.d_model=1000000", "model.n_heads=7"])


@pytest.mark.parametrize("weight", ["0", "1e-300", "1e300", "nan", "inf", "-1"])
def test_weights_that_no_epoch_could_have_are_refused(weight: str) -> None:
    assert Recipe.load("base", ["data.weights=[0.0001, 10000]"]).data.weights == (0.0001, 10000.0)
    with raises(RecipeError, "out_of_range", "0.0001", "10,000"):
        Recipe.load("base", [f"data.weights=[1.0, {weight}]"])


@pytest.mark.parametrize("key", ["weight_decay", "epsilon"])
def test_what_would_stop_all_learning_is_refused(key: str) -> None:
    with raises(RecipeError, "out_of_range", f"train.{key}"):
        Recipe.load("base", [f"train.{key}=inf"])
    assert Recipe.load("base", ["train.clip=inf"]).train.clip == float("inf")  # which clips nothing


def test_keys_that_are_no_texts_are_refused() -> None:
    with raises(RecipeError, "unknown_key"):
        Recipe.from_table({3: {}})
    with raises(RecipeError, "unknown_key", "model.3"):
        Recipe.from_table({"model": {3: 4}})

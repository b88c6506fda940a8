import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import PRESETS, DataRecipe, ModelRecipe, Recipe
from dragoman.errors import RecipeError
from dragoman.values import coerce


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_presets_are_the_papers() -> None:
    base, big = Recipe.load("base").model, Recipe.load("big").model
    assert (base.encoder_layers, base.d_model, base.d_ff, base.n_heads, base.dropout) == (6, 512, 2048, 8, 0.1)
    assert (big.encoder_layers, big.d_model, big.d_ff, big.n_heads, big.dropout) == (6, 1024, 4096, 16, 0.3)
    assert (base.key_size, base.value_size, big.key_size) == (64, 64, 64)


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
    ("changes", "message"),
    [
        (["model.window=3"], r"model\.window=3 does nothing with model\.pattern='full'; .*'local' or 'sparse'"),
        (["model.pattern=local", "model.rank=3"], r"rank=3 does nothing with model\.pattern='local'; .*'low_rank'"),
        (["model.max_distance=3"], r"max_distance=3 does nothing with model\.positions='sinusoidal'"),
        (["model.pattern=local", "model.window=-1"], r"model\.window must be at least 0; got -1"),
        (["model.positions=rotary", "model.d_k=5"], r"turns pairs of features, but d_k=5 is odd"),
        (["model.positions=alibi", "model.attention=additive"], r"positions='alibi' changes the scores of the dot"),
        (["model.pattern=low_rank", "model.positions=rotary"], r"leaves no place for model\.positions='rotary'"),
        (["model.d_modle=3"], r"no key model\.d_modle in a recipe; did you mean 'd_model'\?"),
        (["modle.d_model=3"], r"no section \[modle\] in a recipe; did you mean 'model'\?"),
        (["model.zzz=3"], r"no key model\.zzz in a recipe; there are: architecture, d_model, "),
        (["model.n_heads=7"], r"d_model=512 does not split into model\.n_heads=7; use n_heads from \[1, 2, 4, 8"),
        (
            ["model.positions=sinusodial"],
            r"positions='sinusodial' is not one of the choices; did you mean 'sinusoidal'",
        ),
        (["model.d_model=0.5"], r"model\.d_model must be a whole number; got 0\.5"),
        (["model.d_model=true"], r"model\.d_model must be a whole number; got True"),
        (["model.d_model=many"], r"model\.d_model must be a whole number; got 'many'"),
        (["model.attention_bias=1"], r"model\.attention_bias must be true or false; got 1"),
        (["model.dropout=1"], r"model\.dropout must be at least 0 and below 1; got 1\.0"),
        (["model.dropout=nan"], r"model\.dropout must be at least 0 and below 1; got nan"),
        (["model.encoder_layers=0"], r"model\.encoder_layers must be at least 1; got 0"),
        (["model.d_k=0"], r"model\.d_k must be at least 1; got 0"),
        (["model.d_model=9", "model.n_heads=3"], r"d_model=9 is odd, .* use d_model=10, or model\.positions='learned'"),
        (["model.preset=bsae"], r"model\.preset='bsae' is not a preset; did you mean 'base'\?"),
        (["d_model=3"], r"cannot read the change 'd_model=3'; write it as section\.key=value"),
        (["model.d_model"], r"cannot read the change 'model\.d_model'"),
    ],
)
def test_an_impossible_recipe_says_what_would_be_possible(changes: list[str], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        Recipe.load("base", changes)


def test_files_that_are_no_recipes(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="bse is neither a file nor the name of a preset; did you mean 'base'"):
        Recipe.load("bse")
    with pytest.raises(RecipeError, match="is a directory; expected a recipe"):
        Recipe.load(tmp_path)
    with pytest.raises(RecipeError, match="is not TOML: "):
        Recipe.load(write(tmp_path, "[model\n"))
    (tmp_path / "latin").write_bytes(b"# \xe4")
    with pytest.raises(RecipeError, match="is not TOML: "):
        Recipe.load(tmp_path / "latin")
    with pytest.raises(RecipeError, match=r"model is a section of the recipe; write \[model\]"):
        Recipe.load(write(tmp_path, "model = 3\n"))


def test_lists_are_checked_one_by_one() -> None:
    assert coerce([1, 2], tuple[int, ...], "a.b") == (1, 2)
    with pytest.raises(RecipeError, match=r"a\.b\[1\] must be a whole number; got 'x'"):
        coerce([1, "x"], tuple[int, ...], "a.b")
    with pytest.raises(RecipeError, match=r"a\.b must be a list"):
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
                if choice in IN_ATTENTION and recipe.architecture == "convolutional":
                    with pytest.raises(RecipeError, match="is told to self-attention"):
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
    ("changes", "message"),
    [
        (["architecture=recurrent", "n_heads=4"], "model.n_heads=4 does nothing with model.architecture='recurrent'"),
        (["architecture=recurrent", "positions=learned"], "use model.architecture='transformer' or 'convolutional'"),
        (["architecture=convolutional", "cell=gru"], "model.cell='gru' does nothing with .*'convolutional'; leave it"),
        (["architecture=convolutional", "attention=additive"], "model.attention='additive' does nothing"),
        (["architecture=convolutional", "kernel_width=4"], "kernel_width=4 has no middle; use an odd number"),
        (["architecture=convolutional", "kernel_width=0"], "kernel_width=0 has no middle"),
        (["architecture=convolutional", "d_model=7"], "model.d_model=7 is odd"),
        (["kernel_width=5"], "model.kernel_width=5 does nothing with model.architecture='transformer'"),
        (["cell=gru"], "model.cell='gru' does nothing with model.architecture='transformer'"),
        (["architecture=recurent"], "did you mean 'recurrent'"),
    ],
)
def test_keys_that_mean_nothing_to_an_architecture_are_refused(changes: list[str], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        Recipe.load("tiny", [f"model.{change}" for change in changes])


def test_a_recurrent_model_may_have_any_width() -> None:
    assert ModelRecipe(architecture="recurrent", d_model=7).d_model == 7


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Recipe.load(None), "the name of a preset or a TOML file; got None"),
        (lambda: Recipe.load("base", "model.dropout=0.3"), "changes come as a list"),
        (lambda: Recipe.load("base", [3]), "a change is a text .* got 3"),
        (lambda: Recipe.from_table([]), "a dictionary for each section"),
        (lambda: ModelRecipe(d_model="512"), "model.d_model must be a whole number; got '512'"),
        (lambda: ModelRecipe(positions="rotatory"), "positions='rotatory' is not one of the choices"),
        (lambda: Recipe(model={"d_model": 8}), "model must be a ModelRecipe"),
    ],
)
def test_what_python_hands_over_is_checked_too(make, message) -> None:
    with pytest.raises(RecipeError, match=message):
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
    with pytest.raises(RecipeError, match=f"{change} must be at most {most:,}; got {most + 1:,}"):
        Recipe.load("base", [f"{change}={most + 1}", *more])


def test_a_width_of_a_convolution_has_an_end_too() -> None:
    with pytest.raises(RecipeError, match="kernel_width must be at most 1,000,000; got 1,000,001"):
        Recipe.load("base", ["model.architecture=convolutional", "model.kernel_width=1000001"])


def test_numbers_of_thousands_of_digits_are_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"train\.steps must be a number of fewer digits; got one of 5,000"):
        Recipe.load("base", [f"train.steps={'9' * 5000}"])
    with pytest.raises(RecipeError, match=r"recipe\.toml is not TOML"):
        Recipe.load(write(tmp_path, f"[train]\nsteps = {'9' * 5000}\n"))


def test_heads_for_the_widest_model_are_found_at_once() -> None:
    with pytest.raises(RecipeError, match=r"does not split into model\.n_heads=7; use n_heads from \[1, 2, 4, 5"):
        Recipe.load("base", ["model.d_model=1000000", "model.n_heads=7"])


@pytest.mark.parametrize("weight", ["0", "1e-300", "1e300", "nan", "inf", "-1"])
def test_weights_that_no_epoch_could_have_are_refused(weight: str) -> None:
    assert Recipe.load("base", ["data.weights=[0.0001, 10000]"]).data.weights == (0.0001, 10000.0)
    with pytest.raises(RecipeError, match=r"must all be over 0, from 0\.0001 to 10,000; leave a corpus out"):
        Recipe.load("base", [f"data.weights=[1.0, {weight}]"])


@pytest.mark.parametrize("key", ["weight_decay", "epsilon"])
def test_what_would_stop_all_learning_is_refused(key: str) -> None:
    with pytest.raises(RecipeError, match=f"train.{key} must be finite; got inf"):
        Recipe.load("base", [f"train.{key}=inf"])
    assert Recipe.load("base", ["train.clip=inf"]).train.clip == float("inf")  # which clips nothing


def test_keys_that_are_no_texts_are_refused() -> None:
    with pytest.raises(RecipeError, match=r"there is no section \[3\]"):
        Recipe.from_table({3: {}})
    with pytest.raises(RecipeError, match=r"there is no key model\.3"):
        Recipe.from_table({"model": {3: 4}})

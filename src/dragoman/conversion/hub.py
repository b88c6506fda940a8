"""Download a model from the Hugging Face Hub, to convert it: `hf:OWNER/NAME`."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from dragoman.errors import ConversionError, MissingExtraError

PREFIX: Final = "hf:"
NAME: Final = re.compile(r"\w[\w.-]*/\w[\w.-]*")
FILES: Final = ("config.json", "generation_config.json", "tokenizer_config.json", "vocab.json")
FILE_PATTERN: Final = re.compile(r"(source|target)\.spm|(source|target)_vocab\.json|vocab\.json")
WEIGHTS: Final = ("model.safetensors", "pytorch_model.bin")  # the first that there is
SECONDS: Final = 10.0  # to wait for the hub


def is_hub_name(path: str) -> bool:
    """Whether a model is named by its place on the hub."""
    return path.startswith(PREFIX)


def download_model(name: str) -> Path:
    """Download the files of an Opus-MT model that the importer reads; return their directory.

    The hub's own cache is used, and its settings: HF_HOME, HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE.
    """
    repository = name.removeprefix(PREFIX)
    if not NAME.fullmatch(repository):
        raise ConversionError(
            f"{name} is not a model of the hub; write hf:OWNER/NAME, such as hf:Helsinki-NLP/opus-mt-en-de",
            code="invalid_name",
        )
    try:
        from huggingface_hub import HfApi, constants, hf_hub_download, snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError
    except ImportError:
        raise MissingExtraError("huggingface_hub", "huggingface", "downloading from the hub") from None
    endpoint = os.environ.get("HF_ENDPOINT") or None
    try:
        if constants.HF_HUB_OFFLINE:
            return Path(snapshot_download(repository, local_files_only=True))
        listed = HfApi(endpoint=endpoint).model_info(repository, timeout=SECONDS)
        names = [file.rfilename for file in listed.siblings or ()]
        wanted = [file for file in names if file in FILES or FILE_PATTERN.fullmatch(file)]
        wanted += [file for file in WEIGHTS if file in names][:1]
        if not wanted:
            raise ConversionError(f"{repository} has no files of an Opus-MT model", code="not_a_model")
        places = [hf_hub_download(repository, file, revision=listed.sha, endpoint=endpoint) for file in wanted]
        return Path(places[0]).parent
    except RepositoryNotFoundError:
        raise ConversionError(
            f"the hub has no model {repository}, or it is private; check the name, or set HF_TOKEN",
            code="model_not_found",
        ) from None
    except LocalEntryNotFoundError:
        raise ConversionError(
            f"{repository} cannot be downloaded: the hub cannot be reached, or HF_HUB_OFFLINE is set, and the model is "
            "not in the cache; connect to the internet, or download it elsewhere and give its directory",
            code="offline",
        ) from None
    except ConversionError:
        raise
    except (HfHubHTTPError, OSError, ValueError, RuntimeError) as error:
        raise _unreachable(repository, error) from None
    except Exception as error:
        if not type(error).__module__.startswith(("httpx", "httpcore", "requests", "urllib3")):
            raise
        raise _unreachable(repository, error) from None


def _unreachable(repository: str, error: Exception) -> ConversionError:
    reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
    return ConversionError(
        f"{repository} cannot be downloaded: {reason}; connect to the internet, or download it elsewhere and give its "
        "directory",
        code="offline",
    )

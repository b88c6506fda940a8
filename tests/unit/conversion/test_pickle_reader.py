"""Checkpoints are read without PyTorch's unpickler: the same tensors, nothing is called, and small files stay small."""

from __future__ import annotations

import os
import pickle
from argparse import Namespace
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dragoman.conversion.files.pickle_objects import Opaque
from dragoman.conversion.files.torch_file import TorchFile
from dragoman.conversion.from_fairseq import as_dict
from dragoman.errors import ConversionError
from hostile_files import (
    Call,
    Reference,
    dump,
    key_pickle,
    pointer_pickle,
    shared_lists,
    stand_in_module,
    write_torch,
)
from raising import raises

TENSORS = {
    "matrix": torch.randn(5, 7),
    "transposed": torch.randn(5, 7).T,
    "part": torch.randn(11, 3)[2:9, 1:],
    "number": torch.tensor(3.5),
    "empty": torch.zeros(0, 4),
    "half": torch.randn(3, 2).half(),
    "bfloat16": torch.randn(3, 2).bfloat16(),
    "double": torch.randn(4).double(),
    "integers": torch.arange(6).view(2, 3),
    "flags": torch.tensor([True, False]),
    "parameter": torch.nn.Parameter(torch.randn(2, 3)),
}


@pytest.mark.parametrize("zipped", [True, False])
def test_the_tensors_are_those_of_torch_load(tmp_path: Path, zipped: bool) -> None:
    whole = torch.randn(6, 4)
    saved = {"model": OrderedDict(TENSORS | {"whole": whole, "row": whole[3], "tied": whole}), "step": 12}
    torch.save(saved, tmp_path / "x.pt", _use_new_zipfile_serialization=zipped)
    file = TorchFile(tmp_path / "x.pt")
    expected = torch.load(tmp_path / "x.pt", weights_only=True)["model"]
    found = file.tensors(file.content["model"])
    assert file.content["step"] == 12 and found is not None and [*found] == [*expected]
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype and torch.equal(found[name], tensor), name
    assert found["whole"].data_ptr() == found["tied"].data_ptr()


def test_a_state_dict_with_metadata_and_settings(tmp_path: Path) -> None:
    model = torch.nn.Linear(3, 2)
    settings = Namespace(arch="transformer", sizes=[1, 2], rate=0.5, name=None, flag=True, best=np.float64(2.5))
    torch.save({"model": model.state_dict(), "args": settings, "names": {"a", "b"}}, tmp_path / "x.pt")
    file = TorchFile(tmp_path / "x.pt")
    found = as_dict(file.content["args"])
    assert isinstance(found.pop("best"), Opaque)
    assert found == {"arch": "transformer", "sizes": [1, 2], "rate": 0.5, "name": None, "flag": True}
    tensors = file.tensors(file.content["model"])
    assert tensors is not None and torch.equal(tensors["weight"], model.weight)


def test_settings_of_omegaconf_are_read_as_data(tmp_path: Path) -> None:
    def made(kind: type, **state: Any) -> Any:
        each = kind()
        each.__dict__.update(state)
        return each

    with (
        stand_in_module("omegaconf.dictconfig", "DictConfig") as module,
        stand_in_module("omegaconf.nodes", "AnyNode") as n,
    ):
        config = made(module.DictConfig, _metadata=None, _content={"arch": made(n.AnyNode, _val="transformer")})
        torch.save({"cfg": config}, tmp_path / "x.pt")
    assert as_dict(TorchFile(tmp_path / "x.pt").content["cfg"]) == {"arch": "transformer"}


@pytest.mark.parametrize("value", [Call(os.system, "touch ran"), Call(eval, "1 + 1"), Path("x"), len, Exception("x")])
def test_nothing_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: Any) -> None:
    monkeypatch.chdir(tmp_path)
    with raises(ConversionError, "unsafe_pickle"):
        TorchFile(write_torch(tmp_path / "x.pt", dump({"model": value})))
    assert not (tmp_path / "ran").exists()


def test_a_pointer_in_a_numpy_scalar_is_not_followed(tmp_path: Path) -> None:
    content = TorchFile(write_torch(tmp_path / "x.pt", pointer_pickle())).content
    assert isinstance(as_dict(content["args"])["arch"], Opaque)


STORAGE = (torch.FloatStorage, "0", 12)
INSIDE = (0, (3, 4), (4, 1))
COPIES = b"\x80\x02]q\x00(" + b"K\x01" * 5000 + b"e0" + b"ccollections\nOrderedDict\n(h\x00tR0" * 5000 + b"N."


@pytest.mark.parametrize(
    "view",
    [
        (1, (3, 4), (4, 1)), (0, (3, 4), (5, 1)), (-1, (3, 4), (4, 1)), (0, (3, -4), (4, 1)), (0, (3, 4), (4, -1)),
        (0, (13,), (0,)), (0, (3, 4), (4,)), (2**63, (1,), (1,)), (0, (2**62, 4), (0, 0)), (0, (2**32, 2**32), (0, 0)),
        (0, (0, 2**60), (1, 1)), (0, (1,) * 70, (1,) * 70), (0.0, (3, 4), (4, 1)), (0, (3, True), (4, 1)),
        (0, [3, 4], (4, 1)), (0, ("3", 4), (4, 1)), (None, (), ()),
    ],
)  # fmt: skip
def test_a_tensor_outside_of_its_storage_is_rejected(tmp_path: Path, view: tuple[Any, ...]) -> None:
    def write(view: tuple[Any, ...]) -> Path:
        tensor = Call(torch._utils._rebuild_tensor_v2, Reference(*STORAGE), *view, False, OrderedDict())
        return write_torch(tmp_path / "x.pt", dump({"a": tensor}), {"0": bytes(48)})

    whole = TorchFile(write(INSIDE))
    assert whole.tensors(whole.content) is not None
    with raises(ConversionError, "file_damaged"):
        TorchFile(write(view))


@pytest.mark.parametrize(
    ("storage", "data"), [((torch.FloatStorage, "0", 12), 47), ((torch.FloatStorage, "0", 12), 52),
                          ((torch.FloatStorage, "1", 12), 48), ((torch.FloatStorage, "../0", 12), 48)],
)  # fmt: skip
def test_a_storage_of_another_size_is_rejected(tmp_path: Path, storage: tuple[Any, ...], data: int) -> None:
    tensor = Call(torch._utils._rebuild_tensor_v2, Reference(*storage), *INSIDE, False, OrderedDict())
    file = TorchFile(write_torch(tmp_path / "x.pt", dump({"a": tensor}), {"0": bytes(data)}))
    with raises(ConversionError, "file_damaged"):
        file.tensors(file.content)


def test_a_storage_that_many_tensors_use_does_not_multiply(tmp_path: Path) -> None:
    storage = Reference(torch.FloatStorage, "0", 1000)
    tensor = Call(torch._utils._rebuild_tensor_v2, storage, 0, (10, 100), (100, 1), False, OrderedDict())
    file = TorchFile(write_torch(tmp_path / "x.pt", dump({str(i): tensor for i in range(2000)}), {"0": bytes(4000)}))
    with raises(ConversionError, "file_damaged"):
        file.tensors(file.content)


def test_compressed_entries_are_rejected(tmp_path: Path) -> None:
    with raises(ConversionError, "file_damaged"):
        TorchFile(write_torch(tmp_path / "x.pt", dump({"a": [0] * 10_000}), compressed=True))


def test_shared_lists_take_no_room(tmp_path: Path) -> None:
    content = TorchFile(write_torch(tmp_path / "x.pt", dump({"args": shared_lists()}))).content
    assert len(content["args"]) == 2


@pytest.mark.parametrize(
    "content",
    [
        key_pickle(),
        COPIES,
        b"N" * 3_000_000 + b".",  # steps
        b"\x80\x02\x8b\xff\xff\xff\x7f",  # an integer of 2 GiB
        pickle.dumps(1 << 20_000, 2),
        b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x0f.",  # a text of 2 ** 60 bytes
        b"(" * 100_000, b".", b"", b"0.", b"t.", b"\x86.", b"R.", b"b.", b"h\x07.", b"}]Ns.", b"Q.", b"Pstorage\n.",
        b"I" + b"9" * 5000 + b"\n.", b"X\x03\x00\x00\x00" + b"\xed\xa0\x80.",
    ],
)  # fmt: skip
def test_what_no_checkpoint_holds_is_rejected(tmp_path: Path, content: bytes) -> None:
    with raises(ConversionError, "file_damaged"):
        TorchFile(write_torch(tmp_path / "x.pt", content))

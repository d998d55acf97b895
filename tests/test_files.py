"""`.pann` files: what is saved comes back to the bit, and what is hostile gets nowhere."""

import contextlib
import dataclasses
import importlib.metadata
import json
import os
import tracemalloc
import zlib

import equinox as eqx
import jax
import numpy as np
import pytest
from mutations import MUTATIONS, check_mutations, check_reference, mutate_bytes, mutate_json
from oracles import random_parameters, replace
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import pann
from pann.basis import EvolvingBasis, Legendre, PiecewiseLegendre, ShapeBasis, Singular, make_basis
from pann.domain import Box
from pann.io import FileError, load, model_state, read, save, write
from pann.model.pann import PANN
from pann.network import (
    AxisUnits,
    Circles,
    PeriodicFeatures,
    PolynomialFeatures,
    Power,
    RandomFourier,
    RePU,
    activation_named,
)
from pann.network.activations import Tanh
from pann.shapes import Ball, Curve, Cylinder, Disk, Mesh

DOMAIN = Box(x=(0.1, 3.0), y=(-2.0, -1.0))
MIXED = Box(s=(0.0, 1 / 3), x=(-1.0, 1.0), t=(0.0, 2.0), periodic=["x"], time="t")


def make_model(
    *,
    domain=DOMAIN,
    degree=3,
    activation="tanh",
    embedding=None,
    dropout=0.0,
    num_outputs=None,
    precision="float64",
    options=None,
    **layers,
):
    """A model with every number at random and some of its units and terms pruned."""
    basis = make_basis(domain, degree or 0, **(options or {}))
    basis = basis if degree is not None else basis.subset(np.arange(0))
    function = activation_named(activation)
    generator = np.random.default_rng(7)
    with jax.enable_x64(True):
        if embedding is not None:
            key = jax.random.key(5)
            embedding = embedding.build(domain.dimension, function, key=key, dtype=precision)
        parameters = random_parameters(
            3,
            dimension=domain.dimension,
            num_terms=len(basis),
            num_outputs=num_outputs or 1,
            dtype=precision,
            embedding=embedding,
            **layers,
        )
        if parameters.network is not None:
            network = replace(parameters.network, activation=function, dropout=dropout)
            parameters = replace(parameters, network=network)
        overlap = generator.normal(size=parameters.overlap.shape).astype(precision)
        parameters = replace(
            parameters,
            overlap=jax.device_put(overlap),
            keep_a=jax.device_put(generator.random(parameters.keep_a.shape) < 0.8),
            keep_b=jax.device_put(generator.random(parameters.keep_b.shape) < 0.8),
        )
    return PANN(domain, basis, parameters, precision, num_outputs)


@pytest.fixture
def path(tmp_path):
    """A good file."""
    save(tmp_path / "model.pann", make_model(widths=(3, 2), degree=1, embedding=AxisUnits(4)))
    return tmp_path / "model.pann"


@pytest.fixture
def modified_path(tmp_path):
    """A good file of a modified network that has lost a unit."""
    whole = make_model(kind="modified", widths=(4, 4, 4), degree=1, embedding=Circles((1,), 3))
    keep_a = jax.device_put(np.array([True, False, True, True]))
    parameters = replace(whole.parameters, keep_a=keep_a)
    model = dataclasses.replace(whole, parameters=parameters).compact()
    save(tmp_path / "modified.pann", model)
    return tmp_path / "modified.pann"


@pytest.fixture
def shape_path(tmp_path):
    """A good file of a polynomial and functions of a hole on a shape of many kinds of shapes."""
    star = Curve(lambda t: ((2 + np.cos(3 * t)) * np.cos(t), (2 + np.cos(3 * t)) * np.sin(t)))
    shape = star.scaled(0.2) - Disk((0.1, 0.1), 0.1).renamed(disk="hole")
    singular = Singular.of([(0.1, 0.1, 0.0, 6.3, 0.1, -1.0, 0.0, 0, 0.0)])
    basis = ShapeBasis(shape.box, 2, singular)
    with jax.enable_x64(True):
        parameters = random_parameters(3, dimension=2, num_terms=len(basis), widths=(2,))
    save(tmp_path / "shape.pann", PANN(shape.box, basis, parameters))
    return tmp_path / "shape.pann"


@pytest.fixture
def body_path(tmp_path):
    """A good file of windows on a body that is made of all kinds of bodies."""
    vertices = np.array([[0.0, 0.0, 0.0], [2.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 2.0]])
    mesh = Mesh(vertices, [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    ring = Disk((2.0, 0.0), 0.5).revolved("y")
    shape = (mesh | ring) - Ball((0.2, 0.2, 0.2), 0.1) - Cylinder(radius=0.05, height=9)
    space = ShapeBasis(shape.box, 1)
    basis = EvolvingBasis(shape.in_time(t=(0.0, 1.0)), space, (0.0, 0.4, 1.0), 2)
    with jax.enable_x64(True):
        parameters = random_parameters(3, dimension=4, num_terms=len(basis), widths=(2,))
    save(tmp_path / "body.pann", PANN(basis.domain, basis, parameters))
    return tmp_path / "body.pann"


# ---- What is saved comes back ----

VARIANTS = {
    "plain": {},
    "one column": {"num_outputs": 1},
    "several outputs and a bias": {"num_outputs": 3, "bias": True},
    "no network": {"widths": ()},
    "no polynomial": {"degree": None, "bias": True},
    "one layer": {"widths": (4,)},
    "dropout": {"dropout": 0.25},
    **{name: {"activation": name} for name in ("relu", "repu", "sin")},
    "repu 3": {"activation": RePU(3)},
    "power 1.5": {"activation": Power(1.5)},
    "random fourier": {"embedding": RandomFourier(3)},
    "periodic": {"embedding": PeriodicFeatures(3, 2)},
    "circles": {"embedding": Circles((1,))},
    "circles and waves": {"embedding": Circles((1,), 3)},
    "modified": {"kind": "modified", "widths": (4, 4, 4)},
    "modified with waves": {
        "kind": "modified",
        "widths": (4, 4),
        "embedding": Circles((0,), 3, 2.0),
        "activation": "sin",
    },
    "rectified": {"embedding": PeriodicFeatures(3, 2, rectified=True)},
    "polynomial": {"embedding": PolynomialFeatures(3), "activation": "arctan"},
    "axis units": {"embedding": AxisUnits(5), "activation": RePU(3)},
    "chebyshev": {"options": {"families": "chebyshev", "scaling": "orthonormal"}},
    "mixed families": {"domain": MIXED, "options": {"families": {"s": "chebyshev"}}},
    "pieces": {"options": {"families": {"y": PiecewiseLegendre((-1 / 3, 0.1))}}},
    "some axes": {"domain": MIXED, "options": {"axes": ("t", "x")}},
    "names that are no identifiers": {"domain": Box(**{"péage (€)": (0, 1), "_": (2, 3)})},
}


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS.keys())
def test_a_loaded_model_is_the_saved_one_to_the_last_bit(variant, precision, tmp_path):
    model = make_model(**variant, precision=precision)
    save(tmp_path / "model.pann", model)
    loaded = load(tmp_path / "model.pann")
    for field in ("domain", "basis", "precision", "num_outputs"):
        assert getattr(loaded, field) == getattr(model, field)
    assert eqx.tree_equal(loaded.parameters, model.parameters, typematch=True)
    points = model.domain.from_reference(
        np.random.default_rng(0).uniform(-1, 1, (40, model.domain.dimension))
    )
    predicted = loaded(points)
    assert predicted.dtype == precision
    assert predicted.tobytes() == model(points).tobytes()


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_a_modified_model_without_its_pruned_units_comes_back(precision, tmp_path):
    model = make_model(kind="modified", widths=(9, 9), precision=precision).compact()
    assert model.parameters.network.width < 9
    save(tmp_path / "model.pann", model)
    loaded = load(tmp_path / "model.pann")
    assert eqx.tree_equal(loaded.parameters, model.parameters, typematch=True)
    points = model.domain.from_reference(np.random.default_rng(0).uniform(-1, 1, (40, 2)))
    assert loaded(points).tobytes() == model(points).tobytes()


def test_a_description_has_no_entries_of_parts_that_are_not_there():
    own, _ = model_state(make_model(embedding=Circles((1,))))
    assert own["network"].keys() == {"widths", "activation", "dropout", "embedding"}
    assert own["network"]["embedding"].keys() == {"name", "num_inputs", "axes"}


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_a_fitted_model_comes_back(precision, tmp_path):
    points = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    values = np.sin(3 * points[:, 0]) * points[:, 1]
    recipe = (pann.Adam(5), pann.LeastSquares())
    model = pann.fit(
        points,
        values,
        pann.Training(stages=recipe, degree=3, network=pann.MLP(width=4)),
        precision=precision,
    ).model
    save(tmp_path / "model.pann", model)
    np.testing.assert_array_equal(load(tmp_path / "model.pann")(points), model(points))


def test_notes_are_kept(tmp_path):
    notes = {"by": "Ada ✓", "error": 1e-3, "sizes": [1, 2, {"deep": None}], "done": True}
    save(tmp_path / "model.pann", make_model(), about=notes)
    assert read(tmp_path / "model.pann").description["about"] == notes


ARRAYS = {
    "float64": np.array([np.nan, -0.0, np.inf, 5e-324]),
    "float32": np.arange(6, dtype="float32").reshape(2, 3),
    "int64": np.array(2**63 - 1),
    "int32": np.zeros((0, 4), "int32"),
    "uint8": np.arange(256, dtype="uint8"),
    "bool": np.array([[True], [False]]),
    "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "strided": np.arange(10.0)[::3],
    "big-endian": np.arange(3, dtype=">f8"),
}


def test_the_container_keeps_arrays_of_every_type_and_order(tmp_path):
    write(tmp_path / "a.pann", "numbers", {"one": 1}, ARRAYS)
    kind, description, arrays, *versions = read(tmp_path / "a.pann")
    assert (kind, description, arrays.keys()) == ("numbers", {"one": 1}, ARRAYS.keys())
    assert versions == [importlib.metadata.version("pann"), 2]
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype.newbyteorder("=")
        np.testing.assert_array_equal(arrays[name], array, strict=name != "big-endian")
        assert not arrays[name].flags.writeable
        assert arrays[name].flags.aligned
    # Equal contents make equal files.
    write(tmp_path / "b.pann", "numbers", {"one": 1}, ARRAYS)
    assert (tmp_path / "a.pann").read_bytes() == (tmp_path / "b.pann").read_bytes()


def test_the_reference_library_reads_what_is_written(tmp_path, path):
    write(tmp_path / "a.pann", "numbers", {"é": '\ud800 " \\ \0'}, ARRAYS)
    write(tmp_path / "empty.pann", "numbers", {}, {})
    for file in (tmp_path / "a.pann", tmp_path / "empty.pann", path):
        check_reference(file, read(file).arrays)
    with safe_open(path, framework="numpy") as opened:
        found = opened.metadata()
    assert (found["format"], found["format_version"], found["kind"]) == ("pann", "2", "model")
    assert json.loads(found["description"]) == read(path).description


def test_what_the_reference_library_writes_is_read(path):
    """In its own order, with its own blanks: the checksum is one of contents."""
    with safe_open(path, framework="numpy") as opened:
        metadata = opened.metadata()
    before, content = load(path), path.read_bytes()
    save_file(dict(reversed(load_file(path).items())), path, metadata)
    assert path.read_bytes() != content
    assert eqx.tree_equal(load(path).parameters, before.parameters, typematch=True)
    save_file({**load_file(path), "b": np.ones((3, 1))}, path, metadata)
    with pytest.raises(FileError, match="checksum"):
        load(path)


def test_arrays_that_are_not_aligned_are_read(path):
    """The format does not ask for it: a header of any length will do."""
    before = load(path)
    parsed, data = parse(path)
    for blanks in range(8):
        order = sorted(parsed, key=len)  # not by the sizes of their numbers
        moved, chunks, end = {"__metadata__": parsed["__metadata__"]}, [], 0
        for name in order:
            if name != "__metadata__":
                begin, stop = parsed[name]["data_offsets"]
                chunks.append(data[begin:stop])
                moved[name] = parsed[name] | {"data_offsets": [end, end + stop - begin]}
                end += stop - begin
        assemble(path, json.dumps(moved).encode() + b" " * blanks, b"".join(chunks))
        assert eqx.tree_equal(load(path).parameters, before.parameters, typematch=True)
        check_reference(path, read(path).arrays)


# ---- Writing ----


def failing_writes(error):
    """An `open` whose files take some bytes and then no more."""

    def opened(*arguments, **options):
        file = open(*arguments, **options)  # noqa: SIM115, closed by what stands for it
        write, count = file.write, iter(range(2))

        class Failing:
            __enter__ = lambda self: self
            __exit__ = lambda self, *_: file.close()

            def write(self, content):
                if next(count, None) is None:
                    raise error
                return write(content)

        return Failing() if "b" in arguments[1] and "x" in arguments[1] else file

    return opened


@pytest.mark.parametrize("broken", ["open", "os.fsync", "os.replace"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_leaves_the_old_file_and_nothing_else(broken, error, path, monkeypatch):
    before = path.read_bytes()

    def fail(*arguments, **options):
        raise error

    if broken == "open":
        monkeypatch.setattr("pann.io.container.open", failing_writes(error), raising=False)
    else:
        monkeypatch.setattr(broken, fail)
    expected = FileError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(expected):
        save(path, make_model())
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_a_link_stays_a_link(path):
    link = path.parent / "link.pann"
    link.symlink_to(path)
    save(link, make_model(num_outputs=2))
    assert link.is_symlink()
    assert load(path).num_outputs == 2


class OtherLegendre(Legendre):
    """A family of the user's own."""


class OtherTanh(Tanh):
    """An activation of the user's own."""


def with_nan(model):
    with jax.enable_x64(True):
        b = jax.device_put(np.full(model.parameters.b.shape, np.nan))
    return dataclasses.replace(model, parameters=replace(model.parameters, b=b))


@pytest.mark.parametrize(
    "model, message",
    [
        (with_nan(make_model()), "array 'b' has numbers that are NaN or infinite"),
        (
            make_model(activation=OtherTanh()),
            "OtherTanh.* as the activation, .* pann's: tanh",
        ),
        (
            make_model(activation=RePU(101)),
            "'power' of the activation .* integer from 1 to 100",
        ),
        (
            make_model(options={"families": OtherLegendre()}),
            "OtherLegendre.* family .* legendre",
        ),
        (dataclasses.replace(make_model(), domain=Box.cube(2)), "lives on another domain"),
        (dataclasses.replace(make_model(), precision="float32"), "must be float32 .* is float64"),
    ],
)
def test_a_model_that_could_not_be_loaded_is_not_saved(model, message, tmp_path):
    with pytest.raises(FileError, match=message):
        save(tmp_path / "model.pann", model)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "where, header, arrays, message",
    [
        ("no/such/folder.pann", {}, {}, "no such file or directory; check the folder"),
        (".", {}, {}, "is a directory"),
        ("zero\0byte.pann", {}, {}, "null"),
        (
            "a.pann",
            {"x": float("nan")},
            {},
            "'description.x' of the header is nan, which JSON does not have",
        ),
        ("a.pann", {"x": {1: 2}}, {}, "'description.x' .* has the key 1; keys must be text"),
        ("a.pann", {"x": np.zeros(2)}, {}, "type ndarray; .* put arrays among the arrays"),
        ("a.pann", {"x": 10**5000}, {}, "beyond 64 bits; write it as text"),
        ("a.pann", {"x": "1" * 2**24}, {}, "more than the 16 MiB"),
        ("a.pann", {}, {"x": np.array([None])}, "dtype object, but .* convert it first"),
        ("a.pann", {}, {"x": np.zeros(2, complex)}, "dtype complex128"),
        ("a.pann", {}, {"../x": np.zeros(2)}, "'../x' cannot name an array"),
        ("a.pann", {}, {"__metadata__": np.zeros(2)}, "'__metadata__' cannot name an array"),
    ],
)
def test_what_cannot_be_written_is_said(where, header, arrays, message, tmp_path):
    with pytest.raises(FileError, match=message):
        write(tmp_path / where, "numbers", header, arrays)
    assert os.listdir(tmp_path) == []


def test_what_nests_as_deep_as_may_be_written_can_be_read(tmp_path):
    header = {}
    for _ in range(31):
        header = {"in": header}
    write(tmp_path / "a.pann", "nest", header, {})
    assert read(tmp_path / "a.pann").description == header
    with pytest.raises(FileError, match="nested deeper than 32 levels"):
        write(tmp_path / "a.pann", "nest", {"in": header}, {})


def test_a_long_description_can_be_read(tmp_path):
    write(tmp_path / "a.pann", "long", {"zeros": "0" * 2**21}, {})
    assert read(tmp_path / "a.pann").description == {"zeros": "0" * 2**21}


# ---- Hostile files, each by its name ----


def parse(path):
    """The header and the bytes after it."""
    content = path.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    return json.loads(content[8:end]), content[end:]


def assemble(path, header, data):
    """Write a file with its length and, where there still is one to compute, checksum right."""
    with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
        header["__metadata__"]["crc32"] = checksum(header, data)
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def checksum(header, data):
    """By its definition: metadata by key, then declarations and bytes of the arrays by name."""
    texts = sorted([key, text] for key, text in header["__metadata__"].items() if key != "crc32")
    entries = sorted((name, entry) for name, entry in header.items() if name != "__metadata__")
    declared = [[name, entry["dtype"], entry["shape"]] for name, entry in entries]
    crc = zlib.crc32(json.dumps([texts, declared], separators=(",", ":")).encode())
    for _, entry in entries:
        begin, end = entry["data_offsets"]
        crc = zlib.crc32(data[begin:end], crc)
    return f"{crc:08x}"


def raw(change):
    return lambda path: path.write_bytes(change(path.read_bytes()))


def text(change):
    """Damage that changes the text of the header."""

    def damage(path):
        content = path.read_bytes()
        end = 8 + int.from_bytes(content[:8], "little")
        assemble(path, change(content[8:end]), content[end:])

    return damage


def header(change):
    """Damage that changes the parsed header in place."""

    def damage(path):
        parsed, data = parse(path)
        change(parsed)
        assemble(path, parsed, data)

    return damage


def metadata(**values):
    return header(lambda h: h["__metadata__"].update(values))


def entry(name="a", **values):
    """Damage that changes what the header says of an array."""
    return header(lambda h: h[name].update(values))


def description(change):
    """Damage that changes the parsed description in place."""

    def changed(parsed):
        own = json.loads(parsed["__metadata__"]["description"])
        change(own)
        parsed["__metadata__"]["description"] = json.dumps(own)

    return header(changed)


def description_text(change):
    return header(
        lambda h: h["__metadata__"].update(description=change(h["__metadata__"]["description"]))
    )


def model(*keys, to):
    """Damage that changes one value of the model's description."""

    def change(parsed):
        inner = parsed["model"]
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] = to

    return description(change)


def elements(name="piecewise_legendre", **breaks):
    """Damage that makes the first family one of elements."""
    return model("basis", "families", 0, to={"name": name, **breaks})


def array(name, value):
    """Damage that replaces an array and what the header says of it."""

    def damage(path):
        kind, own, arrays, *_ = read(path)
        write(path, kind, own, {**arrays, name: value})

    return damage


def shift(name, by):
    """Damage that moves the place of an array."""

    def change(parsed):
        parsed[name]["data_offsets"] = [offset + by for offset in parsed[name]["data_offsets"]]

    return header(change)


def number(name, value):
    """Damage to the first byte of an array."""

    def damage(path):
        parsed, data = parse(path)
        begin, _ = parsed[name]["data_offsets"]
        assemble(path, parsed, data[:begin] + bytes([value]) + data[begin + 1 :])

    return damage


def share_bytes(path):
    """Two arrays of one size in one place: more arrays than the file has bytes for."""
    parsed, data = parse(path)
    parsed["extra"] = dict(parsed["a"])
    assemble(path, parsed, data)


def of_others(path):
    save_file({"x": np.zeros(3)}, path)


def remove(path):
    path.unlink()


def make_folder(path):
    path.unlink()
    path.mkdir()


def make_pipe(path):
    path.unlink()
    os.mkfifo(path)


NESTED = b"[" * 100_000
NOT_OURS = "not a .pann file"
HOSTILE = {
    "missing file": (remove, "no such file"),
    "folder": (make_folder, "is a folder"),
    "pipe": (make_pipe, "not a regular file"),
    "empty": (raw(lambda content: b""), NOT_OURS),
    "a few bytes": (raw(lambda content: content[:7]), NOT_OURS),
    "text": (raw(lambda content: b"x" * 5000), NOT_OURS),
    "another safetensors": (of_others, "does not say that this is a pann"),
    "header of 8 EiB": (raw(lambda content: bytes([0] * 7 + [128]) + content[8:]), NOT_OURS),
    "header beyond the end": (raw(lambda c: bytes([0, 0, 1] + [0] * 5) + c[8:]), "cut short"),
    "cut in the header": (raw(lambda content: content[:100]), "cut short: its header alone"),
    "truncated": (raw(lambda content: content[:-30]), "cut short: its arrays"),
    "added to": (raw(lambda content: content + b"more"), "added to"),
    "empty header": (text(lambda content: b""), "not valid JSON"),
    "invalid JSON": (text(lambda content: content.rstrip()[:-1]), "not valid JSON"),
    "not UTF-8": (text(lambda content: b"\xff"), "not valid JSON"),
    "NaN in the header": (text(lambda c: c.replace(b"[0,", b"[NaN,")), "holds NaN"),
    "infinity in the header": (text(lambda c: c.replace(b"[0,", b"[1e999,")), "1e999"),
    "long integer": (text(lambda c: c.replace(b"[0,", b"[" + b"9" * 5000 + b",")), "5,000 digits"),
    "deep header": (text(lambda content: NESTED), "nested deeper"),
    "rather deep header": (text(lambda content: NESTED[:50] + b"]" * 50), "nested deeper"),
    "an array twice": (text(lambda content: b'{"a":{},' + content[1:]), "'a' twice"),
    "metadata twice": (text(lambda c: b'{"__metadata__":{},' + c[1:]), "'__metadata__' twice"),
    "header of a list": (text(lambda content: b"[]"), "does not say that this is a pann"),
    "header of a number": (text(lambda content: b"1"), "does not say that this is a pann"),
    "blank before the header": (text(lambda content: b" " + content), "does not say"),
    "long header": (text(lambda content: content + b" " * 2**24), "at most 16,777,216"),
    "no metadata": (header(lambda h: h.pop("__metadata__")), "does not say"),
    "metadata of a list": (header(lambda h: h.update(__metadata__=[])), "does not say"),
    "another format": (metadata(format="pt"), "does not say"),
    "newer version": (metadata(format_version="3"), "version '3'.*reads versions 1 and 2"),
    "version of a number": (metadata(format_version=2), "version 2, but"),
    "kind missing": (header(lambda h: h["__metadata__"].pop("kind")), "has no 'kind'"),
    "extra key": (metadata(code="x"), "has 'code', but may only have"),
    "kind of a number": (metadata(kind=1), "'kind' .* must be a text"),
    "no kind": (metadata(kind=""), "the kind must be a text"),
    "another kind": (metadata(kind="fit"), "'fit', not a model"),
    "another version of pann": (
        text(lambda content: content.replace(b'"pann_version":"', b'"pann_version":"1')),
        "checksum",
    ),
    "checksum": (text(lambda c: c.replace(b'"crc32":"', b'"crc32":"0')), "checksum"),
    "checksum missing": (
        text(lambda content: content.replace(b'"crc32"', b'"crc16"')),
        "has no 'crc32'",
    ),
    "description of a number": (metadata(description=1), "'description' .* must be a text"),
    "empty description": (metadata(description=""), "not valid JSON"),
    "description of a list": (metadata(description="[]"), "must be an object"),
    "NaN in the description": (description_text(lambda t: t.replace("0.1", "NaN")), "holds NaN"),
    "infinity in the description": (
        description_text(lambda t: t.replace("0.1", "1e999")),
        "1e999",
    ),
    "long integer in the description": (
        description_text(lambda t: t.replace("0.1", "9" * 5000)),
        "5,000 digits",
    ),
    "deep description": (metadata(description="[" * 100_000), "nested deeper"),
    "rather deep description": (metadata(description="[" * 50 + "]" * 50), "nested deeper"),
    "a key twice": (description_text(lambda t: '{"about":{},' + t[1:]), "'about' twice"),
    "entry of a list": (header(lambda h: h.update(a=[])), "must be an object"),
    "entry without dtype": (header(lambda h: h["a"].pop("dtype")), "has no 'dtype'"),
    "entry with more": (entry(code="x"), "has 'code', but may only have"),
    "path for a name": (header(lambda h: h.update({"../x": h.pop("a")})), "cannot name"),
    "array missing": (header(lambda h: h.pop("keep_a")), "leaves a gap|added to"),
    "array of nobody": (array("extra", np.zeros(3)), "no place for an array 'extra'"),
    "empty array of nobody": (
        header(lambda h: h.update(extra={"dtype": "U8", "shape": [0], "data_offsets": [0, 0]})),
        "no place for an array 'extra'",
    ),
    "offsets of a text": (entry(data_offsets="0, 16"), "must be a list"),
    "one offset": (entry(data_offsets=[0]), "must have 2 offsets"),
    "three offsets": (entry(data_offsets=[0, 16, 16]), "must have 2 offsets"),
    "negative offset": (entry(data_offsets=[-16, 0]), "integer from 0"),
    "offset true": (entry(data_offsets=[True, 17]), "integer from 0"),
    "offset of a fraction": (entry(data_offsets=[0.0, 16.0]), "integer from 0"),
    "offsets backwards": (entry(data_offsets=[16, 0]), "its offsets are 16 and 0"),
    "offsets too far apart": (entry(data_offsets=[0, 24]), "takes 16 bytes"),
    "overlap": (shift("a", -8), "overlaps another one|integer from 0"),
    "gap": (shift("a", 8), "leaves a gap|overlaps another one"),
    "offsets far away": (entry(data_offsets=[2**40, 2**40 + 16]), "leaves a gap"),
    "shared bytes": (share_bytes, "overlaps another one"),
    "huge array": (entry(shape=[2**40]), "takes 8,796,093,022,208 bytes"),
    "huge array with offsets": (
        entry(shape=[2**40], data_offsets=[0, 2**43]),
        "cut short|overlaps another one|leaves a gap",
    ),
    "empty huge array": (entry(shape=[0, 2**40, 2**40]), "impossible shape"),
    "negative length": (entry(shape=[-1]), "from 0 to"),
    "length true": (entry(shape=[True]), "from 0 to"),
    "shape of a number": (entry(shape=2), "must be a list"),
    "many dimensions": (entry(shape=[1] * 33), "33 dim"),
    "dtype object": (entry(dtype="object"), "must be one of"),
    "dtype of safetensors alone": (entry(dtype="F16"), "must be one of"),
    "dtype of a list": (entry(dtype=[]), "must be one of"),
    "another dtype": (entry(dtype="I64"), "'a' must be float64 of shape .* but is int64"),
    "another shape": (entry(shape=[1, 2]), r"'a' must be .*\(2, 1\), but is .*\(1, 2\)"),
    "bool of 2": (number("keep_a", 2), "neither 0 nor 1"),
    "no model": (description(lambda d: d.clear()), "the description has no 'model'"),
    "about of a list": (
        description(lambda d: d.update(about=[])),
        "'about' of the description must be",
    ),
    "model of a list": (description(lambda d: d.update(model=[])), "must be an object"),
    "unknown activation": (model("network", "activation", "name", to="eval"), "must be one of"),
    "power of tanh": (
        model("network", "activation", to={"name": "tanh", "power": 2}),
        "has 'power'",
    ),
    "absurd power": (
        model("network", "activation", to={"name": "repu", "power": 10**9}),
        "from 1 to 100",
    ),
    "unknown embedding": (model("network", "embedding", "name", to="__class__"), "must be one of"),
    "embedding of a text": (model("network", "embedding", to="axis_units"), "must be one of"),
    "embedding of 3 inputs": (model("network", "embedding", "num_inputs", to=3), "3 inputs"),
    "unknown family": (model("basis", "families", to=["hermite", "legendre"]), "must be one of"),
    "family of a number": (model("basis", "families", to=[1, "legendre"]), "must be one of"),
    "elements without breaks": (elements(), "has no 'breaks'"),
    "elements of legendre": (
        elements(name="legendre", breaks=[0.5]),
        "must be one of piecewise",
    ),
    "breaks of a number": (
        elements(breaks=0.5),
        "'breaks' of .* must be a list",
    ),
    "breaks of a text": (elements(breaks=["0.5"]), "a break must be a finite number"),
    "breaks that fall": (elements(breaks=[0.5, 0.1]), "breaks must increase from -1 to 1"),
    "breaks outside": (elements(breaks=[0.5, 1.5]), "breaks must increase from -1 to 1"),
    "too many breaks": (elements(breaks=[0.5] * 1_001), "1,001 entries, more than the 1,000"),
    "families of one axis": (model("basis", "families", to=["legendre"]), "1 families for 2"),
    "unknown scaling": (model("basis", "scaling", to="huge"), "must be one of"),
    "axis of the basis": (model("basis", "axes", to=["x", "z"]), "'z' is not an axis"),
    "basis without axes": (model("basis", "axes", to=[]), "shape"),
    "number of terms": (model("basis", "num_terms", to=4), r"'indices' must be .*\(4, 2\)"),
    "axis twice": (
        model("domain", "axes", to=[{"name": "x", "lower": 0, "upper": 1}] * 2),
        "names two",
    ),
    "axis called self": (model("domain", "axes", 0, "name", to="self"), "'self' cannot name"),
    "axis of a surrogate": (model("domain", "axes", 0, "name", to="\ud800"), "Unicode lacks"),
    "axis called lambda": (model("domain", "axes", 0, "name", to="lambda"), "word of Python"),
    "dimension": (
        model("domain", "axes", to=[{"name": "x", "lower": 0, "upper": 1}]),
        "'y' is not an axis",
    ),
    "no axes": (model("domain", "axes", to=[]), "at least one axis|2 inputs"),
    "box inside out": (model("domain", "axes", 0, "lower", to=9), "needs finite low < high"),
    "bound of a text": (model("domain", "axes", 0, "lower", to="0"), "must be a finite number"),
    "bound that no float has": (model("domain", "axes", 0, "lower", to=10**18), "finite number"),
    "lines and bells": (model("basis", "axes", to=["x", "z\n\a"]), r"'z\\n\\x07' is not an axis"),
    "periodic axis": (model("domain", "periodic", to=["z"]), "'z' is not an axis"),
    "time of a list": (model("domain", "time", to=["x"]), "'time' of the domain must be a text"),
    "layers that do not chain": (array("weights_1", np.zeros((2, 4))), r"\(2, 3\), but is"),
    "widths": (model("network", "widths", to=[4, 2]), r"\(4, 4\), but is .*\(3, 4\)"),
    "no widths": (model("network", "widths", to=[]), "0 entries, fewer than the 1 needed"),
    "width of a fraction": (model("network", "widths", to=[3.0, 2]), "must be an integer"),
    "dropout of 1": (model("network", "dropout", to=1), r"rate in \[0, 1\)"),
    "network gone": (model("network", to=None), r"'a' must be .*\(0, 1\), but is"),
    "bias announced": (model("bias", to=True), "'bias' is missing"),
    "bias of a number": (model("bias", to=1), "true or false"),
    "number of outputs": (model("num_outputs", to=2), "shape"),
    "no outputs": (model("num_outputs", to=0), "from 1 to"),
    "unknown precision": (model("precision", to="float16"), "must be one of float64"),
    "wrong precision": (model("precision", to="float32"), "must be float32"),
    "NaN in b": (array("b", np.full((3, 1), np.nan)), "cannot predict"),
    "mask of numbers": (array("keep_b", np.ones(3)), "must be bool"),
    "negative index": (array("indices", np.array([[0, 0], [0, 1], [-1, 0]])), "least value -1"),
    "absurd degree": (
        array("indices", np.array([[0, 0], [0, 1], [2**62, 0]])),
        "functions of one variable, more than the 1,000,000 allowed",
    ),
}


@pytest.mark.parametrize("damage, message", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_file_is_refused_in_one_sentence_and_little_memory(damage, message, path):
    load(path)
    damage(path)
    tracemalloc.start()
    try:
        with pytest.raises(FileError, match=message) as caught:
            load(path)
        assert tracemalloc.get_traced_memory()[1] < 4 * 2**20
    finally:
        tracemalloc.stop()
    assert repr(str(path)) in str(caught.value)
    assert "\n" not in str(caught.value)


def network(**values):
    """Damage that changes values of the network's description."""
    return description(lambda d: d["model"]["network"].update(values))


BROKEN_GATES = {
    "unknown kind": (network(kind="eval"), "kind of the network must be one of modified"),
    "kind of a plain network": (network(kind="mlp"), "must be one of modified"),
    "kind of a list": (network(kind=[]), "must be one of modified"),
    "kind gone": (model("network", "kind", to=None), "must be one of modified"),
    "kept gone": (
        description(lambda d: d["model"]["network"].pop("kept")),
        "the network has no 'kept'",
    ),
    "kept without kind": (
        description(lambda d: d["model"]["network"].pop("kind")),
        "the network has 'kept', but may only have",
    ),
    "kept of a number": (network(kept=3), "'kept' of the network must be a list"),
    "kept beyond the units": (network(kept=[0, 1, 4]), "integer from 0 to 3"),
    "kept of a fraction": (network(kept=[0, 1, 2.0]), "a kept unit must be an integer"),
    "kept twice": (network(kept=[0, 1, 1]), "3 units, and each must be kept once"),
    "kept too few": (network(kept=[0, 1]), "3 units, and each must be kept once"),
    "none kept apart": (network(kept=None), r"equal width, got \(4, 4, 3\)"),
    "unequal widths": (network(widths=[4, 5, 3]), r"equal width, got \(4, 5, 4\)"),
    "one layer": (network(widths=[3], kept=[0, 1, 2]), "two or more hidden layers"),
    "dropout": (network(dropout=0.5), "dropout of a modified network must be 0, but is 0.5"),
    "encoder of another shape": (array("encoder_weights_1", np.zeros((4, 5))), r"\(4, 6\), but"),
    "encoder of NaN": (array("encoder_biases_0", np.full(4, np.nan)), "cannot predict"),
    "encoder too many": (array("encoder_biases_2", np.zeros(4)), "no place for an array"),
    "frequencies gone": (
        description(lambda d: d["model"]["network"]["embedding"].pop("num_frequencies")),
        r"'weights_0' must be .*\(4, 3\), but is .*\(4, 6\)",
    ),
    "no frequencies": (model("network", "embedding", "num_frequencies", to=0), "from 1 to"),
    "more frequencies": (
        model("network", "embedding", "num_frequencies", to=4),
        r"'embedding_frequencies' must be float64 of shape \(4, 3\)",
    ),
}


@pytest.mark.parametrize("damage, message", BROKEN_GATES.values(), ids=BROKEN_GATES.keys())
def test_a_broken_file_of_a_modified_network_is_refused(damage, message, modified_path):
    assert load(modified_path).parameters.network.width == 3
    damage(modified_path)
    with pytest.raises(FileError, match=message) as caught:
        load(modified_path)
    assert "\n" not in str(caught.value)


def test_a_file_larger_than_allowed_is_refused(path):
    size = path.stat().st_size
    read(path, max_bytes=size)
    with pytest.raises(FileError, match=f"more than max_bytes = {size - 1:,}; raise max_bytes"):
        read(path, max_bytes=size - 1)


# ---- Mutations by the thousand ----


def mutate_values(generator, path):
    """Change the header and the description by a value or two, everything around consistent."""
    parsed, data = parse(path)
    own = parsed["__metadata__"]
    own["description"] = json.loads(own["description"])
    mutate_json(generator, parsed)
    own = parsed.get("__metadata__")
    if isinstance(own, dict) and isinstance(own.get("description"), dict):
        own["description"] = json.dumps(own["description"])
    assemble(path, parsed, data)


def mutate_array(generator, path):
    """Change what the header says of an array, or its numbers, with the right checksum."""
    parsed, data = parse(path)
    names = [name for name in parsed if name != "__metadata__" and 0 not in parsed[name]["shape"]]
    name = names[generator.integers(len(names))]
    mutation = MUTATIONS[generator.integers(len(MUTATIONS))]
    if generator.integers(3) == 0:
        begin, end = parsed[name]["data_offsets"]
        assemble(path, parsed, data[:begin] + mutation(generator, data[begin:end]) + data[end:])
        return
    marker = "the place of the entry"
    said = json.dumps(parsed[name]).encode()
    whole = json.dumps(parsed | {name: marker}).encode()
    mutated = whole.replace(json.dumps(marker).encode(), mutation(generator, said))
    with contextlib.suppress(ValueError):  # the checksum of what still is JSON
        assemble(path, json.loads(mutated), data)
        return
    assemble(path, mutated, data)


@pytest.mark.parametrize(
    "good_file, mutate, count, fewest",
    [
        ("path", mutate_bytes, 2000, 0),  # every byte counts: those that changed nothing load
        ("path", mutate_values, 1200, 5),
        ("path", mutate_array, 800, 5),
        ("modified_path", mutate_values, 1200, 5),
        ("shape_path", mutate_values, 100, -1),  # a number of a shape moves its bounding box
        ("shape_path", mutate_array, 40, 1),
        ("body_path", mutate_values, 60, -1),
        ("body_path", mutate_array, 30, 0),
    ],
)
def test_a_mutated_file_is_refused_or_is_the_model_it_says(
    good_file, mutate, count, fewest, request
):
    check_mutations(request.getfixturevalue(good_file), mutate, count, fewest)

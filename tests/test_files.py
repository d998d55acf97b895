"""`.pann` files: what is saved comes back to the bit, and what is hostile gets nowhere."""

import dataclasses
import io
import json
import os
import resource
import struct
import time
import tracemalloc
import warnings
import zipfile

import equinox as eqx
import jax
import numpy as np
import pytest
from oracles import random_parameters, replace

import pann
from pann.basis import Legendre, PiecewiseLegendre, make_basis
from pann.domain import Box
from pann.io import FileError, load, model_state, read, save, write
from pann.model.pann import PANN
from pann.network import AxisUnits, Circles, Periodic, RandomFourier, RePU, activation_named
from pann.network.activations import Tanh

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
    "random fourier": {"embedding": RandomFourier(3)},
    "periodic": {"embedding": Periodic(3, 2)},
    "circles": {"embedding": Circles((1,))},
    "circles and waves": {"embedding": Circles((1,), 3)},
    "modified": {"kind": "modified", "widths": (4, 4, 4)},
    "modified with waves": {
        "kind": "modified",
        "widths": (4, 4),
        "embedding": Circles((0,), 3, 2.0),
        "activation": "sin",
    },
    "rectified": {"embedding": Periodic(3, 2, rectified=True)},
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


def test_the_header_of_a_plain_network_is_as_it_was():
    header, _ = model_state(make_model(embedding=Circles((1,))))
    assert header["network"].keys() == {"widths", "activation", "dropout", "embedding"}
    assert header["network"]["embedding"].keys() == {"name", "num_inputs", "axes"}


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_a_fitted_model_comes_back(precision, tmp_path):
    points = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    values = np.sin(3 * points[:, 0]) * points[:, 1]
    recipe = (pann.Adam(5), pann.LeastSquares())
    model = pann.fit(points, values, degree=3, width=4, recipe=recipe, precision=precision).model
    save(tmp_path / "model.pann", model)
    np.testing.assert_array_equal(load(tmp_path / "model.pann")(points), model(points))


def test_notes_are_kept(tmp_path):
    notes = {"by": "Ada ✓", "error": 1e-3, "sizes": [1, 2, {"deep": None}], "done": True}
    save(tmp_path / "model.pann", make_model(), about=notes)
    assert read(tmp_path / "model.pann").header["about"] == notes


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
    kind, header, arrays = read(tmp_path / "a.pann")
    assert (kind, header, arrays.keys()) == ("numbers", {"one": 1}, ARRAYS.keys())
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype.newbyteorder("=")
        np.testing.assert_array_equal(arrays[name], array, strict=name != "big-endian")
    # NumPy alone can read the members, and equal contents make equal files.
    with zipfile.ZipFile(tmp_path / "a.pann") as archive, archive.open("arrays/uint8.npy") as npy:
        np.testing.assert_array_equal(np.load(npy, allow_pickle=False), ARRAYS["uint8"])
    write(tmp_path / "b.pann", "numbers", {"one": 1}, ARRAYS)
    assert (tmp_path / "a.pann").read_bytes() == (tmp_path / "b.pann").read_bytes()


# ---- Writing ----


@pytest.mark.parametrize("broken", ["numpy.lib.format.write_array", "os.fsync", "os.replace"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_leaves_the_old_file_and_nothing_else(broken, error, path, monkeypatch):
    before = path.read_bytes()

    def fail(*arguments, **options):
        raise error

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
        (make_model(activation=OtherTanh()), "activation OtherTanh.* not one of pann's: tanh"),
        (make_model(activation=RePU(101)), "power of RePU must be an integer from 1 to 100"),
        (make_model(options={"families": OtherLegendre()}), "family OtherLegendre.* legendre"),
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
        ("a.pann", {"x": float("nan")}, {}, "holds nan, which JSON does not have"),
        ("a.pann", {"x": {1: 2}}, {}, "key 1; keys must be text"),
        ("a.pann", {"x": np.zeros(2)}, {}, "type ndarray; .* put arrays among the arrays"),
        ("a.pann", {"x": 10**5000}, {}, "beyond 64 bits; write it as text"),
        ("a.pann", {"x": "1" * 2**24}, {}, "more than the 16 MiB"),
        ("a.pann", {}, {"x": np.array([None])}, "dtype object, but .* convert it first"),
        ("a.pann", {}, {"x": np.zeros(2, complex)}, "dtype complex128"),
        ("a.pann", {}, {"../x": np.zeros(2)}, "'../x' cannot name an array"),
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
    assert read(tmp_path / "a.pann").header == header
    with pytest.raises(FileError, match="nested deeper than 32 levels"):
        write(tmp_path / "a.pann", "nest", {"in": header}, {})


def test_a_long_header_that_would_compress_like_a_bomb_can_be_read(tmp_path):
    write(tmp_path / "a.pann", "long", {"zeros": "0" * 2**21}, {})
    assert read(tmp_path / "a.pann").header == {"zeros": "0" * 2**21}


# ---- Hostile files, each by its name ----


def unzip(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rezip(path, members, compression=zipfile.ZIP_STORED):
    """Write (name, bytes) pairs with all sizes and checksums right."""
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", compression) as archive:
        warnings.simplefilter("ignore")  # of names that come twice
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content, compression)


def member(name, change):
    """Damage that changes the bytes of one member; None removes it, and new ones are added."""

    def damage(path):
        members = unzip(path)
        members[name] = change(members.get(name))
        rezip(path, [(key, value) for key, value in members.items() if value is not None])

    return damage


def text(change):
    return member("pann.json", change)


def manifest(change):
    """Damage that changes the parsed pann.json in place."""

    def changed(content):
        parsed = json.loads(content)
        change(parsed)
        return json.dumps(parsed).encode()

    return text(changed)


def model(*keys, to):
    """Damage that changes one value of the model's header."""

    def change(parsed):
        inner = parsed["header"]["model"]
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] = to

    return manifest(change)


def pieces(name="piecewise_legendre", **breaks):
    """Damage that makes the first family one of pieces."""
    return model("basis", "families", 0, to={"name": name, **breaks})


def array(name, value):
    """Damage that replaces an array and what pann.json says of it."""

    def damage(path):
        kind, header, arrays = read(path)
        write(path, kind, header, {**arrays, name: value})

    return damage


def raw(change):
    return lambda path: path.write_bytes(change(path.read_bytes()))


def directory(offset, code, value):
    """Damage to the first entry of the zip directory, which is that of pann.json."""

    def change(content):
        start = content.index(b"PK\x01\x02") + offset
        packed = struct.pack(code, value)
        return content[:start] + packed + content[start + len(packed) :]

    return raw(change)


def also(name):
    return lambda path: rezip(path, [*unzip(path).items(), (name, b"")])


def npy(array, order="C"):
    out = io.BytesIO()
    np.lib.format.write_array(out, np.asarray(array, order=order), version=(1, 0))
    return out.getvalue()


def remove(path):
    path.unlink()


def make_folder(path):
    path.unlink()
    path.mkdir()


def make_pipe(path):
    path.unlink()
    os.mkfifo(path)


NESTED = b"[" * 100_000
A, WEIGHTS = "arrays/a.npy", "arrays/weights_0.npy"
HOSTILE = {
    "missing file": (remove, "no such file"),
    "folder": (make_folder, "is a folder"),
    "pipe": (make_pipe, "not a regular file"),
    "empty": (raw(lambda content: b""), "not a zip"),
    "not a zip": (raw(lambda content: b"x" * 5000), "not a zip"),
    "another zip": (lambda path: rezip(path, []), "no pann.json"),
    "truncated": (raw(lambda content: content[:-30]), "cut short"),
    "added to": (raw(lambda content: content + b"more"), "cut short or added to"),
    "no pann.json": (text(lambda content: None), "no pann.json"),
    "empty pann.json": (text(lambda content: b""), "not valid JSON"),
    "invalid JSON": (text(lambda content: content[:-1]), "not valid JSON"),
    "not UTF-8": (text(lambda content: b"\xff"), "not valid JSON"),
    "NaN in JSON": (text(lambda content: content.replace(b"0.1", b"NaN")), "holds NaN"),
    "infinity in JSON": (text(lambda content: content.replace(b"0.1", b"1e999")), "1e999"),
    "long integer": (text(lambda content: content.replace(b"0.1", b"9" * 5000)), "5,000 digits"),
    "deep JSON": (text(lambda content: NESTED), "nested deeper"),
    "rather deep JSON": (text(lambda content: NESTED[:50] + b"]" * 50), "nested deeper"),
    "a key twice": (text(lambda content: b'{"kind": "x",' + content[1:]), "'kind' twice"),
    "JSON of a list": (text(lambda content: b"[]"), "does not say that this is a pann"),
    "long pann.json": (text(lambda content: content + b" " * 2**24), "at most 16,777,216"),
    "another format": (manifest(lambda m: m.update(format="x")), "does not say"),
    "newer version": (manifest(lambda m: m.update(format_version=2)), "version 2.*reads version 1"),
    "true version": (manifest(lambda m: m.update(format_version=True)), "version True"),
    "header missing": (manifest(lambda m: m.pop("header")), "has no 'header'"),
    "extra key": (manifest(lambda m: m.update(code="x")), "has 'code', but may only have"),
    "header of a list": (manifest(lambda m: m.update(header=[])), "must be an object"),
    "kind of a number": (manifest(lambda m: m.update(kind=1)), "'kind' .* must be a text"),
    "another kind": (manifest(lambda m: m.update(kind="fit")), "'fit', not a model"),
    "arrays of a text": (manifest(lambda m: m.update(arrays="a")), "must be a list"),
    "array twice": (manifest(lambda m: m["arrays"].append(m["arrays"][0])), "twice"),
    "member missing": (member(A, lambda content: None), "a.npy, which is missing"),
    "extra member": (also("arrays/extra.npy"), "does not announce"),
    "absolute path": (also("/etc/passwd"), "'/etc/passwd', which is no name"),
    "path upward": (also("arrays/../../x.npy"), "which is no name"),
    "backslashes": (also("arrays\\x.npy"), "which is no name"),
    "zero byte": (raw(lambda c: c.replace(b"arrays/a.npy", b"arrays/a.np\0")), "no name"),
    "path in pann.json": (manifest(lambda m: m["arrays"][0].update(name="../x")), "cannot name"),
    "member twice": (also(A), "a.npy twice"),
    "encrypted": (directory(8, "<H", 1), "is encrypted"),
    "compressed otherwise": (
        lambda path: rezip(path, unzip(path).items(), zipfile.ZIP_BZIP2),
        "compressed in a way that pann does not read",
    ),
    "zip of the future": (directory(6, "<H", 99), "directory is damaged"),
    "wrong checksum": (directory(16, "<L", 1), "pann.json is damaged"),
    "wrong offset": (directory(42, "<L", 7), "is damaged"),
    "offset far away": (directory(42, "<L", 2**31), "is damaged"),
    "lying about the size": (directory(24, "<L", 2**31), "fold when unpacked"),
    "lying about both sizes": (directory(20, "<LL"[:2], 2**31), "members take"),
    "bomb": (
        lambda path: rezip(path, [("pann.json", bytes(2**24))], zipfile.ZIP_DEFLATED),
        "-fold when unpacked",
    ),
    "long directory": (
        raw(lambda content: content[:-10] + struct.pack("<L", 2**30) + content[-6:]),
        "announces a zip directory of 1,073,741,824 bytes",
    ),
    "huge array": (manifest(lambda m: m["arrays"][0].update(shape=[2**40])), "max_bytes"),
    "large array": (manifest(lambda m: m["arrays"][0].update(shape=[2**29])), "are there"),
    "empty huge array": (
        manifest(lambda m: m["arrays"][0].update(shape=[0, 2**40, 2**40])),
        "impossible shape",
    ),
    "negative length": (manifest(lambda m: m["arrays"][0].update(shape=[-1])), "from 0 to"),
    "length true": (manifest(lambda m: m["arrays"][0].update(shape=[True])), "from 0 to"),
    "many dimensions": (manifest(lambda m: m["arrays"][0].update(shape=[1] * 33)), "33 dim"),
    "dtype object": (manifest(lambda m: m["arrays"][0].update(dtype="object")), "must be one of"),
    "dtype of a list": (manifest(lambda m: m["arrays"][0].update(dtype=[])), "must be one of"),
    "npy of another shape": (member(A, lambda _: npy(np.zeros((1, 2)))), r"\(1, 2\), but"),
    "npy of another dtype": (member(A, lambda _: npy(np.zeros((2, 1), "<i8"))), "'<i8', but"),
    "npy of big-endians": (member(A, lambda _: npy(np.zeros((2, 1), ">f8"))), "'>f8', but"),
    "npy in Fortran order": (
        member(WEIGHTS, lambda _: npy(np.zeros((3, 4)), order="F")),
        "Fortran order",
    ),
    "npy too short": (member(A, lambda content: content[:-1]), "do not add up"),
    "npy too long": (member(A, lambda content: content + b"x"), "do not add up"),
    "npy without magic": (member(A, lambda content: b"x" + content[1:]), "does not begin as"),
    "npy with code in it": (
        member(A, lambda content: content.replace(b"'descr'", b"f(1,2,3")),
        "header that NumPy would not write",
    ),
    "bool of 2": (
        member("arrays/keep_a.npy", lambda content: content[:-1] + b"\2"),
        "neither 0 nor 1",
    ),
    "no model": (manifest(lambda m: m.update(header={})), "the header has no 'model'"),
    "about of a list": (manifest(lambda m: m["header"].update(about=[])), "'about' must be"),
    "model of a list": (manifest(lambda m: m["header"].update(model=[])), "must be an object"),
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
    "pieces without breaks": (pieces(), "has no 'breaks'"),
    "pieces of another family": (pieces(name="legendre", breaks=[0.5]), "must be one of piecewise"),
    "breaks of a number": (pieces(breaks=0.5), "the list of breaks must be a list"),
    "breaks of a text": (pieces(breaks=["0.5"]), "a break must be a finite number"),
    "breaks that fall": (pieces(breaks=[0.5, 0.1]), "breaks must increase from -1 to 1"),
    "breaks outside": (pieces(breaks=[0.5, 1.5]), "breaks must increase from -1 to 1"),
    "too many breaks": (pieces(breaks=[0.5] * 1_001), "1,001 breaks, more than the 1,000"),
    "families of one axis": (model("basis", "families", to=["legendre"]), "1 families for 2"),
    "unknown scaling": (model("basis", "scaling", to="huge"), "must be one of"),
    "axis of the basis": (model("basis", "axes", to=["x", "z"]), "'z' is not an axis"),
    "basis without axes": (model("basis", "axes", to=[]), "shape"),
    "number of terms": (model("basis", "num_terms", to=4), r"'b' must be .*\(4, 1\)"),
    "axis twice": (
        model("domain", "axes", to=[{"name": "x", "lower": 0, "upper": 1}] * 2),
        "names two",
    ),
    "axis called self": (model("domain", "axes", 0, "name", to="self"), "'self' cannot name"),
    "axis of a surrogate": (model("domain", "axes", 0, "name", to="\ud800"), "Unicode lacks"),
    "axis called lambda": (model("domain", "axes", 0, "name", to="lambda"), "word of Python"),
    "dimension": (
        model("domain", "axes", to=[{"name": "x", "lower": 0, "upper": 1}]),
        "has 2 inputs, but the domain 1 axes",
    ),
    "no axes": (model("domain", "axes", to=[]), "at least one axis|2 inputs"),
    "box inside out": (model("domain", "axes", 0, "lower", to=9), "needs finite low < high"),
    "bound of a text": (model("domain", "axes", 0, "lower", to="0"), "must be a finite number"),
    "bound that no float has": (model("domain", "axes", 0, "lower", to=10**18), "finite number"),
    "lines and bells": (model("basis", "axes", to=["x", "z\n\a"]), r"'z\\n\\x07' is not an axis"),
    "periodic axis": (model("domain", "periodic", to=["z"]), "'z' is not an axis"),
    "time of a list": (model("domain", "time", to=["x"]), "time axis must be a text"),
    "layers that do not chain": (array("weights_1", np.zeros((2, 4))), r"\(2, 3\), but is"),
    "widths": (model("network", "widths", to=[4, 2]), r"\(4, 4\), but is .*\(3, 4\)"),
    "no widths": (model("network", "widths", to=[]), "no layers"),
    "width of a fraction": (model("network", "widths", to=[3.0, 2]), "must be an integer"),
    "dropout of 1": (model("network", "dropout", to=1), r"rate in \[0, 1\)"),
    "network gone": (model("network", to=None), "no place for an array"),
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
    """Damage that changes values of the network's header."""
    return manifest(lambda m: m["header"]["model"]["network"].update(values))


BROKEN_GATES = {
    "unknown kind": (network(kind="eval"), "kind of the network must be one of modified"),
    "kind of a plain network": (network(kind="mlp"), "must be one of modified"),
    "kind of a list": (network(kind=[]), "must be one of modified"),
    "kind gone": (model("network", "kind", to=None), "must be one of modified"),
    "kept gone": (
        manifest(lambda m: m["header"]["model"]["network"].pop("kept")),
        "the network has no 'kept'",
    ),
    "kept without kind": (
        manifest(lambda m: m["header"]["model"]["network"].pop("kind")),
        "the network has 'kept', but may only have",
    ),
    "kept of a number": (network(kept=3), "list of kept units must be a list"),
    "kept beyond the units": (network(kept=[0, 1, 4]), "integer from 0 to 3"),
    "kept of a fraction": (network(kept=[0, 1, 2.0]), "integer from 0 to 3"),
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
        manifest(lambda m: m["header"]["model"]["network"]["embedding"].pop("num_frequencies")),
        "no place for an array 'embedding_frequencies'",
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
    size = sum(len(content) for content in unzip(path).values())
    read(path, max_bytes=size)
    with pytest.raises(FileError, match=f"more than max_bytes = {size - 1:,}; raise max_bytes"):
        read(path, max_bytes=size - 1)


def test_a_pickle_in_an_array_is_refused_and_not_run(path):
    folder = path.parent / "made by the payload"

    class Payload:
        def __reduce__(self):
            return os.mkdir, (str(folder),)

    content = npy(np.array(Payload(), object))
    length = len(content) - 10 - int.from_bytes(content[8:10], "little")
    members = unzip(path) | {"arrays/a.npy": content}
    parsed = json.loads(members["pann.json"])
    entry = next(entry for entry in parsed["arrays"] if entry["name"] == "a")
    # All sizes agree: it is the type alone that gives the payload away.
    entry.update(dtype="uint8", shape=[length])
    rezip(path, (members | {"pann.json": json.dumps(parsed)}).items())
    with pytest.raises(FileError, match=r"dtype '\|O', but pann.json says uint8"):
        load(path)
    assert not folder.exists()
    with zipfile.ZipFile(path) as archive, archive.open("arrays/a.npy") as stream:
        np.load(stream, allow_pickle=True)  # the payload is a real one
    assert folder.exists()


# ---- Mutations by the thousand ----


def chunk(generator, content):
    start, stop = np.sort(generator.integers(0, len(content) + 1, 2))
    return int(start), int(min(stop, start + generator.integers(1, 64)))


def flip_bits(generator, content):
    changed = bytearray(content)
    for position in generator.integers(0, len(content), generator.integers(1, 5)):
        changed[position] ^= 1 << int(generator.integers(8))
    return bytes(changed)


def overwrite(generator, content):
    start, stop = chunk(generator, content)
    return content[:start] + generator.bytes(stop - start) + content[stop:]


def insert(generator, content):
    start, _ = chunk(generator, content)
    return content[:start] + generator.bytes(int(generator.integers(1, 9))) + content[start:]


def cut(generator, content):
    start, stop = chunk(generator, content)
    return content[:start] + content[stop:]


def truncate(generator, content):
    return content[: int(generator.integers(len(content)))]


def swap(generator, content):
    first, second = sorted(generator.integers(0, len(content), 2))
    middle = (first + second) // 2
    return content[:first] + content[middle:second] + content[first:middle] + content[second:]


MUTATIONS = (flip_bits, overwrite, insert, cut, truncate, swap)
ODD = (None, True, 0, 1, -1, 2, 3, 7.5, -0.0, 1e308, 2**31, 2**63, "", "x", "y", "\ud800", "\0")
ODD += ("float32", "int64", "sin", "repu", "fourier", "orthonormal", "x" * 2000, [], {}, [[]], [1])


def places(value):
    """Every (container, key) in a tree of JSON."""
    keys = value.keys() if isinstance(value, dict) else range(len(value))
    for key in list(keys):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from places(value[key])


def mutate_file(generator, path):
    mutation = MUTATIONS[generator.integers(len(MUTATIONS))]
    path.write_bytes(mutation(generator, path.read_bytes()))


def mutate_values(generator, path):
    """Change pann.json by a value or two, everything around it consistent."""
    members = unzip(path)
    parsed = json.loads(members["pann.json"])
    for _ in range(generator.integers(1, 3)):
        found = list(places(parsed))
        if not found:
            break
        container, key = found[generator.integers(len(found))]
        choice = generator.random()
        if choice < 0.1:
            del container[key]
        elif choice < 0.2:
            other, other_key = found[generator.integers(len(found))]
            container[key] = json.loads(json.dumps(other[other_key]))
        elif choice < 0.4 and isinstance(container[key], int | float):
            container[key] += int(generator.choice([-1, 1]))
        else:
            container[key] = ODD[generator.integers(len(ODD))]
    members["pann.json"] = json.dumps(parsed).encode()
    rezip(path, members.items())


def mutate_array(generator, path):
    """Change the header of an array, or its numbers, with the right checksum around it."""
    members = unzip(path)
    names = [name for name in members if name != "pann.json"]
    name = names[generator.integers(len(names))]
    mutation = MUTATIONS[generator.integers(len(MUTATIONS))]
    start, stop = [(0, 80), (0, 128), (128, None)][generator.integers(3)]
    content = members[name]
    rest = b"" if stop is None else content[stop:]
    members[name] = content[:start] + mutation(generator, content[start:stop]) + rest
    rezip(path, members.items())


def state_bytes(header, arrays):
    return header, {name: (a.dtype, a.shape, a.tobytes()) for name, a in arrays.items()}


@pytest.mark.parametrize(
    "good_file, mutate, count",
    [
        ("path", mutate_file, 2000),
        ("path", mutate_values, 1200),
        ("path", mutate_array, 800),
        ("modified_path", mutate_values, 1200),
    ],
)
def test_a_mutated_file_is_refused_or_is_the_model_it_says(good_file, mutate, count, request):
    path = request.getfixturevalue(good_file)
    generator = np.random.default_rng(2024)
    good = path.read_bytes()
    original = state_bytes(*model_state(load(path)))
    num_loaded, slowest, memory = 0, 0.0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(count):
        path.write_bytes(good)
        mutate(generator, path)
        start = time.perf_counter()
        try:
            loaded = load(path)
        except FileError:
            loaded = None
        slowest = max(slowest, time.perf_counter() - start)
        if loaded is not None:
            num_loaded += 1
            contents = read(path)
            state = state_bytes(*model_state(loaded))
            assert state == state_bytes(contents.header["model"], contents.arrays)
            # Checksums catch what a mutation of the whole file does to its contents.
            assert mutate is not mutate_file or state == original
    assert slowest < 5.0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 2**16  # KiB
    assert 5 < num_loaded < 0.5 * count  # mutations are neither all fatal nor all harmless

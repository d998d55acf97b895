"""Files of format version 1, zips: they are still read, and what is hostile gets nowhere."""

import io
import json
import os
import struct
import tracemalloc
import warnings
import zipfile

import equinox as eqx
import numpy as np
import pytest
from mutations import MUTATIONS, check_mutations, mutate_bytes, mutate_json
from test_files import make_model

from pann.io import FileError, load, model_state, read
from pann.network import AxisUnits

MODEL = make_model(widths=(3, 2), degree=1, embedding=AxisUnits(4))


@pytest.fixture
def path(tmp_path):
    """A good file, as version 0.1 of pann wrote it."""
    own, arrays = model_state(MODEL)
    content = {
        "format": "pann",
        "format_version": 1,
        "pann_version": "0.1.0",
        "kind": "model",
        "header": {"model": own, "about": {}},
        "arrays": [
            {"name": name, "dtype": array.dtype.name, "shape": list(array.shape)}
            for name, array in arrays.items()
        ],
    }
    members = {f"arrays/{name}.npy": npy(array) for name, array in arrays.items()}
    file = tmp_path / "model.pann"
    rezip(file, [("pann.json", json.dumps(content, indent=1).encode()), *members.items()])
    return file


def test_a_zip_is_the_model_it_was_made_of(path):
    assert eqx.tree_equal(load(path).parameters, MODEL.parameters, typematch=True)
    kind, _, arrays, *versions = read(path)
    assert (kind, versions) == ("model", ["0.1.0", 1])
    assert not any(array.flags.writeable for array in arrays.values())


def test_a_deflated_text_is_read(path):
    """As pann 0.1 wrote it where it was not long."""
    (name, text), *arrays = unzip(path).items()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED)
        for member, content in arrays:
            archive.writestr(zipfile.ZipInfo(member), content)
    assert eqx.tree_equal(load(path).parameters, MODEL.parameters, typematch=True)


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


A, WEIGHTS = "arrays/a.npy", "arrays/weights_0.npy"
NESTED = b"[" * 100_000
OTHER_BEGIN = r"does not begin as .* float64, shape \(2, 1\)"
HOSTILE = {
    "empty zip": (lambda path: rezip(path, []), "not a .pann file"),
    "another zip": (lambda path: rezip(path, [("x", b"")]), "no pann.json"),
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
    "another version": (manifest(lambda m: m.update(format_version=2)), "but its is 2"),
    "true version": (
        manifest(lambda m: m.update(format_version=True)),
        "but its is True",
    ),
    "header missing": (manifest(lambda m: m.pop("header")), "has no 'header'"),
    "extra key": (manifest(lambda m: m.update(code="x")), "has 'code', but may only have"),
    "header of a list": (manifest(lambda m: m.update(header=[])), "must be an object"),
    "kind of a number": (manifest(lambda m: m.update(kind=1)), "'kind' .* must be a text"),
    "another kind": (manifest(lambda m: m.update(kind="fit")), "'fit', not a model"),
    "arrays of a text": (manifest(lambda m: m.update(arrays="a")), "must be a list"),
    "array twice": (manifest(lambda m: m["arrays"].append(m["arrays"][0])), "is missing"),
    "member missing": (member(A, lambda content: None), "array 'a', which is missing"),
    "extra member": (also("arrays/extra.npy"), "does not announce"),
    "absolute path": (also("/etc/passwd"), "'/etc/passwd', which its pann.json does not"),
    "path upward": (also("arrays/../../x.npy"), "does not announce"),
    "backslashes": (also("arrays\\x.npy"), "does not announce"),
    "zero byte": (raw(lambda c: c.replace(b"arrays/a.npy", b"arrays/a.np\0")), "missing"),
    "path in pann.json": (manifest(lambda m: m["arrays"][0].update(name="../x")), "cannot name"),
    "member twice": (also(A), "a.npy' twice"),
    "encrypted": (directory(8, "<H", 1), "is encrypted"),
    "compressed otherwise": (
        lambda path: rezip(path, unzip(path).items(), zipfile.ZIP_BZIP2),
        "is compressed, which pann did not do; store it",
    ),
    "zip of the future": (directory(6, "<H", 99), "directory is damaged"),
    "wrong checksum": (directory(16, "<L", 1), "pann.json is damaged"),
    "wrong offset": (directory(42, "<L", 7), "is damaged"),
    "offset far away": (directory(42, "<L", 2**31), "is damaged"),
    "lying about the size": (directory(24, "<L", 2**31), "would unpack to"),
    "lying about both sizes": (directory(20, "<LL"[:2], 2**31), "members take"),
    "bomb": (
        lambda path: rezip(path, [("pann.json", bytes(2**24))], zipfile.ZIP_DEFLATED),
        "would unpack to 16,777,216 bytes, more than the 1,048,576",
    ),
    "long directory": (
        raw(lambda content: content[:-10] + struct.pack("<L", 2**30) + content[-6:]),
        "announces a zip directory of 1,073,741,824 bytes",
    ),
    "huge array": (manifest(lambda m: m["arrays"][0].update(shape=[2**40])), "do not add up"),
    "large array": (manifest(lambda m: m["arrays"][0].update(shape=[2**29])), "do not add up"),
    "empty huge array": (
        manifest(lambda m: m["arrays"][0].update(shape=[0, 2**40, 2**40])),
        "impossible shape",
    ),
    "negative length": (manifest(lambda m: m["arrays"][0].update(shape=[-1])), "from 0 to"),
    "length true": (manifest(lambda m: m["arrays"][0].update(shape=[True])), "from 0 to"),
    "many dimensions": (manifest(lambda m: m["arrays"][0].update(shape=[1] * 33)), "33 dim"),
    "dtype object": (manifest(lambda m: m["arrays"][0].update(dtype="object")), "must be one of"),
    "dtype of a list": (manifest(lambda m: m["arrays"][0].update(dtype=[])), "must be one of"),
    "npy of another shape": (
        member(A, lambda _: npy(np.zeros((1, 2)))),
        OTHER_BEGIN,
    ),
    "npy of another dtype": (
        member(A, lambda _: npy(np.zeros((2, 1), "<i8"))),
        OTHER_BEGIN,
    ),
    "npy of big-endians": (
        member(A, lambda _: npy(np.zeros((2, 1), ">f8"))),
        OTHER_BEGIN,
    ),
    "npy in Fortran order": (
        member(WEIGHTS, lambda _: npy(np.zeros((3, 4)), order="F")),
        "in C order does",
    ),
    "npy too short": (member(A, lambda content: content[:-1]), "do not add up"),
    "npy too long": (member(A, lambda content: content + b"x"), "do not add up"),
    "npy without magic": (member(A, lambda content: b"x" + content[1:]), "does not begin as"),
    "npy with code in it": (
        member(A, lambda content: content.replace(b"'descr'", b"f(1,2,3")),
        "does not begin as",
    ),
    "bool of 2": (
        member("arrays/keep_a.npy", lambda content: content[:-1] + b"\2"),
        "neither 0 nor 1",
    ),
    "pieces of a zip": (raw(lambda content: content[:4]), "cut short"),
    "no model": (manifest(lambda m: m.update(header={})), "has no 'model'"),
    "layers that do not chain": (
        manifest(lambda m: m["header"]["model"]["network"].update(widths=[4, 2])),
        r"\(4, 4\), but is .*\(3, 4\)",
    ),
}


@pytest.mark.parametrize("damage, message", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_zip_is_refused_in_one_sentence_and_little_memory(damage, message, path):
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


def test_a_file_larger_than_allowed_is_refused(path):
    size = path.stat().st_size
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
    with pytest.raises(FileError, match="does not begin as NumPy's array of uint8"):
        load(path)
    assert not folder.exists()
    with zipfile.ZipFile(path) as archive, archive.open("arrays/a.npy") as stream:
        np.load(stream, allow_pickle=True)  # the payload is a real one
    assert folder.exists()


# ---- Mutations by the thousand ----


def mutate_values(generator, path):
    """Change pann.json by a value or two, everything around it consistent."""
    members = unzip(path)
    parsed = json.loads(members["pann.json"])
    mutate_json(generator, parsed)
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


@pytest.mark.parametrize(
    "mutate, count", [(mutate_bytes, 2000), (mutate_values, 1200), (mutate_array, 800)]
)
def test_a_mutated_zip_is_refused_or_is_the_model_it_says(mutate, count, path):
    check_mutations(path, mutate, count)

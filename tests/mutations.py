"""Damage by the thousand: random changes of bytes and of values in JSON, and what must follow."""

import json
import resource
import time

import numpy as np
import safetensors.numpy

from pann.io import FileError, load, model_state, read


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


def mutate_bytes(generator, path):
    """Change the file anywhere."""
    mutation = MUTATIONS[generator.integers(len(MUTATIONS))]
    path.write_bytes(mutation(generator, path.read_bytes()))


def mutate_json(generator, parsed):
    """Change a tree of JSON by a value or two."""
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


def state_bytes(description, arrays):
    return description, {name: (a.dtype, a.shape, a.tobytes()) for name, a in arrays.items()}


def check_mutations(path, mutate, count, fewest=5):
    """A mutated file is refused, or it is the model it says; quickly, and in little memory."""
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
            assert state == state_bytes(contents.description["model"], contents.arrays)
            # The checksum catches what a mutation of the whole file does to its contents.
            assert mutate is not mutate_bytes or state == original
            if contents.format_version > 1:
                check_reference(path, contents.arrays)
    assert slowest < 5.0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 2**16  # KiB
    assert fewest < num_loaded < 0.5 * count  # mutations are neither all fatal nor all harmless


def check_reference(path, arrays):
    """The reference library opens the file and finds the same arrays."""
    found = safetensors.numpy.load_file(path)
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array, strict=True)

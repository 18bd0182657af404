# SPDX-License-Identifier: Apache-2.0
"""Every prototype, struct and constant of the public headers is in the binding, and is the same.

The headers are read with a small parser of the C that they use; it fails on what it cannot read.
"""

import ctypes as C
import pathlib
import re

import pytest

from holdfast import __version__, _abi

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADERS = sorted((ROOT / "include" / "holdfast").glob("*.h"))
SCALARS = {
    "void": None,
    "int": C.c_int,
    "double": C.c_double,
    "size_t": C.c_size_t,
    "int64_t": C.c_int64,
    "int32_t": C.c_int32,
    "uint64_t": C.c_uint64,
    "uint32_t": C.c_uint32,
    "char": C.c_char,
}

if not HEADERS:
    pytest.skip(
        "the C headers are not here: tests of an installed package", allow_module_level=True
    )


def text():
    """The headers that are installed, without comments and preprocessor lines."""
    parts = [h.read_text() for h in HEADERS if not h.name.startswith("dev")]
    source = re.sub(r"/\*.*?\*/", " ", "\n".join(parts), flags=re.S)
    source = re.sub(r"^\s*#.*(\\\n.*)*$", " ", source, flags=re.M)
    source = re.sub(r"static inline [^;{]*\{.*?\n\}", " ", source, flags=re.S)
    return re.sub(r"\s+", " ", source)


TEXT = text()


def enums():
    found = {}
    for body, name in re.findall(r"typedef enum \w+ \{(.*?)\} (\w+);", TEXT):
        values, last = {}, -1
        for item in filter(None, (part.strip() for part in body.split(","))):
            word, _, number = (part.strip() for part in item.partition("="))
            last = int(number, 0) if number else last + 1
            values[word] = last
        found[name] = values
    return found


def function_types():
    pattern = r"typedef (\w+) \(\*(\w+)\)\((.*?)\);"
    return {name: (result, arguments) for result, name, arguments in re.findall(pattern, TEXT)}


def structs():
    return {
        name: body for body, name in re.findall(r"typedef struct \w+ \{(.*?)\} (hf_\w+);", TEXT)
    }


OPAQUE = set(re.findall(r"typedef struct (\w+) \1;", TEXT))
ENUMS, FUNCTION_TYPES, STRUCTS = enums(), function_types(), structs()


def size_and_kind(declaration):
    """(bytes, is it a pointer, C type) of "const char *name" or "double x"."""
    words = declaration.replace("const ", "").strip()
    stars = words.count("*")
    kind = words.replace("*", " ").split()[0]
    if stars or kind in FUNCTION_TYPES:
        return C.sizeof(C.c_void_p), True, kind
    if kind in ENUMS:
        return C.sizeof(C.c_int), False, kind
    if kind in STRUCTS:
        return C.sizeof(_abi.STRUCTS[kind]), False, kind
    return C.sizeof(SCALARS[kind]), False, kind


def members(body):
    """(name, bytes, pointer, type) of each member of a struct."""
    body = re.sub(r"(\w+) \(\*(\w+)\)\(.*?\)", r"void *\2", body)
    for part in filter(None, (p.strip() for p in body.split(";"))):
        base, *more = part.split(",")
        kind = base.replace("*", " ").rsplit(" ", 1)[0]
        for i, one in enumerate([base, *more]):
            declaration = one if i == 0 else f"{kind} {one}"
            match = re.match(r"(.*?)(\w+)(?:\[(\d+)\])?$", declaration.strip())
            before, name, count = match.groups()
            size, pointer, type_name = size_and_kind(before + "x")
            yield name, size * int(count or 1), pointer, type_name


def is_pointer(kind):
    return kind in (C.c_void_p, C.c_char_p) or (
        isinstance(kind, type) and issubclass(kind, (C._Pointer, C._CFuncPtr))
    )


def test_parser_sees_all():
    assert len(ENUMS) >= 12
    assert len(STRUCTS) >= 12
    assert TEXT.count("HF_API") >= 45


def test_constants():
    assert _abi.ENUMS == ENUMS


def test_structs_are_all_there():
    assert set(_abi.STRUCTS) == set(STRUCTS)


@pytest.mark.parametrize("name", sorted(STRUCTS))
def test_struct(name):
    ours = _abi.STRUCTS[name]
    expected = list(members(STRUCTS[name]))
    assert [field for field, _ in ours._fields_] == [field for field, *_ in expected]
    for (field, kind), (_, size, pointer, type_name) in zip(ours._fields_, expected):
        assert C.sizeof(kind) == size, f"{name}.{field}"
        assert is_pointer(kind) == pointer, f"{name}.{field}"
        if not pointer and type_name in SCALARS and not hasattr(kind, "_length_"):
            assert kind is SCALARS[type_name], f"{name}.{field}"
        elif type_name in STRUCTS and not pointer:
            assert getattr(kind, "_type_", kind) is _abi.STRUCTS[type_name], f"{name}.{field}"


def prototypes():
    for result, name, arguments in re.findall(r"HF_API (.*?)(hf_\w+)\((.*?)\);", TEXT):
        yield name, result.strip(), arguments


def split(arguments):
    return [] if arguments.strip() == "void" else [a.strip() for a in arguments.split(",")]


def same_type(ours, declaration):
    """Is a type of ctypes that of a declaration? Addresses of structs may be void pointers."""
    size, pointer, kind = size_and_kind(declaration)
    if pointer:
        if kind in FUNCTION_TYPES:
            return ours is _abi.CALLBACKS[kind]
        return is_pointer(ours)
    return not is_pointer(ours) and C.sizeof(ours) == size


@pytest.mark.parametrize(("name", "result", "arguments"), list(prototypes()))
def test_prototype(name, result, arguments):
    ours_result, ours = _abi.PROTOTYPES[name]
    expected = split(arguments)
    assert len(ours) == len(expected)
    for kind, declaration in zip(ours, expected):
        assert same_type(kind, declaration), declaration
    if result == "void":
        assert ours_result is None
    else:
        assert same_type(ours_result, result + " x")


def test_prototypes_are_all_there():
    assert set(_abi.PROTOTYPES) == {name for name, *_ in prototypes()}


@pytest.mark.parametrize("name", sorted(FUNCTION_TYPES))
def test_function_type(name):
    result, arguments = FUNCTION_TYPES[name]
    ours = _abi.CALLBACKS[name]
    assert len(ours._argtypes_) == len(split(arguments))
    for kind, declaration in zip(ours._argtypes_, split(arguments)):
        assert same_type(kind, declaration), declaration
    assert (ours._restype_ is None) == (result == "void")


def test_read_of_source():
    declared = re.search(r"hf_status \(\*read\)\((.*?)\);", TEXT).group(1)
    assert all(same_type(a, b) for a, b in zip(_abi.Read._argtypes_, split(declared)))
    assert len(_abi.Read._argtypes_) == len(split(declared))


def test_versions_agree():
    project = re.search(
        r"project\(holdfast VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text()
    )
    assert project.group(1) == __version__


def test_functions_are_in_the_library():
    from holdfast._library import lib

    for name in _abi.PROTOTYPES:
        assert getattr(lib, name)

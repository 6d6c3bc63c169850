"""Who may import whom, read from the imports themselves."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OURS = ("workflow", "producers", "transforms", "learners")
ALLOWED = {
    "workflow": {"workflow"},
    "producers": {"workflow", "producers"},
    "transforms": {"workflow", "transforms"},
    "learners": {"workflow", "learners"},
}
ENGINES = {  # third-party engine -> the files that may know it
    "ray": ("workflow/cluster.py",),
    "adios2": ("workflow/streams/adios",),
    "zarr": ("workflow/archive.py", "workflow/checkpoint.py"),
    "torch": ("learners/",),
}


def imported(file: Path) -> set[str]:
    """Top-level names of all modules that a file imports, wherever in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.split(".")[0])
    return names


def files(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


@pytest.mark.parametrize("package", OURS)
def test_a_package_imports_only_what_lies_below_it(package):
    assert files(package)
    for file in files(package):
        breach = (imported(file) & set(OURS)) - ALLOWED[package]
        assert not breach, f"{file.relative_to(ROOT)} imports {sorted(breach)}"


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_stays_in_its_room(engine):
    for package in OURS:
        for file in files(package):
            if engine in imported(file):
                place = str(file.relative_to(ROOT))
                assert place.startswith(ENGINES[engine]), f"{place} imports {engine}"


@pytest.mark.parametrize("package", [*OURS, "benchmarks"])
def test_a_file_is_one_room_of_at_most_400_lines(package):
    for file in files(package):
        lines = len(file.read_text().splitlines())
        assert lines <= 400, f"{file.relative_to(ROOT)} has {lines} lines"


def test_the_package_list_is_whole():
    import tomllib

    listed = set(
        tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    )
    found = {
        str(file.parent.relative_to(ROOT)).replace("/", ".")
        for package in [*OURS, "benchmarks"]
        for file in (ROOT / package).rglob("__init__.py")
    }
    assert listed == found

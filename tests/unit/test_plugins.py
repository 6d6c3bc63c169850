"""Plug-ins by dotted path, checked against their dataclass."""

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from workflow import plugins
from workflow.errors import ConfigError
from workflow.protocols import Transform


class Mode(enum.Enum):
    FAST = "fast"
    SLOW = "slow"


@dataclass(frozen=True, kw_only=True)
class Inner:
    width: int


@dataclass(frozen=True, kw_only=True)
class Outer:
    rate: float
    sizes: tuple[int, ...] = (1, 2)
    mode: Mode = Mode.FAST
    inner: Inner | None = None
    table: Mapping[str, list[int]] = field(default_factory=dict)

    def __post_init__(self):
        if self.rate < 0:
            raise ConfigError(f"rate: wanted 0 or more, got {self.rate}.")


def build(**values):
    return plugins.build({"use": f"{__name__}:Outer", **values}, "section")


def test_a_plug_in_is_built_from_plain_values():
    built = build(rate="1e-3", sizes=[3, 4], mode="slow", table={"a": [1]})
    assert built == Outer(rate=1e-3, sizes=(3, 4), mode=Mode.SLOW, table={"a": [1]})


def test_a_plug_in_may_hold_another():
    built = build(rate=1, inner={"use": f"{__name__}:Inner", "width": 3})
    assert built.inner == Inner(width=3)


def test_the_way_back_gives_plain_values_of_which_the_same_is_built():
    first = build(
        rate=0.1 + 0.2, mode="slow", table={"a": [1]},
        inner={"use": f"{__name__}:Inner", "width": 3},
    )  # fmt: skip
    told = json.loads(json.dumps(plugins.spec(first)))
    assert told["mode"] == "slow"
    assert told["inner"] == {"use": f"{__name__}:Inner", "width": 3}
    assert plugins.build(told, "over there") == first


def test_what_is_not_plain_has_no_way_back():
    with pytest.raises(ConfigError, match=r"Inner\.width: wanted text, numbers.*got complex"):
        plugins.spec(Inner(width=1j))


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"rat": 1}, r"section\.rat: Outer has no such field\. Did you mean 'rate'\?"),
        ({}, "section: Outer needs rate"),
        ({"rate": "fast"}, r"section\.rate: .*valid number.*got 'fast'"),
        ({"rate": 1, "sizes": [1, "x"]}, r"section\.sizes\.1"),
        ({"rate": 1, "mode": "medium"}, r"section\.mode: .*'fast' or 'slow'"),
        ({"rate": -1}, "rate: wanted 0 or more, got -1"),
        ({"rate": 1, "inner": {"use": f"{__name__}:Inner"}}, r"section\.inner: Inner needs width"),
    ],
)
def test_a_wrong_field_is_named_with_what_was_wanted(values, says):
    with pytest.raises(ConfigError, match=says):
        build(**values)


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("workflow.nothing:X", "there is no module 'workflow.nothing'"),
        ("nowhere.at.all:X", "there is no module 'nowhere.at.all'"),
        ("workflow.config:Confg", "has no 'Confg'. Did you mean 'Config'"),
        ("workflow.config", "wanted 'package.module:Name'"),
        (3, "wanted 'package.module:Name'"),
    ],
)
def test_a_path_that_leads_nowhere_is_refused(path, says):
    with pytest.raises(ConfigError, match=says):
        plugins.build({"use": path}, "section")


def test_a_plug_in_whose_own_import_fails_says_why(tmp_path, monkeypatch):
    (tmp_path / "needs_more.py").write_text("import a_module_nobody_has\n")
    (tmp_path / "breaks.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match="needs the missing module 'a_module_nobody_has'"):
        plugins.load("needs_more:X", "here")
    with pytest.raises(ConfigError, match="importing 'breaks' failed: ZeroDivisionError"):
        plugins.load("breaks:X", "here")


def test_an_object_that_does_not_fit_its_seam_is_refused():
    with pytest.raises(ConfigError, match=r"Inner is no Transform: it has no .*apply"):
        plugins.fits(Inner(width=1), Transform, "transforms.chain.0")

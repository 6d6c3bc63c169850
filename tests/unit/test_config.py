"""A config is validated whole, and every problem is named with its line before anything starts."""

import json
from pathlib import Path

import pytest
import yaml

from workflow.config import Config, read_config
from workflow.errors import ConfigError
from workflow.plan import plan
from workflow.template import TEMPLATE

CONFIGS = Path(__file__).parents[2] / "configs"


@pytest.fixture
def write(tmp_path):
    def _write(text):
        path = tmp_path / "run.yaml"
        path.write_text(text)
        return path

    return _write


def changed(old, new):
    assert old in TEMPLATE
    return TEMPLATE.replace(old, new)


def test_the_template_is_a_valid_config(write):
    config = read_config(write(TEMPLATE))
    assert config.learners.count == 2
    assert config.source.stream.parameters["QueueLimit"] == "2"


def test_an_override_wins_over_the_file(write):
    config = read_config(
        write(TEMPLATE), ["learners.count=4", "reducer.rule=median", "source.producer.ranks=2"]
    )
    assert (config.learners.count, config.reducer.rule) == (4, "median")
    assert config.source.producer["ranks"] == 2


def test_an_override_reaches_into_lists(write):
    config = read_config(write(TEMPLATE), ["transforms.chain.0.particles=64"])
    assert config.transforms.chain[0]["particles"] == 64


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("learners.count", "wanted key=value"),
        ("transforms.chain.7.particles=1", "index below 2"),
        ("seed.x=1", "has no keys"),
        ("a b=1", "wanted key=value"),
        ("seed={", "not valid YAML"),
    ],
)
def test_an_override_that_makes_no_sense_is_refused(write, override, says):
    with pytest.raises(ConfigError, match=says):
        read_config(write(TEMPLATE), [override])


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("seed: 1 ", "sead: 1 ", "sead: unknown key. Did you mean 'seed'?"),
        ("seed: 1 ", "seed: one ", "valid integer"),
        ("  quorum: 0.5", "  quorm: 0.5", "Did you mean 'quorum'?"),
        ("  count: 2\n  model", "  count: 0\n  model", "learners.count"),
        ("engine: sst", "engine: rdma", "source.stream.engine"),
        ("  silence_s: 10 ", "  silence_s: -1 ", "greater than 0"),
        ("on_lost: stop", "on_lost: maybe", "'stop' or 'restart'"),
    ],
)
def test_a_problem_is_named_with_its_line_and_key(write, old, new, says):
    text = changed(old, new)
    pairs = zip(TEMPLATE.splitlines(), text.splitlines(), strict=True)
    line = next(i for i, (was, now) in enumerate(pairs, start=1) if was != now)
    with pytest.raises(ConfigError) as caught:
        read_config(write(text))
    message = str(caught.value)
    assert says in message
    assert f"line {line}: " in message


def test_a_missing_key_and_a_quorum_that_cannot_be_reached_are_named(write):
    with pytest.raises(ConfigError, match="seed: is needed"):
        read_config(write(changed("seed: 1 ", "# ")))
    with pytest.raises(ConfigError, match=r"more than learners\.count"):
        read_config(write(changed("quorum: 0.5", "quorum: 3")))


def test_all_problems_are_named_at_once(write):
    text = changed("seed: 1 ", "sead: 1 ").replace("every: 6", "every: 1")
    with pytest.raises(ConfigError) as caught:
        read_config(write(text))
    message = str(caught.value)
    assert "sead" in message
    assert "held_out.every" in message
    assert "seed: is needed" in message


def test_a_key_given_twice_is_refused_with_both_lines(write):
    with pytest.raises(ConfigError, match=r"line 5: 'seed' is given twice \(first on line 4\)"):
        read_config(write(changed("seed: 1 ", "seed: 2\nseed: 1 ")))


def test_source_wants_exactly_one_of_producer_and_contact(write):
    both = TEMPLATE.replace("  # contact", "  contact")
    with pytest.raises(ConfigError, match="exactly one of 'producer' and 'contact'"):
        read_config(write(both))


def test_a_file_that_is_missing_or_no_mapping_is_refused(write, tmp_path):
    with pytest.raises(ConfigError, match="cannot read the config"):
        read_config(tmp_path / "nothing.yaml")
    with pytest.raises(ConfigError, match="wanted a mapping"):
        read_config(write("- 1\n- 2\n"))
    with pytest.raises(ConfigError, match="not valid YAML"):
        read_config(write("a: [1\n"))


def test_yaml_cannot_make_python_objects(write):
    with pytest.raises(ConfigError, match="not valid YAML"):
        read_config(write("name: !!python/object/apply:os.getcwd []\n"))


def test_a_liar_must_be_one_of_the_learners(write):
    with pytest.raises(ConfigError, match="names learner 2, there are 2"):
        read_config(write(TEMPLATE), ["learners.attacks={2: {use: 'x.y:Z'}}"])


def test_a_name_cannot_leave_the_run_folder(write):
    with pytest.raises(ConfigError, match="name"):
        read_config(write(changed("name: my-run", "name: ../../etc")))


def test_a_dumped_config_reads_back_equal(write):
    config = read_config(write(TEMPLATE))
    again = read_config(write(yaml.safe_dump(config.model_dump(mode="json"))))
    assert again == config


def test_the_schema_is_json_and_knows_every_section():
    schema = json.loads(json.dumps(Config.model_json_schema()))
    assert set(schema["properties"]) >= {"source", "transforms", "replay", "learners", "reducer"}
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_config_that_comes_with_billow_can_be_planned(path, monkeypatch):
    monkeypatch.chdir(CONFIGS.parent)  # paths of recordings are relative
    assert plan(read_config(path)).boxes >= 1

"""A configuration is complete, checked at the border and survives a round trip."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evolve.config import Config, Method, dump_config, load_config
from evolve.errors import ConfigError
from vpo.advantages import ESTIMATORS


@given(
    seed=st.integers(0, 2**40),
    prompts=st.integers(1, 99),
    alpha=st.floats(1e-6, 1e6),
    wall=st.none() | st.floats(0.1, 1e9),
    name=st.text(max_size=20),
)
def test_a_written_configuration_reads_back_equal(
    tmp_path_factory, seed, prompts, alpha, wall, name
):
    config = Config.model_validate(
        {
            "task": name,
            "seed": seed,
            "budget": {"wall_s": wall},
            "search": {"prompts": prompts, "alpha": alpha},
        }
    )
    path = tmp_path_factory.mktemp("config") / "config.toml"
    path.write_text(dump_config(config), encoding="utf-8")
    assert load_config(path) == config


def test_settings_win_over_the_file_and_keep_their_type(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text('task = "a"\n[search]\nprompts = 4\nalpha = 2.0\n')
    config = load_config(path, ["search.prompts=9", "policy.name=hf:x/y"], seed=3)
    assert (config.search.prompts, config.search.alpha) == (9, 2.0)
    assert (config.policy.name, config.seed) == ("hf:x/y", 3)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("task = ", ["not valid TOML"]),
        ('task = "a"\ntusk = 1\n', ["'tusk'", "allowed there: task, seed"]),
        ('task = "a"\n[search]\npromts = 1\n', ["'search.promts'", "prompts"]),
        (
            'task = "a"\n[search]\nprompts = 0\n',
            ["search.prompts", "0", "greater than or equal to 1"],
        ),
        ('task = "a"\n[search]\nalpha = nan\n', ["search.alpha", "nan"]),
        ('task = "a"\n[search]\ncells = "hex"\n', ["search.cells", "'hex'", "'grid' or 'cvt'"]),
        (
            'task = "a"\n[training]\nmethod = "pvo"\n',
            ["training.method", "'pvo'", "'vpo', 'vpo_iid', 'grpo'"],
        ),
        ("seed = 1\n", ["'task'", "missing"]),
    ],
)
def test_a_wrong_file_is_refused_in_one_line_that_names_it(tmp_path, text, named):
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    assert all(part in message for part in named), message


def test_a_missing_file_and_a_malformed_setting_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="no such configuration file"):
        load_config(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="search.prompts=8"):
        load_config(None, ["prompts"], task="a")
    with pytest.raises(ConfigError, match="'task' is a value, not a section"):
        load_config(None, ["task=a", "task.b=1"])


def test_every_estimator_of_vpo_can_be_configured_and_no_other():
    assert get_args(Method) == tuple(ESTIMATORS)

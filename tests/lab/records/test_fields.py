"""A field of a record is stated once: its flag, its check and its readers follow."""

import argparse
import json
import re
from dataclasses import asdict, dataclass
from typing import Literal

import pytest

from padenet.cli.options import add_record
from padenet.lab.records.config import Config
from padenet.lab.records.fields import ABOVE_0, Name, fields_of, option


@dataclass(frozen=True)
class Sample:
    kind: Literal["one", "two"] = option("one", "which")
    nesterov: bool = option(False, "look ahead")
    rate: float | None = option(None, "of change", ABOVE_0.or_none("for none"))
    folder: str = option("x", "", Name("._"))

    def __post_init__(self):
        for name, field in fields_of(Sample).items():
            field.check(getattr(self, name))


@pytest.mark.parametrize(
    "field, value, said",
    [
        ("kind", "three", "unknown kind 'three'"),
        ("nesterov", 1, "nesterov=1 must be true or false."),
        ("rate", -1.0, "rate=-1.0 must be a finite number above 0, or None for none."),
        ("rate", True, "rate=True must be a number."),
        ("folder", "", "folder='' must not be empty"),
        ("folder", "a/b", "letters, digits and . _ only"),
        ("folder", 3, "folder=3 must be a text."),
    ],
)
def test_a_field_refuses(field, value, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        Sample(**{field: value})


def test_a_field_reads_a_command_line():
    read = {name: field.reader() for name, field in fields_of(Sample).items()}
    assert (read["nesterov"]("True"), read["rate"]("none"), read["rate"]("1e-3")) == (
        True,
        None,
        1e-3,
    )
    assert [read[n].__name__ for n in read] == ["str", "bool", "float", "str"]
    with pytest.raises(ValueError, match="neither true nor false"):
        read["nesterov"]("perhaps")


def test_every_field_of_a_run_is_a_flag_with_help():
    parser = argparse.ArgumentParser()
    add_record(parser)
    text = " ".join(parser.format_help().split())
    for name, field in fields_of(Config).items():
        flag = f"--{name.replace('_', '-')} {name.upper()}"
        assert (flag in text) == bool(field.help)
        assert " ".join(field.help.split()) in text
    old = [name for name, field in fields_of(Config).items() if not field.help]
    assert old == ["coefficient_floor"]  # which records have and no new run may


def test_defaults_survive_the_command_line_and_json():
    config = Config()
    assert Config.from_dict(json.loads(config.to_json())) == config
    for name, value in asdict(config).items():
        field = fields_of(Config)[name]
        assert field.default == value and field.reader()(str(value)) == value

"""Commands of padenet, run in this process."""

from padenet.cli import main


def run(capsys, *args):
    """What a command prints, with exit code 0."""
    assert main([str(a) for a in args]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def fails(capsys, *args):
    """The one line a command leaves on stderr, with exit code 2."""
    capsys.readouterr()
    assert main([str(a) for a in args]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("padenet: ") and err.count("\n") == 1
    return err

"""Labels of the runs of one lottery: that of the whole net, and those of its pruned stages."""


def stage_label(label: str, fraction: float) -> str:
    """The label of the run without ``fraction`` percent of the filters."""
    return "+".join(part for part in (label, f"p{fraction:g}") if part)


def whole_label(label: str, fraction: float) -> str:
    """The label of the whole net's run, from that of a stage."""
    return label.removesuffix(f"p{fraction:g}").removesuffix("+")

"""What a net costs to keep and to use: bytes on disk, time on the CPU."""

import io
import random
import statistics
import time
from collections.abc import Mapping

import torch
from torch import Tensor, nn

ROUNDS, LEAST = 5, 0.02  # samples of each net, and seconds of a sample


def measure_costs(whole: nn.Module, pruned: nn.Module, images: Tensor) -> dict[str, float]:
    """Bytes of the saved state dicts and milliseconds of an inference, measured in turns."""
    times = time_in_turns({"whole": whole, "pruned": pruned}, images)
    return {
        "bytes": count_bytes(pruned),
        "whole_bytes": count_bytes(whole),
        "milliseconds": times["pruned"],
        "whole_milliseconds": times["whole"],
        "images": len(images),
        "threads": torch.get_num_threads(),
    }


def count_bytes(net: nn.Module) -> int:
    """Of the file that ``torch.save(net.state_dict(), file)`` writes."""
    file = io.BytesIO()
    torch.save(net.state_dict(), file)
    return file.tell()


def time_in_turns(nets: Mapping[str, nn.Module], images: Tensor) -> dict[str, float]:
    """The median time of an inference of each net on the CPU, in ms."""
    modes = {name: net.training for name, net in nets.items()}

    def sample(net: nn.Module, count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            net(images)
        return (time.perf_counter() - start) / count

    samples: dict[str, list[float]] = {name: [] for name in nets}
    names, shuffle = list(nets), random.Random(0).shuffle
    with torch.inference_mode():
        counts = {}
        for name, net in nets.items():
            net.eval()
            sample(net, 1)  # the first call is slower
            counts[name] = max(1, round(LEAST / sample(net, 1)))
        for _ in range(ROUNDS):
            shuffle(names)
            for name in names:
                samples[name].append(sample(nets[name], counts[name]))
    for name, net in nets.items():
        net.train(modes[name])
    return {name: round(1e3 * statistics.median(s), 4) for name, s in samples.items()}

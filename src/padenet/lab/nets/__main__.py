"""Print the sizes of the nets as a table: python -m padenet.lab.nets"""

from padenet.lab.nets import NETS, build, count_multiplications, count_parameters
from padenet.torch import find_activations

ACTIVATIONS = ("relu", "pau", "apl", "maxout")


def main() -> None:
    print("| net | input | units | multiplications |", *(f" {a} |" for a in ACTIVATIONS), sep="")
    print("|---|---|---:|---:|" + "---:|" * len(ACTIVATIONS))
    for name, net in NETS.items():
        cells = [name, f"{net.channels} × {net.size} × {net.size}"]
        cells.append(str(len(find_activations(build(name, "relu")))))
        cells.append(f"{count_multiplications(name):,}")
        for activation in ACTIVATIONS:
            try:
                cells.append(f"{count_parameters(name, activation):,}")
            except ValueError:  # densenet121 has no Maxout
                cells.append("–")
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()

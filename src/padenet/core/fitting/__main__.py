"""Print the errors of the best fits of known functions: python -m padenet.core.fitting"""

from padenet.core.fitting import fit
from padenet.core.starting.targets import TARGETS


def main() -> None:
    print("| target | least squares: RMS | its max | minimax: max |")
    print("|---|---:|---:|---:|")
    for name, f in TARGETS.items():
        square, most = fit(f, aim="near"), fit(f, norm="max")
        figures = (square.rms, square.max_error, most.max_error)
        cells = " | ".join(f"{v:.3g}" if v > 1e-13 else "0" for v in figures)
        print(f"| {name} | {cells} |", flush=True)


if __name__ == "__main__":
    main()

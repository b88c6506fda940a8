"""What large jobs take: tables and pictures from figures that were measured on one machine, and simulations.

python benchmarks/scale_model.py --out benchmarks/results/scale.md --pictures docs/pictures

Measured figures are constants below, each with the results that it is from. Prices and failure rates are assumptions:
change them with --cpu-price, --gpu-price and --failures-per-month.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from scale.bulk import simulate_shards
from scale.serving import Curve, simulate_clients, simulate_servers, workers_needed
from scale.training import Failures, Network, efficiency, simulate_run

HOUR, DAY = 3600.0, 86400.0
# results/serve.md: base, beam 4, native int8, two EPYC cores; 43, 65 and 106 requests/s with 1, 8 and 64 clients
CPU_SERVER = Curve([(1, 1 / 43), (8, 8 / 65), (64, 64 / 106)])
SERVED = {1: (43, 0.0216), 8: (65, 0.1208), 64: (106, 0.6118)}  # requests/s and median seconds, the same table
# results/translate_gpu.md: base, beam 4, H200, ids to ids, 1, 64 and 512 sentences: 8.32, 11.0 and 30.62 ms;
# and for each request 0.86 ms of HTTP and Python: results/serve.md, the demo's model, 1,158 requests/s with 64 clients.
HTTP_SECONDS = 1 / 1158
GPU_SERVER = Curve([(n, s / 1e3 + n * HTTP_SECONDS) for n, s in ((1, 8.32), (64, 11.0), (512, 30.62))])


@dataclass(frozen=True)
class Translator:
    """A worker that translates files: lines per second, what it is, and where the figure is from."""

    name: str
    lines: float
    gpu: bool
    source: str


TRANSLATORS = (
    Translator("2 cores (AMX), base int8, greedy", 64 / 0.181 * 0.959, False, "translate_cpu.md x translate_bulk.md"),
    Translator("2 cores (AMX), base int8, beam 4", 64 / 0.486 * 0.967, False, "translate_cpu.md x translate_bulk.md"),
    Translator("2 cores (AVX-512), base int8, greedy", 64 / 0.258 * 0.959, False, "the same"),
    Translator("2 cores (AMX), small int8, greedy", 64 / 0.0567 * 0.959, False, "the same"),
    Translator("H200, base, greedy", 12423, True, "translate_bulk.md"),
    Translator("H200, base, beam 4", 8153, True, "translate_bulk.md"),
)


@dataclass(frozen=True)
class Model:
    """A model in training on one H200: seconds and target tokens of a step, weights (results/train_gpu.md)."""

    name: str
    step: float
    tokens_per_second: float
    weights: int

    @property
    def gradient_bytes(self) -> float:
        """Gradients of matrices are bfloat16; the rest is small."""
        return 2.0 * self.weights


BASE = Model("base", 0.0291, 1_126_400, 63_045_632)
BIG = Model("big", 0.0796, 411_200, 214_171_648)
PAIRS, TARGET_TOKENS = 10e9, 28  # of a pair: the mean length of results/train_gpu.md
NETWORKS = {
    "10 Gbit/s": Network(4e11, 1.25e9),
    "100 Gbit/s": Network(4e11, 12.5e9),
    "400 Gbit/s": Network(4e11, 50e9),
    "8 x 400 Gbit/s": Network(4e11, 400e9),
}
# results/prepare.md: 64.4 s for 1,655,544 pairs on two cores without learning; cleaning reads at most 150,000 pairs/s.
PREPARED_PER_SECOND, CLEANED_PER_SECOND = 1_655_544 / 64.4, 150_000
DETECTION = 32.0  # the slowest lost node of docs/explanation/reliability.md
START = 60.0  # until a resumed run trains: an assumption, from the first step in docs/howto/training-gpu.md


@dataclass(frozen=True)
class Assumptions:
    """Prices in US dollars per hour and failures of a machine per month: assumptions of November 2026, not facts."""

    cpu_price: float = 0.10  # a virtual machine with 2 cores
    gpu_price: float = 4.00  # one H200 with its share of the host
    failures_per_month: float = 1.0

    @property
    def between_failures(self) -> float:
        """Mean seconds between failures of one machine."""
        return 30 * DAY / self.failures_per_month


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *([str(cell) for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def calibration() -> str:
    """The server's simulation beside what was measured."""
    rows = []
    for clients, (rate, median) in SERVED.items():
        found = simulate_clients(clients, CPU_SERVER, seconds=60, max_batch=64)
        rows.append([clients, rate, f"{found.rate:.0f}", f"{median * 1e3:.0f}", f"{found.percentile(0.5) * 1e3:.0f}"])
    head = ["clients", "measured requests/s", "simulated", "measured median ms", "simulated"]
    return table(head, rows)


def serving(assumed: Assumptions, rate: float, seconds: float) -> tuple[str, dict[str, list[tuple[int, float]]]]:
    """Workers for `rate` requests per second by the limit of latency, and the curves of the picture."""
    rows, curves = [], {}
    for name, curve, batch, price in (
        ("2 cores, base int8, beam 4", CPU_SERVER, 64, assumed.cpu_price),
        ("a process with an H200, base, beam 4", GPU_SERVER, 512, assumed.gpu_price),
    ):
        points = []
        for limit in (0.1, 0.25, 0.5, 1.0):
            try:
                count, found = workers_needed(rate, curve, limit, max_batch=batch, seconds=seconds)
            except ValueError:
                rows.append([name, f"{limit * 1e3:.0f} ms", "not possible", "", "", ""])
                continue
            points.append((count, found.percentile(0.99)))
            middle, high = (f"{found.percentile(share) * 1e3:.0f}" for share in (0.5, 0.99))
            cost = count * price
            rows.append(
                [
                    name,
                    f"{limit * 1e3:.0f} ms",
                    f"{count:,}",
                    f"{middle} / {high}",
                    f"{found.load:.0%}",
                    f"${cost:,.0f}",
                ]
            )
        few, many = points[-1][0], points[0][0]
        counts = sorted({round(few * (many / few) ** (step / 7)) for step in range(9)})
        curves[name] = [
            (
                n,
                simulate_servers(n, rate, curve, seconds=seconds, max_batch=batch, warm_up=seconds / 3).percentile(
                    0.99
                ),
            )
            for n in counts
        ]
    head = ["worker", "p99 at most", "workers", "p50 / p99 ms", "busy", "$ per hour"]
    return table(head, rows), curves


def failing_servers(rate: float, seconds: float) -> str:
    """What dead workers cost: failures are far more frequent than in reality, so that a short run has some."""
    count, _ = workers_needed(rate, CPU_SERVER, 0.5, max_batch=64, seconds=seconds)
    rows = []
    for every in (0, 600, 60):  # seconds between failures of one worker
        found = simulate_servers(
            count, rate, CPU_SERVER, seconds=seconds, max_batch=64, warm_up=seconds / 3,
            failures_per_second=1 / every if every else 0.0, restart=5.0,
        )  # fmt: skip
        share = found.failed / max(1, found.failed + len(found.latencies))
        rows.append([f"{every:,} s" if every else "never", f"{share:.3%}", f"{found.percentile(0.99) * 1e3:.0f}"])
    head = [f"a worker of {count} fails every", "requests that fail", "p99 ms of the others"]
    return table(head, rows)


def bulk(assumed: Assumptions, lines: float) -> str:
    """A billion lines by kind of worker."""
    rows = []
    for worker in TRANSLATORS:
        hours = lines / worker.lines / HOUR
        price = assumed.gpu_price if worker.gpu else assumed.cpu_price
        many = 8 if worker.gpu else 200
        shards = max(many * 20, 1000)
        found = simulate_shards(
            shards, many, lines / shards / worker.lines, spread=0.2,
            mean_time_between_failures=assumed.between_failures, restart=60.0,
        )  # fmt: skip
        rows.append(
            [
                worker.name,
                f"{worker.lines:,.0f}",
                f"{hours:,.0f}",
                f"${hours * price:,.0f}",
                f"{many} workers: {found.seconds / HOUR:.1f} h",
            ]
        )
    return table(["worker", "lines/s", "hours of one", "cost", "with stragglers and failures"], rows)


def shard_sizes(assumed: Assumptions, lines: float) -> str:
    """How many shards to make for 200 workers."""
    worker, many, rows = TRANSLATORS[0], 200, []
    for shards in (200, 400, 1000, 4000, 40_000):
        found = simulate_shards(
            shards, many, lines / shards / worker.lines, spread=0.2,
            mean_time_between_failures=assumed.between_failures / 10, restart=60.0,
        )  # fmt: skip
        above, redone = found.seconds / found.ideal - 1, found.redone_seconds / HOUR
        row = [f"{shards:,}", f"{lines / shards:,.0f}", f"{found.seconds / HOUR:.1f}", f"{above:.0%}"]
        rows.append([*row, found.failures, f"{redone:.1f}"])
    return table(["shards", "lines each", "hours", "above the ideal", "failures", "hours redone"], rows)


def training(assumed: Assumptions) -> str:
    """An epoch of ten billion pairs by the number of GPUs."""
    rows = []
    for model in (BASE, BIG):
        for gpus in (1, 8, 64, 256):
            nodes, per_node = max(1, gpus // 8), min(gpus, 8)
            share = efficiency(model.step, model.gradient_bytes, nodes, per_node, NETWORKS["400 Gbit/s"])
            work = PAIRS * TARGET_TOKENS / (model.tokens_per_second * gpus * share)
            failures = Failures(assumed.between_failures / nodes, 3 * 4 * model.weights / 1e9 + 1, DETECTION + START)
            interval = failures.best_interval()
            took = sum(simulate_run(work, interval, failures, seed) for seed in range(20)) / 20
            cost = took / HOUR * gpus * assumed.gpu_price
            rows.append(
                [
                    f"{model.name}, {gpus} H200",
                    f"{share:.0%}",
                    f"{took / HOUR:,.1f}",
                    f"{took / work - 1:.2%}",
                    f"{interval / 60:.0f} min",
                    f"${cost:,.0f}",
                ]
            )
    return table(["", "efficiency", "hours", "failures and checkpoints", "save every", "cost"], rows)


def networks() -> str:
    """Efficiency of eight nodes of eight GPUs by network and model."""
    rows = [
        [
            name,
            *(
                f"{efficiency(m.step, m.gradient_bytes, nodes, 8, network):.0%}"
                for m in (BASE, BIG)
                for nodes in (2, 8, 32)
            ),
        ]
        for name, network in NETWORKS.items()
    ]
    return table(["between nodes", *(f"{m.name}, {n} nodes" for m in (BASE, BIG) for n in (2, 8, 32))], rows)


def preparation(assumed: Assumptions) -> str:
    """What preparing ten billion pairs takes."""
    hours = PAIRS / PREPARED_PER_SECOND / HOUR
    reading = PAIRS / CLEANED_PER_SECOND / HOUR
    rows = [
        ["one machine with 2 cores", f"{hours:,.0f}", f"${hours * assumed.cpu_price:,.0f}"],
        ["one machine with many cores: one process reads and finds duplicates", f"{reading:,.0f}", ""],
        [
            "100 machines with 2 cores, each with a share of the files",
            f"{hours / 100:,.1f}",
            f"${hours * assumed.cpu_price:,.0f}",
        ],
    ]
    return table(["ten billion pairs", "hours", "cost"], rows)


def draw(curves: dict[str, list[tuple[int, float]]], folder: Path) -> None:
    """The pictures: latency by the number of workers, efficiency by the number of GPUs."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import FormatStrFormatter, MaxNLocator

    figure, axes = pyplot.subplots(1, len(curves), figsize=(9, 3.6), layout="constrained")
    for axis, (name, points) in zip(axes, curves.items(), strict=True):
        axis.semilogy([n for n, _ in points], [seconds * 1e3 for _, seconds in points], "o-", color="#08519c")
        axis.set(title=name, xlabel="workers", ylabel="p99, ms")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        for side in (axis.yaxis.set_major_formatter, axis.yaxis.set_minor_formatter):
            side(FormatStrFormatter("%d"))
        axis.grid(alpha=0.3, which="both")
    figure.savefig(folder / "scale-serving.png", dpi=110)
    pyplot.close(figure)
    figure, axis = pyplot.subplots(figsize=(7, 3.8), layout="constrained")
    counts = [1, 2, 4, 8, 16, 32, 64]
    for (name, network), color in zip(NETWORKS.items(), ("#d94801", "#fdae6b", "#6baed6", "#08519c"), strict=True):
        for model, style in ((BASE, "o-"), (BIG, "s--")):
            shares = [100 * efficiency(model.step, model.gradient_bytes, nodes, 8, network) for nodes in counts]
            axis.semilogx(counts, shares, style, color=color, label=f"{model.name}, {name}", base=2, markersize=4)
    axis.set(xlabel="nodes of 8 GPUs", ylabel="% of the speed of one GPU, each", ylim=(0, 102))
    axis.set_xticks(counts, [str(count) for count in counts])
    axis.legend(fontsize=7, ncols=2, loc=(0.3, 0.25))
    axis.grid(alpha=0.3)
    figure.savefig(folder / "scale-training.png", dpi=110)
    pyplot.close(figure)


def main() -> None:
    """Compute everything and write it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, help="write the tables there, as Markdown")
    parser.add_argument("--pictures", type=Path, help="write the pictures into this folder")
    parser.add_argument("--cpu-price", type=float, default=Assumptions.cpu_price)
    parser.add_argument("--gpu-price", type=float, default=Assumptions.gpu_price)
    parser.add_argument("--failures-per-month", type=float, default=Assumptions.failures_per_month)
    parser.add_argument("--requests", type=float, default=10_000, help="requests per second")
    parser.add_argument("--lines", type=float, default=1e9, help="lines to translate")
    parser.add_argument("--seconds", type=float, default=12.0, help="simulated seconds of serving")
    chosen = parser.parse_args()
    assumed = Assumptions(chosen.cpu_price, chosen.gpu_price, chosen.failures_per_month)
    tables, curves = serving(assumed, chosen.requests, chosen.seconds)
    parts = {
        "The simulated server beside the measured one": calibration(),
        f"{chosen.requests:,.0f} requests per second": tables,
        "Dead workers": failing_servers(chosen.requests / 10, 10 * chosen.seconds),
        f"{chosen.lines:,.0f} lines": bulk(assumed, chosen.lines),
        "Shards, with ten failures per machine and month": shard_sizes(assumed, chosen.lines),
        "An epoch of ten billion pairs": training(assumed),
        "Efficiency by network": networks(),
        "Preparing": preparation(assumed),
    }
    text = "\n".join(f"## {title}\n\n{part}" for title, part in parts.items())
    if chosen.out is None:
        print(text)
    else:
        begin = chosen.out.read_text(encoding="utf-8").partition("## ")[0] if chosen.out.exists() else "# Scale\n\n"
        chosen.out.write_text(begin + text, encoding="utf-8")
    if chosen.pictures is not None:
        draw(curves, chosen.pictures)


if __name__ == "__main__":
    main()

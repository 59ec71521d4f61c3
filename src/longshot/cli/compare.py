"""``longshot compare``: is B better than A on the same tasks, or is it chance?"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from longshot.cli.common import json_option, print_table, seed_option
from longshot.core.errors import UserError

if TYPE_CHECKING:
    from longshot.evaluation.compare import Compared

_METRICS = ("accuracy", "balanced_accuracy", "normalized_accuracy", "top5", "loss")


@click.command()
@click.argument("run_a", type=click.Path(path_type=Path))
@click.argument("run_b", type=click.Path(path_type=Path), required=False)
@click.option(
    "--method",
    "methods",
    multiple=True,
    metavar="NAME",
    help="Only this method, by name or by its whole call; repeat for several.",
)
@click.option(
    "--against",
    multiple=True,
    metavar="NAME",
    help="The method in B, where it is another than that of --method; with one run, the method to compare with.",
)
@click.option("--metric", type=click.Choice(_METRICS), default="accuracy", show_default=True)
@click.option("--testbed", metavar="NAME", help="Only this testbed, by name or by its hash.")
@click.option(
    "--fail-if-worse",
    type=click.FloatRange(min=0),
    metavar="POINTS",
    help="Exit with 1 if B is worse than A by more than POINTS (percentage points; nats for the loss) and chance does "
    "not explain it (corrected p < 0.05).",
)
@seed_option
@json_option
def command(
    run_a: Path,
    run_b: Path | None,
    methods: tuple[str, ...],
    against: tuple[str, ...],
    metric: str,
    testbed: str | None,
    fail_if_worse: float | None,
    seed: int,
    as_json: bool,
) -> None:
    """Compare RUN_B with RUN_A task by task; with one run, all its series with one another.

    \b
    Example:
      longshot sample toybox --tasks 600 -o easy.parquet
      longshot evaluate easy.parquet --backbone pixels --method protonet -o runs/old
      longshot evaluate easy.parquet --backbone pixels --method "protonet(distance='cosine')" -o runs/new
      longshot compare runs/old runs/new
      longshot compare runs/old runs/new --fail-if-worse 1.0 || echo "do not ship"
      longshot compare runs/old runs/new --method protonet --against "protonet(distance='cosine')"

    The interval is Student's t of the paired difference (95 %), p is the two-sided sign-flip test, and 'p corr.' is
    corrected for the number of rows by Holm's method; 'better', 'worse' and 'tied' follow from it. The gate asks for
    both, a loss that matters and one that is no chance, so that a pipeline is not stopped by noise.
    """
    from longshot.evaluation.compare import compare_runs, compare_within
    from longshot.evaluation.results import Results

    if against and run_b is None:
        run_b = run_a
    if run_b is None and fail_if_worse is not None:
        raise UserError(
            "--fail-if-worse compares 2 runs and 1 was given; add RUN_B, or --method and --against."
        )
    options: dict[str, Any] = {"metric": metric, "methods": methods, "testbed": testbed, "seed": seed}
    alone: list[str] = []
    if run_b is None:
        found = compare_within(Results(run_a), **options)
    else:
        found, alone = compare_runs(Results(run_a), Results(run_b), against=against, **options)
    scale, unit = (1.0, "nats") if metric == "loss" else (100.0, "points")
    failed = [] if fail_if_worse is None else [c for c in found if c.worse_by(fail_if_worse / scale)]
    if as_json:
        click.echo(
            json.dumps(
                {
                    "metric": metric,
                    "a": str(run_a),
                    "b": str(run_b or run_a),
                    "comparisons": [_record(c, c in failed) for c in found],
                    "unmatched": alone,
                    "fail_if_worse": fail_if_worse,
                    "failed": bool(failed),
                },
                indent=2,
                ensure_ascii=False,
            )
        )
    else:
        print_table([_row(c, scale) for c in found], title=_title(run_a, run_b, metric, scale))
        if alone:
            click.echo(f"\nWithout a partner, not compared: {'; '.join(alone)}.")
        if fail_if_worse is not None and not failed:
            click.echo(f"\nPassed: nothing is worse by more than {fail_if_worse:g} {unit} beyond chance.")
            for c in found:
                if -c.gain * scale > fail_if_worse:
                    click.echo(_undecided(c, scale, unit))
    if failed:
        worst = min(failed, key=lambda c: c.gain)
        click.echo(
            f"failed: {worst.b} in {run_b} is worse than {worst.a} in {run_a} by {-worst.gain * scale:.2f} {unit} on "
            f"'{worst.testbed}' (p {_p(worst.p_holm)}), more than the {fail_if_worse:g} allowed"
            + (f"; {len(failed) - 1} more fail" if len(failed) > 1 else "")
            + ".",
            err=True,
        )
        sys.exit(1)


def _title(run_a: Path, run_b: Path | None, metric: str, scale: float) -> str:
    unit = "in %" if scale == 100 else "in nats, lower is better"
    return f"A = {run_a}, B = {run_b}; {metric} {unit}" if run_b else f"{run_a}; {metric} {unit}"


def _row(c: Compared, scale: float) -> dict[str, Any]:
    """One line of the table; what A and B share is said once."""
    r = c.result
    difference = f"{scale * r.difference.mean:+.2f}"
    if r.difference.low is not None and r.difference.high is not None:
        difference += f" [{scale * r.difference.low:+.2f}, {scale * r.difference.high:+.2f}]"
    shared = c.a == c.b
    return {
        "testbed": c.testbed,
        "A": str(c.a),
        "B": "the same" if shared else str(c.b),
        "tasks": r.n,
        "mean A": f"{scale * r.mean_a:.2f}",
        "mean B": f"{scale * r.mean_b:.2f}",
        "B − A": difference,
        "B wins / ties / loses %": f"{100 * r.wins:.0f} / {100 * r.ties:.0f} / {100 * r.losses:.0f}",
        "p": _p(r.p),
        "p corr.": _p(c.p_holm),
        "B is": c.verdict,
    }


def _p(value: float) -> str:
    return "< 0.0001" if value < 1e-4 else f"{value:.4f}"


def _record(c: Compared, failed: bool) -> dict[str, Any]:
    r = c.result
    return {
        "testbed": c.testbed,
        "testbed_hash": c.testbed_hash,
        **{
            side: {"backbone": s.backbone, "method": s.method, "seed": s.seed, "mean": mean}
            for side, s, mean in (("a", c.a, r.mean_a), ("b", c.b, r.mean_b))
        },
        "tasks": r.n,
        "difference": r.difference.mean,
        "difference_ci95": None if r.difference.low is None else [r.difference.low, r.difference.high],
        "wins": r.wins,
        "ties": r.ties,
        "losses": r.losses,
        "p": r.p,
        "p_exact": r.exact,
        "p_t": None if r.n < 2 else r.p_t,
        "p_holm": c.p_holm,
        "verdict": c.verdict,
        "failed": failed,
    }


def _undecided(c: Compared, scale: float, unit: str) -> str:
    """A loss beyond the bound that chance may explain: say so, and how many tasks would tell."""
    from longshot.statistics import tasks_needed
    from longshot.statistics.intervals import t_quantile

    text = f"Undecided: {c.b} is worse by {-c.gain * scale:.2f} {unit} on '{c.testbed}', but chance may explain it"
    half = c.result.difference.half
    if half:
        std = half * c.result.n**0.5 / t_quantile(c.result.n - 1, 0.95)
        text += f"; about {tasks_needed(std, abs(c.gain)):,} tasks would tell"
    return text + "."

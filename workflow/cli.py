"""The command `billow`. Exit codes: 0 done, 2 bad config or input (nothing was started),
3 the run could not go on, 130 interrupted (with a checkpoint)."""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workflow import doctor, plugins, template
from workflow.config import Config, read_config
from workflow.errors import BillowError, ConfigError, DataError
from workflow.plan import Plan, plan

DONE, BAD_INPUT, FAILED, INTERRUPTED = 0, 2, 3, 130

EXAMPLES = """examples:
  billow run configs/khi-laptop.yaml                 learn from a plasma that runs meanwhile
  billow run configs/khi-laptop.yaml learners.count=4 reducer.rule=median
  billow run configs/picongpu-recording.yaml         learn from what PIConGPU wrote
  billow check my.yaml                               name every problem, start nothing
  billow watch runs/khi-laptop-20260101-120000       view of a run, running or finished
  billow simulate configs/khi-laptop.yaml --plot     the plasma alone: energies, growth, picture
  billow init > my.yaml                              a commented config to start from
"""
SIMULATE_EXAMPLES = """examples:
  billow simulate configs/khi-laptop.yaml                    compute, measure; keep energies.csv
  billow simulate configs/khi-laptop.yaml --plot --movie     and draw the vortices
  billow simulate configs/khi-laptop.yaml --out khi.bp5 source.producer.first_step=0
  billow simulate configs/khi-laptop.yaml --stream khi.sst   for a reader that comes on its own
"""
JOIN = "producers.join:join"  # looked up by name, as a config's plug-ins are
JOIN_EXAMPLES = """A producer with `hosts: 2` or more computes a part of its ranks and waits for
other hosts to compute the rest. It prints the command with which they join; under `billow run`
into RUNFOLDER/logs/producer-1.log. By itself it listens on
127.0.0.1 only; `listen: 0.0.0.0:7001` opens it to the network, to those who know the token. The
token is never sent, but nothing is encrypted.

examples:
  billow simulate configs/khi-laptop.yaml source.producer.hosts=2     prints what to run, waits
  billow join 127.0.0.1:40123 --token 5b0c2f...                       in another terminal
on a cluster, with the same BILLOW_TOKEN set on both nodes:
  billow run my.yaml source.producer.hosts=2 source.producer.listen=0.0.0.0:7001
  billow join node1:7001 --wait 300
"""


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    options = _parse(argv)
    logging.basicConfig(
        level=logging.INFO if options.verbose else logging.WARNING,
        format="%(levelname)s %(name)s: %(message)s",
    )
    sys.path.insert(0, os.getcwd())  # plug-ins of a project of one's own
    try:
        return int(options.command(options))
    except (ConfigError, DataError) as e:
        print(f"billow: {e}", file=sys.stderr)
        return BAD_INPUT
    except BillowError as e:
        print(f"billow: {type(e).__name__}: {e}", file=sys.stderr)
        return FAILED
    except Exception:  # of a plug-in, or of ours: shown whole, and never a success
        logging.getLogger(__name__).exception("the command failed")
        return FAILED
    except KeyboardInterrupt:
        print("billow: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return DONE


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Options, with key=value overrides wherever they stand among the flags."""
    parser = _parser()
    options, rest = parser.parse_known_args(argv)
    if rest and (any(r.startswith("-") for r in rest) or not hasattr(options, "overrides")):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:
        options.overrides = [*options.overrides, *rest]
    return options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="billow",
        description="Learn from a plasma simulation while it runs.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--verbose", action="store_true", help="say more on standard error")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(
        name: str, function: Any, text: str, examples: str = EXAMPLES
    ) -> argparse.ArgumentParser:
        command = commands.add_parser(
            name,
            help=text,
            description=text,
            epilog=examples,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.set_defaults(command=function)
        return command

    run = add("run", _run, "run a workflow and show it live")
    _add_config(run)
    run.add_argument("--out", type=Path, help="run folder (default: runs/<name>-<time>)")
    run.add_argument("--inline", action="store_true", help="the same graph in one thread, no Ray")
    run.add_argument("--address", help="of a Ray cluster (default: start Ray on this machine)")
    run.add_argument("--plain", action="store_true", help="lines instead of a live view")
    simulate = add(
        "simulate", _simulate, "run the producer alone: energies, growth rate, pictures",
        SIMULATE_EXAMPLES,
    )  # fmt: skip
    _add_config(simulate)
    simulate.add_argument("--out", type=Path, help="write a BP5 series here (default: none)")
    simulate.add_argument("--stream", type=Path, help="publish on the config's stream, here")
    simulate.add_argument("--plot", action="store_true", help="draw a PNG; needs billow[plot]")
    simulate.add_argument("--movie", action="store_true", help="draw a GIF; needs billow[plot]")
    simulate.add_argument("--plain", action="store_true", help="lines instead of a progress bar")
    join = add("join", _join, "compute a part of a producer that runs elsewhere", JOIN_EXAMPLES)
    join.add_argument("address", metavar="HOST:PORT", help="where the producer listens")
    join.add_argument("--token", help="the run's (default: $BILLOW_TOKEN, which others cannot see)")
    join.add_argument(
        "--wait", type=float, default=60.0, metavar="S", help="for a producer, so long (60)"
    )
    check = add("check", _check, "validate a config and say what it would take; starts nothing")
    _add_config(check)
    watch = add("watch", _watch, "live view of a run, running or finished")
    watch.add_argument("folder", type=Path)
    watch.add_argument("--once", action="store_true", help="show the state now and leave")
    add("doctor", lambda _: doctor.report(), "what this machine can do, in words")
    add("init", _init, "print a commented config template")
    add("schema", _schema, "print the JSON schema of the config, for editors")
    bench = add("bench", _bench, "measure against peers, in one run")
    bench.add_argument("name", help="one of the benchmarks in benchmarks/")
    bench.add_argument("--json", type=Path, help="write the rows to this file, too")
    bench.add_argument("--quick", action="store_true", help="about a minute in all")
    bench.add_argument("--peer-python", help="interpreter with the peers ($BILLOW_PEER_PYTHON)")
    return parser


def _add_config(command: argparse.ArgumentParser) -> None:
    command.add_argument("config", type=Path)
    command.add_argument("overrides", nargs="*", metavar="key=value")


def _read(options: argparse.Namespace) -> tuple[Config, Plan]:
    overrides = list(options.overrides)
    if getattr(options, "address", None):
        overrides.append(f"cluster.address={json.dumps(options.address)}")
    config = read_config(options.config, overrides)
    try:
        return config, plan(config)
    except ConfigError as e:
        raise ConfigError(f"{options.config}: {e}") from e


def _run(options: argparse.Namespace) -> int:
    from workflow import folder as folders
    from workflow import report
    from workflow.run import make_run

    config, built = _read(options)
    folder = folders.make_run_folder(options.out, config.name)
    folders.describe_run(folder, built, inline=options.inline, command=sys.argv)
    view = report.Screen(folder, plain=options.plain)
    run = make_run(built, folder, inline=options.inline, on_turn=view.turn)
    with view:
        summary = run.go()
    report.print_summary(summary, folder)
    if summary["status"] == "failed":
        return FAILED
    return INTERRUPTED if run.stop_asked else DONE


def _simulate(options: argparse.Namespace) -> int:
    from workflow import simulate

    config = read_config(options.config, options.overrides)
    where = simulate.places(
        config, out=options.out, stream=options.stream, plot=options.plot, movie=options.movie
    )
    whole = simulate.simulate(config, where, plain=options.plain)
    return DONE if whole else INTERRUPTED


def _join(options: argparse.Namespace) -> int:
    token = options.token or os.environ.get("BILLOW_TOKEN", "")
    if not token:
        raise ConfigError(
            "--token: wanted the token that the producer printed, or BILLOW_TOKEN, got neither."
        )
    plugins.load(JOIN, "join")(
        options.address,
        token=token,
        wait_s=options.wait,
        say=lambda text: print(f"billow join: {text}", flush=True),
    )
    return DONE


def _check(options: argparse.Namespace) -> int:
    from workflow import report

    config, built = _read(options)
    report.print_estimate(config, built)
    return DONE


def _watch(options: argparse.Namespace) -> int:
    from workflow.watch import watch

    if not (options.folder / "journal").is_dir():
        raise ConfigError(
            f"{options.folder}: wanted a run folder with a journal/ in it, got none. "
            "Give the folder that `billow run` printed."
        )
    watch(options.folder, follow=not options.once)
    return DONE


def _init(options: argparse.Namespace) -> int:
    print(template.TEMPLATE, end="")
    return DONE


def _schema(options: argparse.Namespace) -> int:
    print(json.dumps(Config.model_json_schema(), indent=2))
    return DONE


def _bench(options: argparse.Namespace) -> int:
    name = options.name.replace("-", "_")
    try:
        module = importlib.import_module(f"benchmarks.{name}")
    except ModuleNotFoundError as e:
        if e.name != f"benchmarks.{name}":
            raise
        package = importlib.import_module("benchmarks")
        files = Path(package.__path__[0]).glob("[a-z]*.py")
        known = sorted(p.stem for p in files if "\ndef run(" in p.read_text())
        raise ConfigError(f"bench '{options.name}': there is no such benchmark; {known}.") from e
    if options.peer_python:
        os.environ["BILLOW_PEER_PYTHON"] = options.peer_python
    rows = module.run(quick=options.quick)
    report = {"bench": options.name, "host": doctor.host_facts(), "rows": rows}
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    return DONE


if __name__ == "__main__":
    sys.exit(main())

"""bin/bench: runs `bench/NAME.py` in the venv. Benches get their servers from `bench.topology()`."""

import os
from pathlib import Path

from roundtrip_up import foreground, process_table, venv
from roundtrip_up.folders import ROOT
from roundtrip_up.refusal import Refusal
from roundtrip_up.testing import clean


def names(folder: Path = ROOT / "bench") -> list[str]:
    """The benchmarks there are."""
    return sorted(path.stem for path in folder.glob("*.py") if not path.stem.startswith("_"))


def bench(name: str, arguments: list[str]) -> int:
    """Run one benchmark; its exit status."""
    if name not in names():
        raise Refusal(f"There is no benchmark {name!r}; there are: {', '.join(names()) or 'none yet'}.", status=2)
    found = venv.ensure(venv.RUNTIME, lambda text: print(text, flush=True))
    env = process_table.environment({}, clean(os.environ))
    return foreground.run([str(found.python), "-m", f"bench.{name}", *arguments], env, ROOT)

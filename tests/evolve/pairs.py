"""Pairs in the style of OpenEvolve's users, each with a habit of its own."""

from pathlib import Path

MARKED = '''\
"""Finds a point where a bumpy function is low."""
import math

# EVOLVE-BLOCK-START
def search(n=60):
    best, low = 0.0, 9.0
    for i in range(n):
        x = -3.0 + 0.1 * i
        value = bumpy(x) + 0.0
        if value < low:
            best, low = x, value
    return best
# EVOLVE-BLOCK-END


def bumpy(x):
    return math.sin(3 * x) + 0.1 * x * x
'''

#: No markers at all, and work at the top level.
UNMARKED = """\
import numpy as np

weights = np.array([1.0, 2.0, 3.0])

def predict(xs):
    return [float(weights[0] + weights[1] * x + 0.5 * x) for x in xs]
"""

DICT = """\
import importlib.util, math, time

def evaluate(program_path):
    spec = importlib.util.spec_from_file_location("program", program_path)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    started = time.perf_counter()
    x = program.search()
    value = math.sin(3 * x) + 0.1 * x * x
    return {
        "combined_score": 1.0 / (2.0 + value),
        "distance from 0": abs(x),
        "seconds": time.perf_counter() - started,
        "comment": f"x is {x:.3f}",
        "nothing": None,
    }
"""

OBJECT = '''\
"""Imports the program by its name and hands a result object back; no combined score."""
import os, sys
from openevolve.evaluation_result import EvaluationResult

def evaluate(program_path):
    sys.path.insert(0, os.path.dirname(program_path))
    program = __import__(os.path.splitext(os.path.basename(program_path))[0])
    xs = [0.0, 1.0, 2.0]
    errors = [abs(p - (1 + 3 * x)) for p, x in zip(program.predict(xs), xs)]
    return EvaluationResult(
        metrics={"fit": -sum(errors), "worst": -max(errors)},
        artifacts={"errors": str(errors), "raw": bytes([255, 65])},
    )
'''

SUBPROCESS = '''\
"""Runs the program in a process of its own, through a script and a pickle in temporary files."""
import os, pickle, subprocess, sys, tempfile

SCRIPT = """
import importlib.util, pickle
spec = importlib.util.spec_from_file_location("program", {path!r})
program = importlib.util.module_from_spec(spec)
spec.loader.exec_module(program)
with open({out!r}, "wb") as file:
    pickle.dump(program.search(), file)
"""

def evaluate(program_path):
    with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False) as script:
        out = script.name + ".results"
        script.write(SCRIPT.format(path=program_path, out=out))
    process = subprocess.Popen(
        [sys.executable, script.name], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        _, err = process.communicate(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    if process.returncode:
        return {"combined_score": 0.0, "error": err.decode()[-300:]}
    with open(out, "rb") as file:
        x = pickle.load(file)
    os.unlink(script.name)
    return {"combined_score": float(-abs(x + 0.5))}
'''

STAGED = '''\
"""Cheap stage first; each call leaves a line in a file, to be counted."""
import importlib.util
from dataclasses import dataclass, field

@dataclass
class EvaluationResult:
    metrics: dict
    artifacts: dict = field(default_factory=dict)

def load(path):
    spec = importlib.util.spec_from_file_location("program", path)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    return program

def evaluate(program_path):
    raise RuntimeError("the cascade goes by stages")

def evaluate_stage1(program_path):
    x = load(program_path).search()
    return EvaluationResult({"combined_score": 1.0 - abs(x + 0.5), "in_range": float(-3 <= x <= 3)})

def evaluate_stage2(program_path):
    x = load(program_path).search()
    return EvaluationResult(
        {"combined_score": 2.0 - abs(x + 0.5), "precision": 1 / (0.001 + abs(x + 0.5236))},
        {"where": f"x={x:.2f}"},
    )
'''

POOLED = '''\
"""Many habits at once: a thread with a time limit, a process pool, an alarm, a folder of files."""
import concurrent.futures, importlib.util, multiprocessing, pathlib, shutil, signal, tempfile
import numpy as np

def load(path):
    spec = importlib.util.spec_from_file_location("program", path)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    return program

def work(queue, path):
    queue.put(load(path).search())

def evaluate(program_path):
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copy(program_path, pathlib.Path(folder) / "copy.py")
        with concurrent.futures.ThreadPoolExecutor(max_workers=1) as threads:
            one = threads.submit(load(copy).search).result(timeout=10)
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.alarm(30)
    queue = multiprocessing.Queue()
    process = multiprocessing.Process(target=work, args=(queue, program_path))
    process.start()
    other = queue.get(timeout=20)
    process.join()
    signal.alarm(0)
    return {"combined_score": np.float32(-abs(one)), "same": np.bool_(one == other), "n": 3}
'''


def write_pair(folder: Path, initial: str, evaluator: str) -> tuple[Path, Path]:
    """Write a pair into a new folder and return its two files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = folder / "initial_program.py", folder / "evaluator.py"
    files[0].write_text(initial)
    files[1].write_text(evaluator)
    return files

"""Programs in other languages: built and run by the commands of a task, inside the sandbox."""

import os
import shutil
import time
from pathlib import Path

import pytest

from evolve.check import check_task
from evolve.errors import EvolveError, SandboxError, TaskError
from evolve.evaluate import evaluate, open_pool
from evolve.files import join_files
from evolve.sandbox import Pool, Status
from evolve.sandbox.tiers import probe
from evolve.store import Store
from evolve.task import load_task
from tests.evolve.attacks import commands
from tests.evolve.workers import alive, descendants

pytestmark = pytest.mark.skipif(not probe("A").works, reason=f"no tier A: {probe('A').reason}")

TASK = """\
from evolve.task import Case, Command, Descriptor, Invalid, Limits, Objective, Task

XS = [0.0, 0.5, 1.0, 2.0, 3.0]


def score(output, case):
    if output["exit"]:
        raise Invalid(f"exit status {output['exit']}: {output['stderr']}")
    try:
        values = [float(word) for word in output["stdout"].split()]
    except ValueError as error:
        raise Invalid(str(error)) from None
    if len(values) != len(XS):
        raise Invalid(f"{len(values)} values, {len(XS)} are needed")
    error = sum(abs(a - b) for a, b in zip(values, case.hidden)) / len(XS)
    return {case.name: error, "largest": max(values)}


TASK = Task(
    summary="Print f(x) for every x that is read, close to two curves at once.",
    objectives=[Objective("square", 0.0, 10.0, "min"), Objective("line", 0.0, 10.0, "min")],
    descriptors=[Descriptor("code_length", 0, 800, 8), Descriptor("largest", 0, 20, 5)],
    cases=[
        Case("square", " ".join(map(str, XS)), [x * x for x in XS]),
        Case("line", " ".join(map(str, XS)), [3 * x - 1 for x in XS]),
    ],
    score=score,
    files=FILES,
    command=COMMAND,
    limits=Limits(wall_s=3, cpu_s=1, memory_mb=1024, output_kb=64, scratch_mb=16, processes=24),
    preload=(),
)
"""
MAIN_C = """\
#include <stdio.h>
#include "f.h"

int main(void) {
    double x;
    while (scanf("%lf", &x) == 1)
        printf("%.6f\\n", f(x));
    return 0;
}
"""
F_H = """\
/* EVOLVE-BLOCK-START */
static double f(double x) {
    double y = 1.5 * x;
    double z = y + 2;
    if (z < 3)
        z = z - 1.0;
    return y * z;
}
/* EVOLVE-BLOCK-END */
"""
MAIN_JS = """\
const words = require("fs").readFileSync(0, "utf8").trim().split(/\\s+/);
// EVOLVE-BLOCK-START
function f(x) {
  const y = 1.5 * x;
  return y * (y + 2);
}
// EVOLVE-BLOCK-END
console.log(words.map((word) => f(Number(word))).join("\\n"));
"""
LANGUAGES = {
    "c": ({"main.c": MAIN_C, "f.h": F_H}, ["gcc", "-O1", "-o", "main", "main.c"], ["./main"]),
    "javascript": ({"main.js": MAIN_JS}, [], ["node", "main.js"]),
}


def write_task(place, language):
    """Write the task in one of the languages; skip the test where its tools are missing."""
    files, build, run = LANGUAGES[language]
    tool = (build or run)[0]
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    folder = place / language
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    declared = f"Command(build={build}, run={run})"
    text = TASK.replace("FILES", str(tuple(files))).replace("COMMAND", declared)
    (folder / "task.py").write_text(text)
    return folder


@pytest.fixture(params=LANGUAGES)
def folder(tmp_path, request):
    return write_task(tmp_path, request.param)


@pytest.fixture
def in_c(tmp_path):
    return write_task(tmp_path, "c")


def c_program(body, before=""):
    """The C task's program with another function f."""
    block = f"/* EVOLVE-BLOCK-START */\n{before}\nstatic double f(double x) {{ {body} }}\n"
    return join_files([("main.c", MAIN_C), ("f.h", block + "/* EVOLVE-BLOCK-END */\n")])


def test_the_right_answer_is_scored(folder):
    task = load_task(folder)
    with open_pool(task, 1) as pool:
        start = evaluate(task, task.initial, pool)
        assert start.status == Status.OK
        # By hand: f is 1.5x(1.5x + 2), and one less in the second factor where 1.5x < 1 in C.
        less = 1 if folder.name == "c" else 2
        f = [1.5 * x * (1.5 * x + (less if 1.5 * x < 1 else 2)) for x in (0.0, 0.5, 1.0, 2.0, 3.0)]
        squares = [0.0, 0.25, 1.0, 4.0, 9.0]
        error = sum(abs(a - b) for a, b in zip(f, squares, strict=True)) / 5
        assert start.values["square"] == pytest.approx(error)
        assert start.rewards[0] == pytest.approx(1 - error / 10)
        assert start.descriptors[1] == pytest.approx(max(f))
        block = {"c": "return x * x;", "javascript": "return x * x"}[folder.name]
        old = {"c": "return y * z;", "javascript": "return y * (y + 2);"}[folder.name]
        exact = evaluate(task, task.initial.replace(old, block), pool)
        assert exact.rewards[0] == 1.0
        assert exact.cpu_s > 0
    assert start.outputs_digest != exact.outputs_digest


def test_check_and_a_run_without_a_model(folder, plain_command, tmp_path):
    report = check_task(load_task(folder), mutants=10, workers=1)
    assert report.deterministic
    assert report.valid >= 3
    run = tmp_path / "run"
    small = ("--policy", "mutate", "--set", "search.prompts=2", "--set", "search.rollouts=2")
    plain_command("run", folder, *small, "--evaluations", 24, "--workers", 1, "--out", run)
    with Store(run) as store:
        ok = [v for v in store.evaluations() if v.status == "ok"]
        operators = {c.operator for c in store.candidates() if c.parent is not None}
    assert len(ok) >= 8
    assert operators <= {"number", "operator", "delete", "duplicate", "swap"}
    refused = plain_command("run", folder, "--policy", "pocket", "--out", tmp_path / "p", code=2)
    assert "policy 'pocket' edits Python alone" in refused.stderr
    assert not (tmp_path / "p").exists()
    # A file of the program is a file of the task.
    name = next(iter(LANGUAGES[folder.name][0]))
    (folder / name).write_text((folder / name).read_text() + "\n")
    refused = plain_command("resume", run, code=2)
    assert "its files are not those with which" in refused.stderr


def test_what_the_compiler_says_is_the_feedback(in_c):
    task = load_task(in_c)
    with open_pool(task, 1) as pool:
        verdict = evaluate(task, c_program("return x + unknown;"), pool)
        assert verdict.status == Status.SYNTAX_ERROR
        assert "f.h:3:" in verdict.feedback
        assert "error: ‘unknown’ undeclared" in verdict.feedback
        assert len(verdict.feedback) < 600
        # However long, and whatever it quotes.
        hostile = c_program("\x1b[2J\u202e return x; " + "unknown; " * 3000)
        verdict = evaluate(task, hostile, pool)
        assert verdict.status == Status.SYNTAX_ERROR
        assert verdict.feedback.isprintable()
        assert len(verdict.feedback) < 600
        # What it includes is there in the sandbox, or it is not.
        verdict = evaluate(task, c_program("return x;", '#include "/etc/passwd"'), pool)
        assert verdict.status == Status.SYNTAX_ERROR
        assert "root" not in verdict.feedback
        assert evaluate(task, task.initial, pool).status == Status.OK


def test_what_javascript_says_is_the_feedback(tmp_path):
    task = load_task(write_task(tmp_path, "javascript"))
    with open_pool(task, 1) as pool:
        broken = evaluate(task, task.initial.replace("1.5 * x", "1.5 *"), pool)
        assert broken.status == Status.WRONG
        assert "SyntaxError" in broken.feedback
        assert "main.js:" in broken.feedback
        raising = task.initial.replace("const y = 1.5 * x;", "throw new Error('so it is');")
        assert "Error: so it is" in evaluate(task, raising, pool).feedback
        assert evaluate(task, task.initial, pool).status == Status.OK


INCLUDES = "#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n#include <signal.h>\n"


#: By itself: whether the signal or the silence is seen first is a race.
KILLED = {Status.CRASHED, Status.MEMORY, Status.PROTOCOL_ERROR}


@pytest.mark.parametrize(
    ("body", "statuses", "says"),
    [
        ("for (;;) {}", {Status.TIMEOUT_CPU, Status.TIMEOUT_WALL}, ""),
        ("sleep(60); return x;", {Status.TIMEOUT_WALL}, "no answer within 3 s"),
        ("signal(SIGXCPU, SIG_IGN); for (;;) {}", {Status.TIMEOUT_CPU, Status.TIMEOUT_WALL}, ""),
        # As root the kernel does not count processes; as another user fork fails, and it spins.
        ("for (;;) fork();", {Status.PROCESSES, Status.TIMEOUT_CPU, Status.TIMEOUT_WALL}, ""),
        ("for (;;) puts(\"flood\");", {Status.OUTPUT_LIMIT}, "printed more than 65536 bytes"),
        ("for (;;) fputs(\"flood\", stderr);", {Status.CRASHED, Status.TIMEOUT_CPU,
                                               Status.TIMEOUT_WALL}, ""),
        ("return *(volatile double *)0;", {Status.CRASHED}, "died of signal 11 (SIGSEGV)"),
        ("abort();", {Status.CRASHED}, "SIGABRT"),
        ("exit(3);", {Status.WRONG}, "exit status 3"),
        ("kill(getppid(), SIGKILL); sleep(9); return x;", KILLED, ""),
        ("kill(-1, SIGKILL); sleep(9); return x;", KILLED, ""),
        ("char *p = malloc(2ul << 30); if (!p) exit(7); memset(p, 1, 2ul << 30); return p[9];",
         {Status.WRONG}, "exit status 7"),
        ("puts(\"nan\"); return x;", {Status.WRONG}, "values"),
    ],
)  # fmt: skip
def test_a_failing_program_is_data_and_the_next_is_right(in_c, body, statuses, says):
    task = load_task(in_c)
    with open_pool(task, 1) as pool:
        started = time.monotonic()
        verdict = evaluate(task, c_program(body, INCLUDES), pool)
        assert time.monotonic() - started < 20
        assert verdict.status in statuses, verdict
        assert says in verdict.feedback
        assert verdict.rewards is None
        before = set(filter(alive, descendants(os.getpid())))
        again = evaluate(task, task.initial, pool)
        assert again.status == Status.OK
        assert set(filter(alive, descendants(os.getpid()))) == before


def test_what_one_program_leaves_is_not_there_for_the_next(in_c):
    task = load_task(in_c)
    leave = 'fclose(fopen("/scratch/left", "w")); fclose(fopen("left", "w")); return x;'
    look = 'return access("/scratch/left", 0) == 0 || access("left", 0) == 0 ? 1 : 0;'
    with open_pool(task, 1) as pool:
        # Between the inputs of one program files stay: they are its own.
        both = evaluate(task, c_program(f"if (x == 0) {{ {look} }} {leave}", INCLUDES), pool)
        assert both.status == Status.OK
        clean = evaluate(task, c_program(look, INCLUDES), pool)
        assert clean.values["largest"] == 0.0


def test_a_runner_of_the_tasks_own_calls_the_program_as_often_as_it_likes(in_c):
    (in_c / "run.py").write_text(
        "def run(program, given):\n"
        "    one, two = program(given), program(given, '--again')\n"
        "    assert one == two\n"
        "    return {**one, 'stderr': sorted(one)[0]}\n"
    )
    task = load_task(in_c)
    with open_pool(task, 1) as pool:
        assert evaluate(task, task.initial, pool).status == Status.OK
        crashed = evaluate(task, c_program("abort();", INCLUDES), pool)
        assert (crashed.status, crashed.rewards) == (Status.CRASHED, None)


def test_python_runs_by_a_command_too(tmp_path):
    folder = write_task(tmp_path, "c")
    text = (folder / "task.py").read_text()
    python = shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin")
    if python is None:
        pytest.skip("the system has no python3")
    text = text.replace("('main.c', 'f.h')", "('initial.py',)")
    text = text.replace(text[text.index("command=") : text.index("    limits=")],
                        f"command=Command(run=[{python!r}, 'initial.py']),\n")  # fmt: skip
    (folder / "task.py").write_text(text)
    (folder / "initial.py").write_text(
        "# EVOLVE-BLOCK-START\ndef f(x):\n    return x * x\n# EVOLVE-BLOCK-END\n"
        "print(*[f(float(word)) for word in input().split()])\n"
    )
    task = load_task(folder)
    with open_pool(task, 1) as pool:
        assert evaluate(task, task.initial, pool).rewards[0] == 1.0
        failed = evaluate(task, task.initial.replace("x * x", "x / 0"), pool)
        assert 'File "/scratch/program/initial.py", line 3' in failed.feedback


def test_below_tier_a_it_is_refused_in_one_line(in_c):
    task = load_task(in_c)
    with pytest.raises(SandboxError) as caught:
        Pool(task.runner, (), task.limits, 1, tier="B", command=task.command)
    assert str(caught.value).startswith("candidates that may write files or start processes need")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("'gcc'", "'no-such-compiler'", "no program 'no-such-compiler' is installed here"),
        ("['./main']", "[]", "command: run is empty"),
        ("['./main']", "'./main'", "command: run is './main', a list of words is needed"),
        ('Descriptor("code_length"', 'Descriptor("ast_nodes"', "'code_length' alone is built in"),
        ('Case("line", " ".join(map(str, XS))', 'Case("line", XS', "given is of type list"),
    ],
)
def test_an_unusable_declaration_is_one_line(in_c, old, new, says):
    text = (in_c / "task.py").read_text()
    assert old in text
    (in_c / "task.py").write_text(text.replace(old, new))
    with pytest.raises(EvolveError) as caught:
        task = load_task(in_c)
        with open_pool(task, 1) as pool:
            evaluate(task, task.initial, pool)
    assert isinstance(caught.value, TaskError)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_start_that_does_not_build_is_said_in_one_line(in_c, plain_command, tmp_path):
    (in_c / "f.h").write_text(F_H.replace("1.5 * x", "1.5 * missing"))
    refused = plain_command("run", in_c, "--policy", "mutate", "--out", tmp_path / "r", code=2)
    assert refused.stderr.count("\n") == 1
    assert "main.c: the starting program fails (syntax_error): " in refused.stderr
    assert "‘missing’ undeclared" in refused.stderr
    assert not Path(tmp_path / "r").exists()


def test_attacks_with_processes_and_files_fail_and_leave_nothing():
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    found = list(commands.run_attacks())
    assert not [(number, name, fault) for number, name, _, fault in found if fault]
    listed = [(number, name) for number, name, *_ in (*commands.DEEDS, *commands.ENDS)]
    assert [(number, name) for number, name, *_ in found] == listed
    page = (Path(__file__).parents[2] / "SECURITY.md").read_text()
    rows = page.split(commands.BEGIN)[1].split(commands.END)[0].strip().splitlines()[2:]
    written = [tuple(cell.strip() for cell in row.split("|")[1:3]) for row in rows]
    assert written == [(str(number), name) for number, name in listed]
    assert "GOT THROUGH" not in "".join(rows)

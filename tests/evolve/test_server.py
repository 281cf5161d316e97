"""A campaign with a model server that misbehaves ends as one whose server did not."""

import json
import re
import signal
import threading
import time

import pytest

from evolve.campaign import Observer
from evolve.config import load_config
from evolve.errors import EvolveError, PolicyError
from evolve.launch import resume, start
from evolve.server.wire import read_reply
from evolve.state import restore_state
from evolve.store import Store
from evolve.task import load_task
from tests.evolve.conftest import write_toy_task
from tests.evolve.stub_server import FAULTS, Stub

SETTINGS = (
    "policy.name=openai:stub", "search.prompts=3", "search.rollouts=2", "budget.evaluations=30",
    "server.timeout_s=0.4", "server.connect_s=0.4", "server.first_wait_s=0.01",
    "server.longest_wait_s=0.05", "server.retries=2", "sandbox.workers=1",
)  # fmt: skip


class Quiet(Observer):
    """Keeps what it is told."""

    def __init__(self):
        self.events = []

    def on_event(self, kind, text):
        self.events.append((kind, text))

    def said(self, kind):
        return [text for k, text in self.events if k == kind]


def configured(task, url, *more):
    return load_config(None, [*SETTINGS, f"server.base_url={url}", *more], task=str(task))


def campaign(task, folder, url, *more):
    observer = Quiet()
    start(configured(task, url, *more), folder, observer)
    return observer


def rows(folder):
    """Everything that two runs with equal answers must share."""
    config = load_config(folder / "config.toml")
    with Store(folder) as store:
        state = restore_state(store, load_task(config.task), config.search, config.seed)
        digests = [archive.digest() for archive in state.islands]
        candidates = [(c.id, c.parent, c.source, c.fate, c.tokens) for c in store.candidates()]
        return digests, candidates, store.responses()


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    return write_toy_task(tmp_path_factory.mktemp("task"))


@pytest.fixture(scope="module")
def undisturbed(task, tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    with Stub() as stub:
        campaign(task, folder, stub.url)
    return folder


def test_the_undisturbed_campaign_searches(undisturbed):
    with Store(undisturbed) as store:
        assert sum(1 for _ in store.evaluations()) == 31
        assert len(store.rounds()) >= 2
        rollout = store.rollouts(0, 0)[0]
    assert rollout.logprobs
    assert rollout.tokens == ()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_server_that_misbehaves_and_comes_back(fault, task, undisturbed, tmp_path):
    with Stub([fault] * 2) as stub:
        campaign(task, tmp_path / "run", stub.url)
        assert stub.faults == []
    assert rows(tmp_path / "run") == rows(undisturbed)


def test_the_run_waits_for_a_server_that_is_away(task, undisturbed, tmp_path):
    with Stub(["status_503"] * 12) as stub:
        observer = campaign(task, tmp_path / "run", stub.url)
    away, back = observer.said("server")[:2]
    assert "HTTP 503" in away
    assert "waits for it" in away
    assert "answers again" in back
    assert rows(tmp_path / "run") == rows(undisturbed)


def test_a_server_that_is_killed_and_started_again(task, undisturbed, tmp_path):
    first = Stub(after=3).__enter__()
    # Its port refuses connections until another process listens there.
    done = []

    def swap():
        while len(first.seen) < 3:
            time.sleep(0.005)
        first.__exit__()
        time.sleep(0.5)
        done.append(Stub(port=first.port).__enter__())

    threading.Thread(target=swap, daemon=True).start()
    first.delay = 0.05
    more = ("server.concurrency=1",)
    observer = campaign(task, tmp_path / "run", first.url, *more)
    done[0].__exit__()
    assert any("waits for it" in text for text in observer.said("server"))
    assert rows(tmp_path / "run") == rows(undisturbed)


def test_retry_after_is_heeded_and_bounded(task, tmp_path):
    with Stub(["status_429"], after=0) as stub:
        campaign(task, tmp_path / "a", stub.url, "server.longest_wait_s=0.35",
                 "server.concurrency=1")  # fmt: skip
        assert stub.times[1] - stub.times[0] >= 0.3
    with Stub(["status_429_for_a_day"], after=0) as stub:
        campaign(task, tmp_path / "b", stub.url)


def test_patience_ends_and_the_run_can_be_resumed(task, undisturbed, tmp_path):
    folder = tmp_path / "run"
    with Stub(["status_500"] * 1000) as stub:
        with pytest.raises(PolicyError, match="all the patience of server.patience_s") as caught:
            campaign(task, folder, stub.url, "server.patience_s=0.3")
        assert "\x1b" not in str(caught.value)
        asked = len(stub.seen)
        assert asked > 6
        stub.faults.clear()
        resume(folder, Quiet())
    assert rows(folder) == rows(undisturbed)


def test_what_was_answered_is_not_asked_again(task, undisturbed, tmp_path):
    folder = tmp_path / "run"
    with Stub(["status_500"] * 1000, after=4) as stub:
        with pytest.raises(PolicyError):
            campaign(task, folder, stub.url, "server.patience_s=0.2", "server.concurrency=1")
        with Store(folder) as store:
            known = {record.request for record in store.responses()}
        assert len(known) == 4
        stub.faults.clear()
        stub.seen.clear()
        resume(folder, Quiet())
        again = [body["seed"] for body in stub.seen]
    with Store(folder) as store:
        assert len(again) == len(set(again)) == len(store.responses()) - 4
    assert rows(folder) == rows(undisturbed)


def test_the_order_of_arrival_is_no_matter(task, undisturbed, tmp_path):
    with Stub() as stub:
        stub.delay = 0.15
        campaign(task, tmp_path / "run", stub.url)
    assert rows(tmp_path / "run") == rows(undisturbed)


@pytest.mark.parametrize("takes_n", [False, "refused"])
def test_a_server_that_does_not_take_n_is_asked_more_often(task, takes_n, tmp_path):
    with Stub(takes_n=takes_n) as stub:
        campaign(task, tmp_path / "run", stub.url)
        assert {body.get("n", 1) for body in stub.seen} == {1, 2}
    with Store(tmp_path / "run") as store:
        prompts = store.prompts(0, 10**6)
        assert len(store.rollouts(0, 10**6)) == 2 * len(prompts)
        assert len(store.responses()) == 2 * len(prompts)


@pytest.mark.parametrize("form", ["run", "file"])
def test_a_replay_needs_no_server(form, task, undisturbed, tmp_path, plain_command):
    source = undisturbed
    if form == "file":
        plain_command("export", undisturbed, "--out", tmp_path / "x")
        source = tmp_path / "x" / "responses.jsonl"
    campaign(task, tmp_path / "run", "", f"server.replay={source}")
    assert rows(tmp_path / "run")[:2] == rows(undisturbed)[:2]
    with pytest.raises(PolicyError, match="holds no answer for round 0, prompt 0"):
        campaign(task, tmp_path / "other", "", f"server.replay={source}", "policy.temperature=0.5")


@pytest.mark.parametrize("budget", ["budget.tokens=2500", "budget.cost=0.008"])
def test_a_budget_of_tokens_or_cost_ends_the_run_between_rounds(budget, task, tmp_path):
    prices = ("server.prompt_price=1", "server.completion_price=4")
    with Stub() as stub:
        observer = campaign(task, tmp_path / "run", stub.url, budget, *prices)
        resume(tmp_path / "run", Quiet())
    assert "are used" in observer.said("budget")[0]
    with Store(tmp_path / "run") as store:
        done = store.rounds()
        used, before = store.usage(len(done)), store.usage(len(done) - 1)
        bodies = [json.loads(record.body) for record in store.responses()]
    assert used.tokens == sum(b["prompt_tokens"] + b["completion_tokens"] for b in bodies)
    cost = sum(b["prompt_tokens"] + 4 * b["completion_tokens"] for b in bodies) / 1e6
    assert used.cost == pytest.approx(cost)
    limit, value, earlier = (
        (2500, used.tokens, before.tokens)
        if "tokens" in budget
        else (0.008, used.cost, before.cost)
    )
    assert earlier < limit <= value


def test_a_server_without_log_probabilities_or_counts_searches_all_the_same(
    task, undisturbed, tmp_path
):
    with Stub() as stub:
        stub.logprobs = stub.usage = False
        campaign(task, tmp_path / "run", stub.url)
    assert rows(tmp_path / "run")[0] == rows(undisturbed)[0]
    with Store(tmp_path / "run") as store:
        used = store.usage(10**6)
    assert (used.tokens, used.uncounted) == (0, used.responses)


def test_a_budget_needs_a_server_that_counts(task, tmp_path):
    with Stub() as stub:
        stub.usage = False
        with pytest.raises(PolicyError, match="how many tokens"):
            campaign(task, tmp_path / "run", stub.url, "budget.tokens=100")


def refused(plain_command, *arguments):
    line = plain_command(*arguments, code=2).stderr
    assert line.startswith("error: ")
    assert line.count("\n") == 1
    return line


def test_what_cannot_pass_is_one_line_before_the_run_begins(plain_command, task, tmp_path):
    run = ("run", task, "--out", tmp_path / "r", "--policy")
    assert "--base-url URL is needed" in refused(plain_command, *run, "openai:stub")
    line = refused(plain_command, *run, "openai:stub", "--base-url", "http://127.0.0.1:9/v1")
    assert "127.0.0.1:9" in line
    assert "cannot be reached" in line
    for url in ("localhost:8000", "http://me:pw@host/v1"):
        line = refused(plain_command, *run, "openai:stub", "--base-url", url)
        assert "server.base_url" in line
        assert "pw" not in line
    with Stub(key="sk-right-key") as stub:
        plain_command.environment["OPENAI_API_KEY"] = "sk-wrong-key-1"
        line = refused(plain_command, *run, "openai:stub", "--base-url", stub.url)
        assert "HTTP 401" in line
        assert "sk-wrong-key-1" not in line
        plain_command.environment["OPENAI_API_KEY"] = "sk-right-key"
        line = refused(plain_command, *run, "openai:other", "--base-url", stub.url)
        assert "HTTP 404" in line
        assert "it lists stub" in line
    assert not (tmp_path / "r").exists()


def test_a_context_that_is_too_long_is_one_line(task, tmp_path):
    with Stub() as stub:
        from tests.evolve.stub_server import Handler

        def long(self, _):
            self.fail(400, "This model's maximum context length is 128 tokens")

        Handler.long = long
        stub.faults, stub.after = ["long"] * 100, 1
        with pytest.raises(EvolveError, match="HTTP 400: This model's maximum context length"):
            campaign(task, tmp_path / "run", stub.url)


def test_ctrl_c_while_the_server_is_away(plain_command, task, undisturbed, tmp_path):
    folder = tmp_path / "run"
    settings = [part for one in SETTINGS for part in ("--set", one)]
    with Stub(["status_503"] * 10**6, after=3) as stub:
        process = plain_command.start(
            "run", task, *settings, "--base-url", stub.url, "--out", folder
        )
        while len(stub.seen) < 30 and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        assert process.returncode == 130, out + err
        stub.faults.clear()
        plain_command("resume", folder)
    assert rows(folder) == rows(undisturbed)


KEY = "sk-planted-5a1c77e0b3"


def test_the_key_is_nowhere_in_a_run(plain_command, task, tmp_path):
    folder = tmp_path / "run"
    settings = [part for one in SETTINGS for part in ("--set", one)]
    arguments = ("run", task, *settings, "--out", folder, "--base-url")
    plain_command.environment["OPENAI_API_KEY"] = KEY
    with Stub(["status_500", "echo"] * 2, key=KEY) as stub:
        from tests.evolve.stub_server import Handler

        def echo(self, body):
            # A debugging proxy: the completion and the error repeat what was sent.
            answer = self.good(body)
            answer["choices"][0]["message"]["content"] += self.headers["Authorization"]
            self.send(200, answer)

        Handler.echo = echo
        done = plain_command(*arguments, stub.url)
        texts = [done.stdout, done.stderr]
        for verb in ("show", "export", "report"):
            done = plain_command(verb, folder)
            texts += [done.stdout, done.stderr]
    assert re.search(r"server: \d+ answers", texts[2])
    assert all(KEY not in text for text in texts)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"run.db", "config.toml", "responses.jsonl", "report.html"} <= {p.name for p in files}
    assert [path for path in files if KEY.encode() in path.read_bytes()] == []
    with Store(folder) as store:
        assert any("[key]" in record.body for record in store.responses())


def test_a_key_file_is_read_and_a_bad_one_is_not_repeated(plain_command, task, tmp_path):
    path = tmp_path / "key"
    path.write_text(f"{KEY}\n")
    with Stub(key=KEY) as stub:
        campaign(task, tmp_path / "run", stub.url, f"server.key_file={path}")
    path.write_text(f"{KEY}\nAnd a second line\n")
    line = refused(plain_command, "run", task, "--policy", "openai:stub", "--base-url", "http://h/v1",
                   "--set", f"server.key_file={path}")  # fmt: skip
    assert "holds no key" in line
    assert KEY not in line


def test_hostile_text_of_a_server():
    body = {"choices": [{"message": {"content": "a\ud800b"}, "finish_reason": "stop\x1b[2J"}]}
    (choice,) = read_reply(json.dumps(body).encode(), "").choices
    choice.text.encode()
    assert len(choice.text) == 3
    assert "\x1b" not in choice.finish


def test_the_export_has_groups_and_invents_no_token_ids(undisturbed, plain_command, tmp_path):
    out = plain_command("export", undisturbed, "--out", tmp_path / "x").stdout
    assert "no token ids" in out
    groups = [json.loads(line) for line in (tmp_path / "x" / "groups.jsonl").open()]
    with Store(undisturbed) as store:
        closed = len(store.rounds())
        assert len(groups) == len(store.rollouts(0, closed - 1))
        verdicts = {verdict.candidate: verdict for verdict in store.evaluations()}
        candidates = {(c.rollout, c.answer): c for c in store.candidates()}
    judged = 0
    for row in groups:
        assert row["token_ids"] is None
        assert "".join(row["tokens"]) == row["completion"]
        assert len(row["tokens"]) == len(row["logprobs"])
        for answer, (rewards, span) in enumerate(
            zip(row["rewards"], row["answer_spans"], strict=True)
        ):
            candidate = candidates[row["rollout"], answer]
            text = "".join(row["tokens"][slice(*span)])
            assert f"<answer {answer + 1}>" in text
            verdict = verdicts.get(candidate.id)
            if verdict is not None and verdict.rewards is not None:
                assert rewards == list(verdict.rewards)
                judged += 1
    assert judged > 10

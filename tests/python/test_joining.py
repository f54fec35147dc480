# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""A chief that comes back joins parameter servers that are alive: FUSEWIRE_CHIEF_JOINS=1."""

import re
import threading

import numpy as np
import pytest
import tensorflow as tf
from processes import free_addresses

import fusewire
from fusewire.tf import joining

tf1 = tf.compat.v1

# Each worker counts its own steps on ps:1; the global step is on ps:0. The only checkpoint is of the beginning.
TRAIN = """
with tf1.device("/job:ps/task:0"):
    step = tf1.train.get_or_create_global_step()
with tf1.device("/job:ps/task:1"):
    counts = [tf1.get_variable(f"count{each}", [], tf.int64, tf1.zeros_initializer(), use_resource=each == 0)
              for each in range(2)]
    counted = tf1.assign_add(counts[index], 1, use_locking=True)
with tf1.device(WORKER):
    mine = tf1.get_local_variable("mine", [], tf.int64, tf1.zeros_initializer())
    made = tf1.assign_add(mine, 1)
with tf1.device("/job:ps/task:0"):
    stepped = tf1.assign_add(step, 1, use_locking=True)
apart = tf1.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{index}"])
with tf1.train.MonitoredTrainingSession(server.target, is_chief=index == 0, config=apart, checkpoint_dir="checkpoints",
                                        save_checkpoint_steps=10**6, save_checkpoint_secs=None) as session:
    while True:
        say("COUNT", *session.run([counted, stepped, made]))
        time.sleep(0.005)
"""
PROTOCOLS = ["star_server", "grpc++", pytest.param("grpc", marks=pytest.mark.slow)]


class Counts:
    """A worker's acknowledged steps: its own count on the server, the global step, its count in this session."""

    def __init__(self, cluster, worker) -> None:
        self._cluster, self._worker = cluster, worker
        self.all: list[list[int]] = []

    def read(self, times: int) -> None:
        for _ in range(times):
            self._take(self._cluster.read_until(self._worker, "COUNT", 60))

    def read_to(self, is_there) -> None:
        """Up to the step of which this holds; the worker has written many lines meanwhile."""
        lines = 0
        while not is_there(*self.all[-1]):
            self.read(1)
            lines += 1
            assert lines < 20_000, self.all[-100:]

    def read_rest(self) -> None:
        self._take(self._cluster.rest(self._worker))

    def _take(self, lines: list[str]) -> None:
        self.all += [list(map(int, line.split()[1:])) for line in lines if line.startswith("COUNT")]


@pytest.fixture
def killed(tasks, tmp_path):
    """killed(protocol, NAME=value...) -> the counts of a chief that was killed, of its second life, and of the other
    worker, which saw neither; what the second life has logged."""

    def kill(protocol, **environment):
        cluster = tasks(TRAIN, protocol, workers=2, **environment)
        for index in range(2):
            cluster.start("ps", index)
        chief = cluster.start("worker", 0)
        first = Counts(cluster, chief)
        first.read(20)
        worker = Counts(cluster, cluster.start("worker", 1))
        worker.read(20)
        chief.kill()
        chief.wait()
        first.read_rest()
        worker.read(20)
        logged = (tmp_path / "worker-0.err").read_text()
        second = Counts(cluster, cluster.start("worker", 0))
        second.read(20)
        if second.all[0][0] > 1:
            worker.read_to(lambda _, step, __: step > second.all[0][1])
        else:
            most = max(count for count, _, _ in worker.all)
            worker.read_to(lambda count, *_: count < most)
        return first.all, second.all, worker.all, (tmp_path / "worker-0.err").read_text().removeprefix(logged)

    return kill


@pytest.mark.timeout(200)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_chief_that_was_killed_loses_no_acknowledged_step(killed, protocol):
    before, after, worker, logged = killed(protocol, FUSEWIRE_CHIEF_JOINS="1")
    assert after[0][0] - before[-1][0] in (1, 2)  # the step in which it was killed may have been made
    assert after[0][2] == 1  # what belongs to a session begins anew
    own = [count for count, _, _ in worker]
    assert own == list(range(1, len(own) + 1))
    steps = [step for _, step, _ in worker]
    assert steps == sorted(steps)
    assert "fusewire: the chief worker:0 joins the parameter servers at step" in logged


@pytest.mark.timeout(200)
def test_without_the_setting_the_checkpoint_is_restored_over_living_servers(killed):
    _, after, worker, logged = killed("star_server")
    assert after[0][0] == 1
    own = [count for count, _, _ in worker]
    assert max(own) > own[-1]
    assert "joins" not in logged


# ---- each case, in this process ----


@pytest.fixture(scope="module")
def servers():
    """The target of a worker with two parameter servers."""
    ps, worker = free_addresses(2), free_addresses(1)
    jobs = {"ps": ps, "worker": worker}
    made = [tf1.train.Server(jobs, job_name="ps", task_index=index, protocol="star_server") for index in range(2)]
    made.append(tf1.train.Server(jobs, job_name="worker", task_index=0, protocol="star_server"))
    return made


@pytest.fixture
def target(servers, monkeypatch):
    """Servers without values, and chiefs that join."""
    tf1.Session.reset(servers[-1].target)
    monkeypatch.setenv("FUSEWIRE_CHIEF_JOINS", "1")
    return servers[-1].target


class Model:
    """One step adds 1 to the value, on ps:0, and to the global step, on ps:1."""

    def __init__(self, has_step=True, more=(), **scaffold) -> None:
        self.graph = tf1.Graph()
        self.restores = 0
        with self.graph.as_default():
            with tf.device("/job:ps/task:0"):
                self.value = tf1.get_variable("value", [], tf.int64, tf1.zeros_initializer(), use_resource=True)
                add = [self.value.assign_add(1).op]
            with tf.device("/job:worker/task:0"):
                self.mine = tf1.get_local_variable("mine", [], tf.int64, tf1.ones_initializer())
            with tf.device("/job:ps/task:1"):
                if has_step:
                    self.step = tf1.train.create_global_step()
                    add.append(tf1.assign_add(self.step, 1).op)
                else:
                    self.step = tf1.get_variable("held", [], tf.int64, tf1.zeros_initializer())
                self.more = [make() for make in more]
            self.train = tf.group(*add)
            self.saver = tf1.train.Saver()
            restore = self.saver.restore

            def count(*arguments):
                self.restores += 1
                restore(*arguments)

            self.saver.restore = count
            self._scaffold = tf1.train.Scaffold(
                saver=self.saver, **{name: make() if callable(make) else make for name, make in scaffold.items()}
            )

    def creator(self, target, folder=None, config=None, **more):
        return tf1.train.ChiefSessionCreator(self._scaffold, target, config, folder and str(folder), **more)

    def session(self, *arguments, **more):
        with self.graph.as_default():
            return self.creator(*arguments, **more).create_session()

    def values(self, session):
        return session.run([self.value, self.step, self.mine])


def begin(target, folder, steps=5, saved=2, **model):
    """A job that has made its steps, with a checkpoint of one before; its chief is gone."""
    first = Model(**model)
    with first.session(target) as session:
        for step in range(1, steps + 1):
            session.run(first.train)
            if step == saved:
                first.saver.save(session, str(folder / "model"), global_step=step)


def test_a_chief_joins_as_a_worker_does(target, tmp_path, capfd):
    begin(target, tmp_path)
    second = Model(init_fn=lambda: lambda scaffold, session: pytest.fail("init_fn has run"))
    with second.session(target, tmp_path) as session:
        assert second.values(session) == [5, 5, 1]
        assert second.restores == 0
        assert second.saver.last_checkpoints == [str(tmp_path / "model-2")]
    assert logged(capfd)[-1] == (
        "fusewire: the chief worker:0 joins the parameter servers at step 5; the last checkpoint is of step 2; nothing "
        "was restored or initialised (see: fusewire explain elastic#the-chief-joins-a-living-job)"
    )


def logged(capfd):
    return [line for line in capfd.readouterr().err.splitlines() if line.startswith("fusewire: the chief")]


@pytest.mark.parametrize(
    ("environment", "option", "joins"),
    [
        ({"FUSEWIRE_CHIEF_JOINS": "0"}, None, False),
        ({"FUSEWIRE_CHIEF_JOINS": "0"}, True, True),
        ({}, False, False),
        ({"FUSEWIRE_DISABLE": "1"}, True, False),
    ],
)
def test_it_is_an_option(target, tmp_path, monkeypatch, capfd, environment, option, joins):
    begin(target, tmp_path)
    capfd.readouterr()
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    second = Model()
    with second.session(target, tmp_path, fusewire.ConfigProto(chief_joins=option)) as session:
        assert second.values(session) == ([5, 5, 1] if joins else [2, 2, 1])
    assert ("joins" in capfd.readouterr().err) == joins


def reason_of(capfd):
    """Why the chief has not joined, and what has happened instead."""
    found = re.fullmatch(
        r".* worker:0 does not join the parameter servers: (.*); (.*), as without .*", logged(capfd)[-1]
    )
    return found.groups()


RESTORED = "it restores model-2 into all of them"


def test_a_checkpoint_that_is_ahead_is_restored(target, tmp_path, capfd):
    ahead = tmp_path / "ahead"
    begin(target, ahead, steps=9, saved=9)
    tf1.Session.reset(target)
    begin(target, tmp_path)
    second = Model()
    with second.session(target, ahead) as session:
        assert second.values(session) == [9, 9, 1]
    assert reason_of(capfd) == (
        "they are at step 5, behind the checkpoint's step 9",
        "it restores model-9 into all of them",
    )


def test_a_server_without_its_state_gets_the_checkpoint_and_so_do_all(target, tmp_path, capfd):
    begin(target, tmp_path)
    tf1.Session.reset(target)
    with tf1.Graph().as_default() as graph, tf.device("/job:ps/task:1"):
        step = tf1.train.create_global_step()
        with tf1.Session(target, graph=graph) as session:
            session.run([step.initializer])
            session.run(tf1.assign(step, 7))
    second = Model()
    with second.session(target, tmp_path) as session:
        assert second.values(session) == [2, 2, 1]
    assert reason_of(capfd) == ("value is not initialised", RESTORED)


def test_a_graph_with_a_new_variable_ends_as_without_us(target, tmp_path, capfd):
    begin(target, tmp_path)
    changed = Model(more=[lambda: tf1.get_variable("new", [], initializer=tf1.zeros_initializer())])
    with pytest.raises(tf.errors.NotFoundError, match="Key new not found"):
        changed.session(target, tmp_path)
    assert reason_of(capfd) == ("new is not initialised", RESTORED)


def test_without_a_global_step_the_checkpoint_is_restored(target, tmp_path, capfd):
    begin(target, tmp_path, has_step=False)
    second = Model(has_step=False)
    with second.session(target, tmp_path) as session:
        assert second.values(session)[0] == 2
    assert reason_of(capfd) == ("the graph has no global step to compare with the checkpoint's", RESTORED)


@pytest.mark.parametrize("folder", [None, "empty"])
def test_a_job_without_a_checkpoint_is_joined_once_it_has_made_a_step(target, tmp_path, capfd, folder):
    place = folder and tmp_path / folder
    first = Model()
    with first.session(target, place) as session:
        assert reason_of(capfd) == ("value, global_step are not initialised", "it initialises all variables")
    again = Model()
    with again.session(target, place) as session:
        assert reason_of(capfd) == ("there is no checkpoint, and no step was made", "it initialises all variables")
        session.run(again.train)
    second = Model()
    with second.session(target, place) as session:
        assert second.values(session) == [1, 1, 1]
    assert "at step 1; there is no checkpoint; nothing was restored" in capfd.readouterr().err


def test_without_a_checkpoint_an_init_fn_is_not_left_out(target, tmp_path, capfd):
    begin(target, tmp_path, saved=0)
    ran = []
    second = Model(init_fn=lambda: lambda scaffold, session: ran.append(session))
    with second.session(target, tmp_path) as session:
        assert (second.values(session), len(ran)) == ([0, 0, 1], 1)
    assert reason_of(capfd) == ("there is no checkpoint, and init_fn may not have run", "it initialises all variables")


def test_a_checkpoint_that_cannot_be_read_is_an_error_as_without_us(target, tmp_path, capfd):
    begin(target, tmp_path)
    (tmp_path / "model-2.index").write_bytes(b"no index")
    with pytest.raises((tf.errors.OpError, ValueError)):
        Model().session(target, tmp_path)
    assert re.match(r"checkpoint .*model-2 can't be read: ", reason_of(capfd)[0])


def test_a_named_checkpoint_is_always_restored(target, tmp_path, capfd):
    begin(target, tmp_path)
    capfd.readouterr()
    second = Model()
    with second.session(target, checkpoint_filename_with_path=str(tmp_path / "model-2")) as session:
        assert second.values(session) == [2, 2, 1]
    assert "the chief" not in capfd.readouterr().err


def test_a_local_session_asks_no_server(target, tmp_path, capfd):
    with tf1.Graph().as_default():
        tf1.train.create_global_step()
        tf1.train.ChiefSessionCreator(checkpoint_dir=str(tmp_path)).create_session().close()
    assert "the chief" not in capfd.readouterr().err


# ---- what is not a variable, and ready_ops of others ----


def test_a_ready_op_that_does_not_ask_is_not_believed(target, tmp_path, capfd):
    begin(target, tmp_path)
    nothing = {"ready_for_local_init_op": lambda: tf1.constant([], tf.string)}
    second = Model(**nothing)
    with second.session(target, tmp_path) as session:
        assert second.values(session) == [2, 2, 1]
    assert reason_of(capfd) == ("its ready_op does not ask for value, global_step", RESTORED)


@pytest.mark.parametrize("asks", [True, False])
def test_a_session_manager_alone(target, tmp_path, capfd, asks):
    """Supervisor's way: one ready_op for all, the session's own variables among them."""
    begin(target, tmp_path)
    second = Model()
    with second.graph.as_default():
        ready = tf1.report_uninitialized_variables() if asks else None
        manager = tf1.train.SessionManager(tf1.local_variables_initializer(), ready)
        with manager.prepare_session(target, None, second.saver, str(tmp_path)) as session:
            assert second.values(session) == ([5, 5, 1] if asks else [2, 2, 1])
        session, is_ready = manager.recover_session(target, second.saver, str(tmp_path))
        with session:
            assert second.values(session)[:2] == ([5, 5] if asks else [2, 2])
        assert is_ready
    if not asks:
        assert reason_of(capfd)[0] == "its SessionManager has no ready_op that says which variables are initialised"


def table(device):
    def make():
        with tf.device(device):
            return tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, -1, name="rows")

    return make


@pytest.mark.parametrize(("job", "joins"), [("/job:ps/task:0", True), ("/job:worker/task:0", False)])
def test_a_table_is_believed_to_be_there_if_a_variable_of_its_server_is(target, tmp_path, capfd, job, joins):
    begin(target, tmp_path, more=[table(job)])
    second = Model(more=[table(job)])
    with second.session(target, tmp_path) as session:
        assert second.values(session) == ([5, 5, 1] if joins else [2, 2, 1])
    if not joins:
        assert reason_of(capfd)[0] == (
            "the server of rows has no variable, which would show whether the server has kept its state"
        )


def test_tables_that_each_session_initialises_are_initialised(target, tmp_path):
    def words():
        pairs = tf.lookup.KeyValueTensorInitializer([3], [4], tf.int64, tf.int64)
        return tf.lookup.StaticHashTable(pairs, -1).lookup(tf.constant([3], tf.int64))

    begin(target, tmp_path, more=[words])
    second = Model(more=[words])
    with second.session(target, tmp_path) as session:
        assert session.run([second.value, *second.more]) == [5, [4]]
        assert second.restores == 0


def test_a_savedmodels_initializers_are_run(target, tmp_path, capfd):
    begin(target, tmp_path)
    second = Model()
    with second.graph.as_default():
        tf1.add_to_collection("saved_model_initializers", tf1.no_op())
    with second.session(target, tmp_path) as session:
        assert second.values(session) == [2, 2, 1]
    assert "SavedModel" in reason_of(capfd)[0]


def test_a_model_that_is_not_ready_in_the_end_is_restored(target, tmp_path, capfd):
    begin(target, tmp_path)
    answers = iter([np.array([b"it waits"], object), np.array([], object)])

    def ready():
        say = tf1.py_func(lambda: next(answers), [], tf.string, stateful=True)
        with tf.device("/job:worker/task:0"):
            return tf1.concat([tf1.report_uninitialized_variables(), tf1.reshape(say, [-1])], 0)

    second = Model(ready_op=ready)
    with second.session(target, tmp_path) as session:
        assert second.values(session) == [2, 2, 1]
    assert reason_of(capfd) == ("the model is not ready: Variables not initialized: it waits", RESTORED)


# ---- errors ----


def test_an_unknown_kind_of_variable_or_saver_is_not_an_error(target, tmp_path, capfd):
    begin(target, tmp_path)
    second = Model()
    with second.graph.as_default():
        second.saver.build()
    second.saver._var_list.append("of another library")
    with second.session(target, tmp_path) as session:
        assert second.values(session) == [2, 2, 1]
    assert reason_of(capfd) == ("its graph has what we don't know: 'str' object has no attribute 'device'", RESTORED)


def test_a_question_without_an_answer_ends(target, tmp_path, capfd, monkeypatch):
    """A server that is stopped between the creation of the session and the question, over stock gRPC."""
    begin(target, tmp_path)
    monkeypatch.setattr(joining, "ASK_S", 1.0)
    answers = []

    def ready():
        with tf.device("/job:ps/task:0"):
            queue = tf1.FIFOQueue(9, [tf.string], [[0]], shared_name="answers")
            answers.append(queue.enqueue_many([tf1.zeros([9, 0], tf.string)]))
            waits = queue.dequeue()
        return tf1.concat([tf1.report_uninitialized_variables(tf1.global_variables()), waits], 0)

    second = Model(ready_for_local_init_op=ready)
    say = joining._say

    def said(text):
        say(text)
        with tf1.Session(target, graph=second.graph) as session:
            session.run(answers[0])

    monkeypatch.setattr(joining, "_say", said)
    with second.session(target, tmp_path) as session:
        assert second.values(session) == [2, 2, 1]
    assert reason_of(capfd) == ("they did not say within 1 s what they have", RESTORED)
    assert not [each for each in threading.enumerate() if each.name == "fusewire-close" and not each.daemon]


def test_an_error_of_the_question_ends_as_without_us(target, tmp_path, capfd, monkeypatch):
    begin(target, tmp_path)

    def fail(self, question):
        raise tf.errors.InternalError(None, None, "it broke\nhere")

    monkeypatch.setattr(joining.Asker, "answer", fail)
    second = Model()
    with second.session(target, tmp_path) as session:
        assert second.values(session) == [2, 2, 1]
    assert reason_of(capfd) == ("asking them failed: InternalError: it broke", RESTORED)


@pytest.mark.parametrize("kind", [tf.errors.AbortedError, tf.errors.UnavailableError])
def test_a_session_that_is_lost_is_made_again_and_the_servers_asked_again(target, tmp_path, capfd, monkeypatch, kind):
    begin(target, tmp_path)
    answer, wrong = joining.Asker.answer, [kind(None, None, "lost in the question")]

    def lost_once(self, question):
        if wrong:
            raise wrong.pop()
        return answer(self, question)

    monkeypatch.setattr(joining.Asker, "answer", lost_once)

    class LoseOnce(tf1.train.SessionRunHook):
        def begin(self):
            self.left = [kind(None, None, "lost in a step")]

        def after_run(self, context, values):
            if self.left:
                raise self.left.pop()

    model = Model()
    with model.graph.as_default(), tf1.train.MonitoredSession(model.creator(target, tmp_path), [LoseOnce()]) as session:
        for expected in (7, 8):  # the step in which the first session was lost was made
            session.run(model.train)
            assert session.run(model.value) == expected
    assert model.restores == 0
    assert capfd.readouterr().err.count("worker:0 joins the parameter servers") == 2


# ---- under `fusewire run --restarts` ----


@pytest.mark.parametrize(("given", "expected"), [({}, "1"), ({"FUSEWIRE_CHIEF_JOINS": "0"}, "0")])
def test_restarts_switch_it_on(fusewire_command, given, expected):
    words = ["--ps", "0", "--", "sh", "-c", "echo joins: $FUSEWIRE_CHIEF_JOINS"]
    assert f"joins: {expected}" in fusewire_command("run", "--restarts", "1", *words, **given).ok()
    assert "joins: 1" not in fusewire_command("run", *words).ok()
    named = fusewire_command("run", "--restarts", "1", "--env", "FUSEWIRE_CHIEF_JOINS=0", *words)
    assert "joins: 0" in named.ok()


# The chief is killed once. It writes no checkpoint, and its second life must not repeat the warm start.
ESTIMATOR = """
import os, pathlib, signal
import tensorflow as tf
tf1 = tf.compat.v1

def model(features, labels, mode):
    total = tf1.get_variable("total", [], tf.int64, tf1.zeros_initializer())
    step = tf1.train.get_or_create_global_step()
    train = tf.group(total.assign_add(1), tf1.assign_add(step, 1))
    hooks = [Tell(total, step)]
    return tf.estimator.EstimatorSpec(mode, loss=tf.constant(0.0), train_op=train, training_hooks=hooks)

class Tell(tf1.train.SessionRunHook):
    def __init__(self, total, step):
        self._held, self._made = [total, step], 0
    def after_create_session(self, session, coordinator):
        print("began", *session.run(self._held), flush=True)
    def after_run(self, context, values):
        self._made += 1
        if config.task_type == "chief" and self._made == 40 and not os.path.exists("killed"):
            pathlib.Path("killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)

warm = f"warm-{os.getpid()}/model"
with tf1.Graph().as_default(), tf1.Session() as session:
    tf1.get_variable("total", [], tf.int64, tf1.constant_initializer(1000))
    session.run(tf1.global_variables_initializer())
    tf1.train.Saver().save(session, warm)
config = tf.estimator.RunConfig("model", protocol="star_server", save_checkpoints_steps=None,
                                save_checkpoints_secs=None, experimental_max_worker_delay_secs=0)
estimator = tf.estimator.Estimator(model, config=config, warm_start_from=warm)
inputs = lambda: tf.data.Dataset.from_tensors(({"x": tf.ones([1])}, 0)).repeat()
tf.estimator.train_and_evaluate(estimator, tf.estimator.TrainSpec(inputs, max_steps=100),
                                tf.estimator.EvalSpec(inputs, steps=1))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(tf, "estimator"), reason="this TensorFlow has no Estimator")
@pytest.mark.parametrize("joins", [True, False])
def test_an_estimators_chief_neither_repeats_its_warm_start_nor_leaves_it_out(fusewire_command, tmp_path, joins):
    (tmp_path / "train.py").write_text(ESTIMATOR)
    words = ["run", "--chief", "--workers", "0", "--restarts", "1", "--timeout", "80", "train.py"]
    done = fusewire_command(*words, FUSEWIRE_CHIEF_JOINS=str(int(joins)))
    began = re.findall(r"chief +\| began (\d+) (\d+)", done.ok())
    assert began == [("1000", "0"), ("1040", "40") if joins else ("1000", "0")], done.error

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The tables of tools/tidy.py: which room may include which, which calls have one place, and every exception."""

# The rooms that a room may include. Rooms on one floor (buffer, wire, reactor) never include each other.
ROOMS = {
    "base": (),
    "buffer": ("base",),
    "wire": ("base",),
    "reactor": ("base",),
    "observe": ("wire", "base"),
    "transport": ("wire", "buffer", "reactor", "base"),
    "pipe": ("wire", "transport", "buffer", "reactor", "base"),
    "task": ("pipe", "wire", "transport", "buffer", "reactor", "base"),
    "rpc": ("task", "pipe", "wire", "transport", "buffer", "reactor", "base"),
    "p2p": ("task", "pipe", "wire", "transport", "buffer", "reactor", "base"),
    "collective": ("p2p", "task", "pipe", "observe", "wire", "transport", "buffer", "reactor", "base"),
    "mpi": ("collective", "p2p", "base"),
    "tf": ("rpc", "collective", "p2p", "task", "pipe", "observe", "wire", "transport", "buffer", "reactor", "base"),
}

# A room that is a wing: its folders, and which of them each may include. The folders of other rooms never meet.
WINGS = {
    "tf": {
        "heads": (),
        "bridge": ("heads",),
        "profile": ("bridge",),
        "peer": ("profile", "bridge", "heads"),
        "provide": ("peer", "profile", "bridge", "heads"),
        "receive": ("peer", "profile", "bridge", "heads"),
        "collective": ("peer", "profile", "bridge"),
        "fuse": ("receive", "peer", "bridge"),
        "compress": ("fuse", "bridge"),
        "state": ("bridge",),
        "snapshot": ("state", "peer", "bridge", "heads"),
        "star": ("heads",),
        "star/cut": ("fuse", "bridge"),
        "star/call": ("star", "receive", "peer", "profile", "bridge", "heads"),
        "star/serve": ("star", "star/cut", "snapshot", "state", "receive", "peer", "profile", "bridge", "heads"),
        "star/home": ("star/cut", "star/serve", "receive", "profile", "bridge"),
        "server": (
            *("star", "star/cut", "star/call", "star/serve", "star/home", "snapshot", "state"),
            *("compress", "fuse", "collective", "receive", "provide", "peer", "profile", "bridge", "heads"),
        ),
        "threads": ("star/call", "star/serve", "snapshot", "state", "receive", "provide", "peer", "bridge"),
    },
    "collective": {
        "kernels": (),
        "schedule": ("kernels",),
        "run": ("schedule", "kernels"),
        "arena": ("kernels",),
        "group": ("arena", "run", "schedule", "kernels"),
        "c_api": ("group", "run", "schedule", "kernels"),
    },
}

# Folders in which each source has a test that needs no cluster.
TESTED = ("src/fusewire/tf/",)

# A decoder that no fuzz target calls by its name, or a source that reads bytes itself: the target that reaches it, or
# None, and how. A decoder is a header and its name.
DECODERS = {
    "src/fusewire/tf/bridge/tensor.h:ParseProto": (None, "protobuf's own parser"),
    "src/fusewire/tf/bridge/tensor.h:DecodeStrings": (
        "tf_heads",
        "PackedTexts; Parsers.RowsOfTensors makes the tensors",
    ),
    "src/fusewire/tf/peer/fused.h:DecodeFused": ("tf_heads", "DecodeFusedItem; peer/fused_test.cc makes the tensors"),
    "src/fusewire/tf/state/holding.h:ParseTensor": (None, "protobuf's own parser, and TensorFlow's"),
    "src/fusewire/tf/bridge/tensor.cc": ("tf_heads", "takes so many elements as the shape has"),
    "src/fusewire/tf/peer/fused.cc": ("tf_heads", "takes the texts that DecodeFusedCount announces"),
    "src/fusewire/tf/star/call/run_op.cc": ("tf_heads", "takes a text, which is a protobuf"),
    "src/fusewire/collective/group/control_message.cc": ("group_control", "by DecodeControl"),
}

# Pages whose tables and paragraphs name tests.
PAGES_WITH_TESTS = ("SECURITY.md", "docs/reliability.md")
# Where every row and paragraph has to name one: {page: {heading: how a paragraph begins that promises nothing}}.
PROMISES = {
    "SECURITY.md": {
        "What the wire does about it": (),
        "The status port": (),
        "Where it listens": ("Bind to an address of the private network",),
    },
}
NO_TEST = ("-", "not measured", "the same")  # how a cell elsewhere says so

# Code that is allowed only in some places of src/: (rule, pattern, what to do instead, {place: the reason}). A place is
# a file, a folder with a trailing slash, or a class with a trailing dot (its .h and .cc). Tests may use all of it,
# except for the rules in CALLS_IN_TESTS_TOO.
CALLS = [
    (
        "getenv",
        r"\b(secure_)?getenv\s*\(",
        "a room takes an Options struct; its caller reads the environment",
        {"src/fusewire/tf/server/options.cc": "where the plug-in reads its settings"},
    ),
    (
        "new",
        # Left alone: a private constructor's unique_ptr<T>(new T), placement, #include <new>.
        r"^(?!.*unique_ptr).*(?<!operator )(?<!<)\bnew\b(?!\s*\((?!std::nothrow))",
        "own by type: Buffer, std::make_unique or a member; memory by size is allocated in buffer/",
        {
            "include/fusewire/base/unique_function.h": "UniqueFunction owns by hand for all others",
            "src/fusewire/base/": "a few words live until the process ends",
            "src/fusewire/observe/watch.cc": "lives until the process ends, as those who record do",
            "src/fusewire/reactor/reactor.cc": "a piece of mail belongs to the mailbox until it is delivered",
            "src/fusewire/tf/": "a call owns itself until its end; TensorFlow's factories take pointers",
        },
    ),
    (
        "delete",
        r"(?<!= )(?<!operator )\bdelete\b(?!d)",
        "own by type: std::unique_ptr or a member",
        {
            "include/fusewire/base/unique_function.h": "UniqueFunction owns by hand for all others",
            "src/fusewire/reactor/reactor.cc": "a piece of mail ends itself when it has been delivered",
            "src/fusewire/rpc/peer_calls.cc": "a ServerCall outlives its PeerCalls for as long as a Reply is out",
            "src/fusewire/tf/": "calls and receives own themselves until their end",
        },
    ),
    (
        "thread",
        r"std::j?thread\b(?!::)|\bpthread_create\b|std::async\b",
        "threads are started by reactor/ alone; Post a task to one",
        {
            "src/fusewire/reactor/": "the room that owns the threads",
            "src/fusewire/observe/port.": "it answers while every reactor is blocked",
            "src/fusewire/transport/dialing.cc": "the system's resolver blocks; it does so on a thread of its own",
            "src/fusewire/collective/group/arena_lane.": "meetings in an arena block; what has no waiter blocks here",
            "src/fusewire/tf/server/session.cc": "a cancel runs TensorFlow's callbacks, which no reactor waits for",
            "src/fusewire/tf/star/serve/part.": "the end of a part may wait for TensorFlow's pool",
            "src/fusewire/tf/snapshot/snapshots.": "it copies all variables, and waits for the file system",
        },
    ),
    (
        "lock",
        r"\bstd::((recursive_|shared_|timed_)*mutex|condition_variable\w*|lock_guard|(unique|scoped|shared)_lock)\b"
        r"|#include <(mutex|shared_mutex|condition_variable)>|\babsl::(Mutex|CondVar)\b|\b(tensorflow|tsl)::mutex\w*"
        r"|\bpthread_(mutex|cond|rwlock|spin)_\w+",
        "at home nothing is shared: Post to the home of what you want to touch. What threads do share is behind a "
        "Mutex of base/mutex.h, which the compiler checks",
        {
            "src/fusewire/base/mutex.": "what a Mutex is made of",
            "src/fusewire/tf/star/serve/program.": "a variable's lock, which TensorFlow hands over with the variable",
            "src/fusewire/tf/state/holding.": "the same",
            "src/fusewire/tf/bridge/graphs.": "TensorFlow's lock of its own table",
        },
    ),
    (
        "mutex",
        r"\bMutex\s+\w+;",
        "nothing is shared between threads: Post to the home of what you want to touch",
        {
            "src/fusewire/buffer/budget.": "taken when a window grows or shrinks, never per message",
            "src/fusewire/observe/tags.h": "a name is looked up once",
            "src/fusewire/observe/watch.h": "a task is added once; the port's thread reads",
            "src/fusewire/task/acceptor.h": "any thread asks where a task listens, at home or not",
            "src/fusewire/reactor/cancel.h": "taken as such a wait begins and ends; hooks run without it",
            "src/fusewire/transport/dialing.cc": "once for each name; its thread blocks and has no mailbox",
            "src/fusewire/transport/tls/context.": "taken as a connection begins",
            "src/fusewire/collective/group/arena_lane.": "waiting callers enter the arena, one after the other",
            "src/fusewire/collective/group/group_monitor.": "the lane's thread and the home ask for the same names",
            "src/fusewire/mpi/world.": "XLA calls from any of its threads",
            "src/fusewire/tf/": "TensorFlow calls from any of its threads and does not wait",
        },
    ),
    (
        "memcpy",
        r"\b(std::)?(memcpy|memmove|bcopy)\s*\(",
        "copies of payload are counted: CopyBytes of base/bytes.h; headers are coded in wire/",
        {
            "src/fusewire/base/": "CopyBytes is defined here",
            "src/fusewire/wire/": "encoders and decoders copy numbers of a few bytes",
            "src/fusewire/tf/state/holding.": "a snapshot is a copy, and no message",
            "src/fusewire/tf/peer/fused.cc": "over gRPC, which copies what it carries in any case",
            "src/fusewire/collective/kernels/arithmetic.cc": "in shared memory the copy is the transport",
        },
    ),
    (
        "exception",
        r"\bthrow\b|\bcatch\s*\(",
        "return a Status or a Result",
        {},
    ),
    (
        "abort",
        r"\b(std::)?(abort|exit|_Exit|quick_exit|terminate)\s*\(|\bassert\s*\(",
        "FUSEWIRE_CHECK for a bug of ours, a Status for any other error",
        {"src/fusewire/base/log.cc": "how FUSEWIRE_CHECK ends the process"},
    ),
    (
        "print",
        r"\bstd::(cout|cerr|clog)\b|\b(std::)?(f?printf|v?dprintf|f?puts|perror)\s*\(",
        "FUSEWIRE_LOG of base/log.h: levels, one fact a line",
        {
            "src/fusewire/base/log.cc": "the last message of a process; the log itself may be broken",
        },
    ),
    (
        "clock",
        r"\b(steady|system|high_resolution)_clock::now\b|\bclock_gettime\s*\(|\bgettimeofday\s*\(",
        "take a Clock of base/clock.h, so that tests can advance it",
        {
            "src/fusewire/base/clock.cc": "where Clock asks the system",
            "src/fusewire/base/log.cc": "a log line has the time of day, even with a virtual clock",
        },
    ),
    (
        "random",
        r"std::(random_device|mt19937(_64)?)\b|(?<![\w.>])s?rand\s*\(|\bgetrandom\s*\(",
        "base/random.h: seeded, so that a run can be repeated",
        {"src/fusewire/base/random.cc": "seeds come from the system here"},
    ),
    (
        "epoll",
        r"\bepoll_(create1?|ctl|p?wait2?)\s*\(",
        "Reactor::Watch",
        {"src/fusewire/reactor/": "the room that owns the loop"},
    ),
    (
        "socket",
        r"(?<![\w.>])(::)?(socket|accept4?|connect|listen|bind|setsockopt|sendmsg|recvmsg|readv|writev)\s*\((?!\))",
        "sockets belong in transport/",
        {
            "src/fusewire/transport/": "the room that holds sockets",
            "src/fusewire/observe/port.cc": "it answers while every reactor is blocked: no transport of theirs",
            "src/fusewire/observe/folder.cc": "asks the kernel whether a status port is still served",
        },
    ),
    (
        "sleep",
        r"\bsleep_(for|until)\s*\(|\b(u|nano)?sleep\s*\(",
        "wait for the event itself, with a deadline; in a simulation, advance the virtual clock",
        {},
    ),
    (
        "capture",
        r"\[=[,\]]",
        "name each capture",
        {},
    ),
]
CALLS_IN_TESTS_TOO = ("sleep", "capture")

LINE_COLUMNS_MAX = 120
FILE_LINES_MAX = 800
FILES_LONGER = {}  # path: why it can't be split

CHANGE_CHARACTERS_MAX = 400

# Words that no native engineer would use here, and better ones. The list grows.
WORDS = {
    r"\b(his|him|himself)\b": "its or it: a part of a program is a thing",
    r"\b(broke|breaks?) the law\b|\bcheats?\b": "violate the protocol",
    r"\bsomething else " + r"than\b": "not a ..., anything but",
    r"\bat the " + r"least\b": "at least",
    r"\bstanding " + r"job\b": "stalled job",
    r"InAny" + r"Weather": "UnderRandomFaults: a test's name says what happens",
}

# The same, in the Python package alone.
PYTHON_WORDS = {
    r"\b(un)?mend(s|ed|ing)?\b": "patch, fix or repair",
    r"\bseats?(_\w+)?\b": "rank",
    r"\b(guest|doorman)s?\b": "what it is: a candidate, a connection",
    r"\btelling\b": "report or announce",
    r"\blanes_of\b": "track: Perfetto's word",
    r"\bclass _?Meeting\b|\bmeet\(": "bootstrap: how ranks find each other",
}

# Hosts that a file may name. The project downloads nothing from an address: packages are installed by name, from the
# machine's configured sources.
HOSTS = {
    "apps.kubernetes.io": "a label, not an address",
    "batch.kubernetes.io": "an annotation",
    "kubeflow.org": "a kind of Kubernetes",
    "networking.k8s.io": "a kind of Kubernetes",
    "sidecar.istio.io": "an annotation",
    "trainer.kubeflow.org": "a kind of Kubernetes",
    "www.apache.org": "the address of the licence",
    "example.com": "reserved for examples",
    "example.org": "reserved for examples",
}

CLASS_FUNCTIONS_MAX = 30
CLASS_MEMBERS_MAX = 15  # data

# The exceptions that were over these bounds when the rules came, each with its own bound, which is never raised. An
# entry that is no longer needed is a finding.
CLASSES_LARGER = {}
CLASSES_WITH_MORE_MEMBERS = {}

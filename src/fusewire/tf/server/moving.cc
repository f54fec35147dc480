// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/moving.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <map>
#include <optional>
#include <utility>

#include <absl/strings/ascii.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <tensorflow/core/platform/env.h>

#include "fusewire/base/clock.h"
#include "fusewire/base/log.h"
#include "fusewire/base/mutex.h"
#include "fusewire/base/random.h"
#include "fusewire/tf/bridge/status.h"
#include "fusewire/tf/peer/marks.h"

namespace fusewire::tf {
namespace {

constexpr int64_t kPieceNs = 10 * kSecondNs;  // for one piece of a round
constexpr int64_t kCountNs = 2 * kSecondNs;   // to say how many tasks it has
constexpr int64_t kTakeNs = 600 * kSecondNs;  // to take one: its state is copied meanwhile
constexpr size_t kTakersMax = 4096;           // of one process's siblings

// Asks, and waits. The answer's content follows its status.
TfStatus AskOver(const ChannelPtr& channel, uint16_t method, const std::string& request, int64_t timeout_ns,
                 rpc::Client::Answer* answer, VarReader* content) {
  GlobalCounters().Add(&Counters::calls_out);
  *answer = channel->client().Ask(method, ConstBytes(request), Buffers(), timeout_ns);
  channel->ReportStatus(answer->status);
  if (!answer->status.ok()) return ToTf(answer->status);
  *content = VarReader{ConstBytes(answer->head)};
  TfStatus status;
  TF_RETURN_IF_ERROR(ReadTfStatus(content, &status));
  return status;
}

class RemotePredecessor final : public Predecessor {
 public:
  RemotePredecessor(ChannelPtr channel, uint64_t taker) : channel_(std::move(channel)), taker_(taker) {}

  TfStatus Ask(MoveWant want, HandedOver* answer, std::vector<std::string>* pieces) override {
    rpc::Client::Answer got;
    VarReader content{ConstBytes()};
    TF_RETURN_IF_ERROR(AskOver(channel_, kHandOver, EncodeHandOver({taker_, want}), kPieceNs, &got, &content));
    const Status read = DecodeHandedOver(&content, answer);
    if (!read.ok()) return absl::DataLossError(read.cause());
    pieces->clear();
    for (const Buffer& piece : got.body) pieces->push_back(ConstBytes(piece.bytes()).ToString());
    return TfStatus();
  }

 private:
  const ChannelPtr channel_;
  const uint64_t taker_;
};

// A value that another thread sets once, perhaps after the wait for it has ended.
template <class T>
class Awaited {
 public:
  void Say(T value) {
    MutexLock lock(mutex_);
    value_ = std::move(value);
    said_.NotifyAll();
  }
  // Nothing: it was not set in time.
  std::optional<T> Await(int64_t limit_ns) {
    const int64_t until_ns = AddNs(Clock::Real()->NowNs(), limit_ns);
    MutexLock lock(mutex_);
    while (!value_.has_value() && said_.WaitUntil(mutex_, until_ns)) {
    }
    return value_;
  }

 private:
  Mutex mutex_;
  CondVar said_;
  std::optional<T> value_ FUSEWIRE_GUARDED_BY(mutex_);
};

// The text lives until the network is done with it.
Buffer BufferOf(std::string text) {
  auto* kept = new std::string(std::move(text));
  return Buffer::WrapReadOnly(ConstBytes(*kept), kept,
                              [](void* owner, Bytes) { delete static_cast<std::string*>(owner); });
}

}  // namespace

std::unique_ptr<Predecessor> ReachPredecessor(task::Task& own, const Owner& owner, uint64_t taker) {
  Channel::Options options;
  Result<transport::Address> address = transport::Address::Parse(owner.address);
  if (address.ok()) options.address = address.value();
  options.incarnation = owner.holder;
  options.target = owner.task;
  return std::make_unique<RemotePredecessor>(Channel::Make(own, std::move(options)), taker);
}

rpc::Method HandOverMethod(Departures* departures) {
  return {kHandOver, "HandOver",
          [departures](const rpc::Request& request, rpc::Reply reply) {
            GlobalCounters().Add(&Counters::calls_in);
            HandOver asked;
            Status read = DecodeHandOver(request.head, &asked);
            if (!read.ok()) return reply.Send(std::move(read));
            // shared_ptr: std::function wants copies.
            auto kept = std::make_shared<rpc::Reply>(std::move(reply));
            departures->OnHandOver(
                asked, [kept](const TfStatus& status, const HandedOver& said, std::vector<std::string> pieces) {
                  std::string head;
                  Buffers body;
                  AppendTfStatus(status, &head);
                  if (status.ok()) AppendHandedOver(said, &head);
                  for (std::string& piece : pieces) body.push_back(BufferOf(std::move(piece)));
                  kept->Send(Status::Ok(), head, std::move(body));
                });
          },
          nullptr};
}

rpc::Method TakeTaskMethod(const tensorflow::ServerDef& def, TakeHere take, std::function<size_t()> tasks) {
  auto carry_out = [def, take = std::move(take), tasks = std::move(tasks)](const TakeTask& asked, TakenTask* answer) {
    if (!asked.task.empty()) {
      Result<std::vector<int>> index = ReadTasks(asked.task, def, "the task");
      if (!index.ok() || index.value().size() != 1)
        return TfStatus(absl::InvalidArgumentError(absl::StrCat("it can't take ", asked.task)));
      const int64_t pause_ms = static_cast<int64_t>(std::max<uint64_t>(asked.pause_ms_max, 1));
      TF_RETURN_IF_ERROR(take(index.value()[0], pause_ms, &answer->said));
    }
    answer->process = ProcessId();
    answer->tasks = tasks();
    return TfStatus();
  };
  return {kTakeTask, "TakeTask",
          [carry_out](const rpc::Request& request, rpc::Reply reply) {
            GlobalCounters().Add(&Counters::calls_in);
            TakeTask asked;
            Status read = DecodeTakeTask(request.head, &asked);
            if (!read.ok()) return reply.Send(std::move(read));
            auto kept = std::make_shared<rpc::Reply>(std::move(reply));  // as above
            tensorflow::Env::Default()->SchedClosure([carry_out, asked, kept] {
              TakenTask answer;
              const TfStatus status = carry_out(asked, &answer);
              std::string head;
              AppendTfStatus(status, &head);
              if (status.ok()) AppendTakenTask(answer, &head);
              kept->Send(Status::Ok(), head);
            });
          },
          nullptr};
}

ChannelPtr AwaitRoute(const Ways& ways, int64_t limit_ns, bool* is_grpc_only) {
  using Answer = std::pair<TfStatus, ChannelPtr>;
  auto answer = std::make_shared<Awaited<Answer>>();  // shared_ptr: the answer may come after the wait for it
  ways.peer->Route(ways.side, [answer](const TfStatus& status, const ChannelPtr& channel) {
    answer->Say({status, channel});
  });
  const std::optional<Answer> said = answer->Await(limit_ns);
  *is_grpc_only = said.has_value() && said->first.ok() && said->second == nullptr;
  return said.has_value() ? said->second : nullptr;
}

TfStatus GiveAway(const std::string& task, uint64_t pause_ms_max, const std::vector<Ways>& siblings,
                  std::string* said) {
  struct Taker {
    uint64_t tasks = 0;
    ChannelPtr channel;
  };
  std::map<uint64_t, Taker> takers;  // by process
  std::string unheard;
  for (size_t i = 0; i < std::min(siblings.size(), kTakersMax); ++i) {
    bool is_grpc_only = false;
    const ChannelPtr channel = AwaitRoute(siblings[i], kCountNs, &is_grpc_only);
    if (channel == nullptr || channel->options().epoch == 0) continue;
    rpc::Client::Answer answer;
    VarReader content{ConstBytes()};
    TakenTask taken;
    const TfStatus asked = AskOver(channel, kTakeTask, EncodeTakeTask({}), kCountNs, &answer, &content);
    if (!asked.ok()) absl::StrAppend(&unheard, "; ", asked.message());
    if (!asked.ok() || !DecodeTakenTask(&content, &taken).ok() || taken.process == ProcessId()) continue;
    takers[taken.process] = {taken.tasks, channel};
  }
  while (!takers.empty()) {
    auto least = takers.begin();
    for (auto taker = takers.begin(); taker != takers.end(); ++taker) {
      if (taker->second.tasks < least->second.tasks) least = taker;
    }
    rpc::Client::Answer answer;
    VarReader content{ConstBytes()};
    TakenTask taken;
    const TfStatus asked =
        AskOver(least->second.channel, kTakeTask, EncodeTakeTask({task, pause_ms_max}), kTakeNs, &answer, &content);
    if (asked.ok() && DecodeTakenTask(&content, &taken).ok()) {
      *said = taken.said;
      return TfStatus();
    }
    absl::StrAppend(&unheard, "; ", asked.message());
    takers.erase(least);
  }
  return absl::UnavailableError(absl::StrCat("no other process takes ", task, unheard));
}

// ---- a process that ends ----

namespace {

std::atomic<int> draining_count{0};
std::atomic<int> term_pipe{-1};  // the end of a pipe into which the signal writes
struct sigaction term_before;    // what the signal did

void OnTerm(int) {
  const int kept = errno;
  const char byte = 0;
  if (write(term_pipe.load(), &byte, 1) < 0) ++draining_count;  // nothing else can be done here
  errno = kept;
}

// Nothing: it has not ended by then.
std::optional<TfStatus> DrainWithin(int64_t limit_ns, std::function<TfStatus()> drain) {
  auto drained = std::make_shared<Awaited<TfStatus>>();  // shared_ptr: it may end after the limit
  tensorflow::Env::Default()->SchedClosure([drained, drain = std::move(drain)] { drained->Say(drain()); });
  return drained->Await(limit_ns);
}

void Await(int end, int64_t limit_ns, const std::function<TfStatus()>& drain) {
  char byte = 0;
  while (read(end, &byte, 1) != 1) {
    if (errno != EINTR) return;
  }
  ++draining_count;
  sigaction(SIGTERM, &term_before, nullptr);  // a second one ends the process at once
  const std::optional<TfStatus> drained = DrainWithin(limit_ns, drain);
  if (drained.has_value() && drained->ok()) {
    FUSEWIRE_LOG(kInfo, "this process was told to end, and other processes serve what it has served");
    std::fflush(nullptr);
    if (term_before.sa_handler == SIG_DFL) _exit(0);  // not by exit: TensorFlow's threads still run
  } else {
    FUSEWIRE_LOG(
        kWarn, "this process was told to end, and still has tasks: %s; see: fusewire explain elastic#moving",
        drained.has_value() ? drained->ToString().c_str() : "they could not be moved in the time of FUSEWIRE_DRAIN");
  }
  kill(getpid(), SIGTERM);
}

}  // namespace

uint64_t ProcessId() {
  static const uint64_t id = SystemRandom64() | 1;
  return id;
}

bool IsDraining() { return draining_count > 0; }

Draining::Draining() { ++draining_count; }
Draining::~Draining() { --draining_count; }

void DrainBeforeTheEnd(int64_t limit_ns, std::function<TfStatus()> drain) {
  static std::atomic<bool> has_begun{false};
  if (has_begun.exchange(true)) return;
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC) != 0) {
    FUSEWIRE_LOG(kWarn, "FUSEWIRE_DRAIN has no effect: pipe: errno %d", errno);
    return;
  }
  term_pipe = ends[1];
  tensorflow::Env::Default()->SchedClosure(
      [end = ends[0], limit_ns, drain = std::move(drain)] { Await(end, limit_ns, drain); });
  struct sigaction action = {};
  action.sa_handler = OnTerm;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGTERM, &action, &term_before);
}

// ---- what a process is told ----

namespace {

constexpr size_t kShownTaskBytesMax = 80, kDigitsMax = 9;

std::string ShownWords(absl::string_view text) {
  std::string shown(text.substr(0, kShownTaskBytesMax));
  for (char& letter : shown) {
    if (!absl::ascii_isprint(static_cast<unsigned char>(letter))) letter = '?';
  }
  return absl::StrCat("\"", shown, shown.size() < text.size() ? "..." : "", "\"");
}

// FUSEWIRE_TASKS is "ps:0,ps": ...
Status WrongTask(const char* what, const std::string& text, const std::string& why, const std::string& next) {
  return Status::Invalid(absl::StrCat(what, " is ", ShownWords(text), ": ", why)).Next(next);
}

// False: it is not JOB:INDEX.
bool ParseTask(absl::string_view word, absl::string_view* job, int* index) {
  const size_t colon = word.rfind(':');
  if (colon == 0 || colon == absl::string_view::npos) return false;
  const absl::string_view number = word.substr(colon + 1);
  *job = word.substr(0, colon);
  return number.size() <= kDigitsMax && number.find_first_not_of("0123456789") == absl::string_view::npos &&
         absl::SimpleAtoi(number, index);
}

constexpr const char* kSeeOrders = "; see: fusewire explain elastic#orders";

TfStatus Refused(const std::string& words, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat(ShownWords(words), " is not done: ", why, kSeeOrders));
}

}  // namespace

std::set<int> TasksOf(const tensorflow::ServerDef& def) {
  std::set<int> found;
  for (const tensorflow::JobDef& job : def.cluster().job()) {
    if (job.name() != def.job_name()) continue;
    for (const auto& task : job.tasks()) found.insert(task.first);
  }
  return found;
}

Result<std::vector<int>> ReadTasks(const std::string& text, const tensorflow::ServerDef& def, const char* what) {
  std::vector<int> tasks;
  if (text.empty()) return tasks;
  const std::set<int> known = TasksOf(def);
  std::set<int> named;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    const absl::string_view word = absl::StripAsciiWhitespace(part);
    absl::string_view job;
    int index = 0;
    if (!ParseTask(word, &job, &index))
      return WrongTask(what, text, ShownWords(word) + " is not a task",
                       "write JOB:INDEX,JOB:INDEX, for example ps:0,ps:2");
    if (job != def.job_name()) {
      return WrongTask(what, text,
                       absl::StrCat("the program's server is ", def.job_name(), ":", def.task_index(), ", and ",
                                    ShownWords(word), " is a task of another job"),
                       "set it only for processes that serve tasks of that job");
    }
    if (known.count(index) == 0) {
      return WrongTask(
          what, text,
          absl::StrCat("the cluster has no ", ShownWords(word), ", but ", known.size(), " tasks of this job"),
          "name tasks of the cluster, or add it to the cluster of every task");
    }
    if (!named.insert(index).second)
      return WrongTask(what, text, ShownWords(word) + " is named twice", "name each task once, in one process");
    if (index != def.task_index()) tasks.push_back(index);
  }
  return tasks;
}

TfStatus CarryOut(const std::string& words, const tensorflow::ServerDef& def, const OrderHandlers& handlers,
                  std::string* done) {
  const std::vector<std::string> parts = absl::StrSplit(words, ' ');
  const bool adopts = parts.size() == 2 && parts[0] == "adopt", moves = parts.size() == 3 && parts[0] == "move";
  const bool drains = parts.size() == 2 && parts[0] == "drain";
  if (!adopts && !moves && !drains)
    return Refused(
        words, "it is not an order; next: write adopt JOB:INDEX, move JOB:INDEX MILLISECONDS or drain MILLISECONDS");
  int pause_ms = 0;
  if (!adopts && (!absl::SimpleAtoi(parts.back(), &pause_ms) || pause_ms < 0))
    return Refused(words, "it does not end with the milliseconds for which steps may stand still");
  TfStatus status;
  if (drains) {
    status = handlers.drain(pause_ms, done);
  } else {
    Result<std::vector<int>> index = ReadTasks(parts[1], def, "the task");
    if (!index.ok()) return Refused(words, index.status().cause());
    // It may be the process's own in the cluster, and elsewhere now.
    const int task = index.value().empty() ? def.task_index() : index.value()[0];
    if (index.value().size() > 1 || parts[1].empty() || (adopts && index.value().empty()))
      return Refused(words, "this process is to take over one task that is not its own");
    status = adopts ? handlers.adopt(task, done) : handlers.move(task, pause_ms, done);
  }
  if (status.ok()) return status;
  return TfStatus(status.code(), absl::StrCat(ShownWords(words), " is not done: ", status.message(), kSeeOrders));
}

}  // namespace fusewire::tf
